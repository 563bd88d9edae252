//! `xtask mock`: a scripted chat-completions server on loopback, made to disturb what it measures least.
//!
//! One thread a connection, HTTP/1.1 kept alive, answers chunked, no TLS. What to answer follows from the
//! request alone (how many assistant messages it holds), so the server keeps no conversation.

mod http;
mod script;

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Outcome;
use crate::args::Args;
pub(crate) use script::Scenario;

/// One request as the server saw it. Times count from the server's start.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Which connection it came on, counted from 0.
    pub(crate) connection: usize,
    /// Size of its body.
    pub(crate) body_bytes: usize,
    /// When its last byte was read.
    pub(crate) request_end: Duration,
    /// When the last byte of its reply was handed to the kernel; `None` while it is being sent.
    pub(crate) reply_end: Option<Duration>,
}

/// A request that is complete; its reply waits for the watcher to return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Counted from 0 over all connections.
    pub(crate) nth: usize,
    /// Whether its reply ends the scenario.
    pub(crate) last: bool,
}

/// Called for each request before anything of its reply is sent.
pub(crate) type Watcher = Box<dyn Fn(Arrival) + Send + Sync>;

/// A running server; stops accepting when dropped.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Binds a loopback port (0: any) and serves from threads of its own.
    pub(crate) fn start(port: u16, scenario: Scenario, watcher: Watcher) -> io::Result<Server> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            scenario,
            // A burst is megabytes: built before anybody waits for it.
            burst: if let Scenario::Burst(_) = scenario { scenario.reply(0) } else { Vec::new() },
            watcher,
            started: Instant::now(),
            records: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&listener, &accepting));
        Ok(Server { address, shared })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Everything seen so far, in order of arrival.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.shared.records().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the accepting thread; if even that fails it stays parked until the process ends.
        let _ = TcpStream::connect(self.address);
    }
}

/// Milliseconds from the end of each reply to the end of the next request: what the client adds to a step.
pub(crate) fn gaps_ms(records: &[Record]) -> Vec<f64> {
    let pairs = records.iter().zip(records.iter().skip(1));
    pairs
        .filter_map(|(before, after)| {
            Some(after.request_end.checked_sub(before.reply_end?)?.as_secs_f64() * 1e3)
        })
        .collect()
}

/// `xtask mock`: serves until it is killed, one line of JSON on stdout for each request answered.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let scenario = args.value("--scenario")?.unwrap_or(Scenario::Text);
    let port = args.value("--port")?.unwrap_or(0);
    args.finish()?;
    let server = Server::start(port, scenario, Box::new(|_| ()))?;
    println!("{}", json!({"base_url": format!("http://127.0.0.1:{}/v1", server.port())}));
    let mut shown = 0;
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let records = server.records();
        for (nth, record) in records.iter().enumerate().skip(shown) {
            let Some(reply_end) = record.reply_end else {
                break;
            };
            let before = nth.checked_sub(1).and_then(|n| records[n].reply_end);
            let gap = before.and_then(|before| record.request_end.checked_sub(before));
            let line = json!({
                "request": nth,
                "connection": record.connection,
                "body_bytes": record.body_bytes,
                "request_end_us": record.request_end.as_micros() as u64,
                "reply_end_us": reply_end.as_micros() as u64,
                "gap_us": gap.map(|gap| gap.as_micros() as u64),
            });
            if writeln!(io::stdout(), "{line}").is_err() {
                return Ok(ExitCode::SUCCESS);
            }
            shown = nth + 1;
        }
    }
}

struct Shared {
    scenario: Scenario,
    burst: Vec<Vec<u8>>,
    watcher: Watcher,
    started: Instant,
    records: Mutex<Vec<Record>>,
    stopped: AtomicBool,
}

impl Shared {
    /// A watcher that panicked must not hide what was recorded before.
    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request; its body has just been read.
    fn answer(&self, connection: usize, body: &[u8], stream: &mut TcpStream) -> io::Result<()> {
        let request_end = self.started.elapsed();
        let nth = {
            let mut records = self.records();
            records.push(Record { connection, body_bytes: body.len(), request_end, reply_end: None });
            records.len() - 1
        };
        let step = script::assistant_messages(body);
        (self.watcher)(Arrival { nth, last: self.scenario.ends_at(step) });
        let fresh;
        let writes = if self.burst.is_empty() {
            fresh = self.scenario.reply(step);
            &fresh
        } else {
            &self.burst
        };
        stream.write_all(http::EVENT_STREAM_HEAD)?;
        let Some((end, body)) = writes.split_last() else {
            return Ok(());
        };
        for part in body {
            stream.write_all(part)?;
        }
        // Stamped before the write: the client may be at work before this thread runs again.
        let reply_end = self.started.elapsed();
        stream.write_all(end)?;
        self.records()[nth].reply_end = Some(reply_end);
        Ok(())
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (connection, stream) in listener.incoming().enumerate() {
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        // A client that hangs up is an ordinary end of its connection.
        std::thread::spawn(move || serve(connection, stream, &shared));
    }
}

fn serve(connection: usize, mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(256 * 1024, stream.try_clone()?);
    let mut body = Vec::new();
    while let Some(head) = http::read_request(&mut reader, &mut stream, &mut body)? {
        if head.is_completion() {
            shared.answer(connection, &body, &mut stream)?;
        } else {
            stream.write_all(http::NOT_FOUND)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
