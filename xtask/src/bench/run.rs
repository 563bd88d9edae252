//! One run of one program against the mock server, observed from outside.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::Result;
use super::notes::Notes;
use super::program::{Dirs, Program, Start, isolate};
use crate::mock::{Arrival, Record, Scenario, Server};
use crate::proc;

/// No run takes a tenth of this on a machine fit to measure on.
const RUN_LIMIT: Duration = Duration::from_secs(180);

/// System calls that wait for the disk.
const SYNCS: [&str; 6] = ["fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync"];

/// What one run cost.
pub(super) struct Observed {
    /// CPU from birth until the first request was complete and the process slept.
    pub(super) start_cpu_ns: u64,
    /// The same until the last request.
    pub(super) last_cpu_ns: u64,
    /// CPU from birth to exit, in ticks of 10 ms.
    pub(super) whole_cpu_ns: u64,
    /// Highest resident memory, seen at the last request.
    pub(super) peak_rss_kib: u64,
    /// What the server saw.
    pub(super) records: Vec<Record>,
    /// Text deltas in the session's log.
    pub(super) logged_deltas: usize,
}

/// Makes a fresh home and working directory for each run, on the disk that holds the build.
pub(super) struct Runner {
    base: PathBuf,
    count: AtomicUsize,
}

impl Runner {
    pub(super) fn new(base: PathBuf) -> io::Result<Runner> {
        let base = base.join(std::process::id().to_string());
        fs::create_dir_all(&base)?;
        Ok(Runner { base, count: AtomicUsize::new(0) })
    }

    /// Runs a scenario to its end.
    pub(super) fn observe(&self, program: &Program, scenario: Scenario) -> Result<Observed> {
        let dirs = self.dirs()?;
        let notes = Arc::new(Notes::default());
        let taking = notes.clone();
        let server = Server::start(0, scenario, Box::new(move |arrival| taking.take(arrival)))?;
        let mut child = program.spawn(&Start { port: server.port(), dirs: &dirs, scenario, https: false })?;
        notes.set_pid(child.id());
        let ended = wait(&mut child)?;
        let noted = notes.lock().clone();
        let (Some(start_cpu_ns), Some(last_cpu_ns)) = (noted.start_cpu_ns, noted.last_cpu_ns) else {
            let seen = server.records().len();
            return Err(format!("{} ended ({}) after {seen} requests", program.name(), ended.how).into());
        };
        if !ended.success {
            return Err(format!("{} failed ({})", program.name(), ended.how).into());
        }
        let observed = Observed {
            start_cpu_ns,
            last_cpu_ns,
            whole_cpu_ns: ended.cpu_ns,
            peak_rss_kib: noted.peak_rss_kib,
            records: server.records(),
            logged_deltas: count_deltas(&dirs.home)?,
        };
        fs::remove_dir_all(&dirs.root)?;
        Ok(observed)
    }

    /// CPU from birth until a TLS handshake's first bytes arrive; nobody answers them.
    pub(super) fn observe_hello(&self, program: &Program) -> Result<u64> {
        let dirs = self.dirs()?;
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let start = Start { port, dirs: &dirs, scenario: Scenario::Text, https: true };
        let mut child = program.spawn(&start)?;
        let cpu_ns = first_hello(&listener, &mut child).and_then(|stream| {
            let cpu_ns = proc::settled_cpu_ns(child.id());
            drop(stream);
            Ok(cpu_ns?)
        });
        // It would only try again; its handshake has no other side.
        child.kill()?;
        child.wait()?;
        fs::remove_dir_all(&dirs.root)?;
        cpu_ns
    }

    /// Syncs before the first request, by a slow run under strace. `None`: no strace here, or not allowed.
    pub(super) fn count_syncs(&self, program: &Program) -> Result<Option<usize>> {
        if !strace_works() {
            return Ok(None);
        }
        let dirs = self.dirs()?;
        let trace = dirs.root.join("trace");
        let found = Arc::new(Mutex::new(None));
        let (reading, setting) = (trace.clone(), found.clone());
        let watcher = Box::new(move |arrival: Arrival| {
            // strace writes a line before it lets the call return, so all that happened before is there.
            let text = fs::read_to_string(&reading).unwrap_or_default();
            if arrival.nth == 0 {
                *setting.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(text.lines().filter(|line| is_sync(line)).count());
            }
        });
        let server = Server::start(0, Scenario::Text, watcher)?;
        let plain = program.command(&Start {
            port: server.port(),
            dirs: &dirs,
            scenario: Scenario::Text,
            https: false,
        });
        let mut traced = Command::new("strace");
        traced.args(["-f", "-qq", "-e", &format!("trace={}", SYNCS.join(",")), "-o"]).arg(&trace).arg("--");
        traced.arg(plain.get_program()).args(plain.get_args());
        let ended = wait(&mut isolate(&mut traced, &dirs).spawn()?)?;
        let count = *found.lock().unwrap_or_else(PoisonError::into_inner);
        let count = count.ok_or_else(|| format!("no request came under strace ({})", ended.how))?;
        fs::remove_dir_all(&dirs.root)?;
        Ok(Some(count))
    }

    fn dirs(&self) -> io::Result<Dirs> {
        let root = self.base.join(self.count.fetch_add(1, Ordering::Relaxed).to_string());
        let dirs = Dirs { home: root.join("home"), work: root.join("work"), root };
        fs::create_dir_all(&dirs.home)?;
        fs::create_dir_all(&dirs.work)?;
        Ok(dirs)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Only an empty one goes: what a failed run left behind is there to be looked at.
        let _ = fs::remove_dir(&self.base);
    }
}

struct Ended {
    success: bool,
    how: String,
    cpu_ns: u64,
}

/// Waits for the end, and reads the accounts before they are reaped.
fn wait(child: &mut Child) -> Result<Ended> {
    let started = Instant::now();
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(pid), options)?.is_none() {
        if started.elapsed() > RUN_LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(format!("no end after {} s", RUN_LIMIT.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let cpu_ns = proc::whole_cpu_ns(child.id())?;
    let status = child.wait()?;
    Ok(Ended { success: status.success(), how: status.to_string(), cpu_ns })
}

/// The connection on which a handshake record arrived.
fn first_hello(listener: &TcpListener, child: &mut Child) -> Result<std::net::TcpStream> {
    listener.set_nonblocking(true)?;
    let started = Instant::now();
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(Duration::from_secs(10)))?;
                let mut record = [0; 2];
                stream.read_exact(&mut record)?;
                if record != [0x16, 0x03] {
                    return Err("what came over https is no TLS handshake".into());
                }
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(status) = child.try_wait()? {
            return Err(format!("ended ({status}) before it said hello").into());
        }
        if started.elapsed() > Duration::from_secs(30) {
            return Err("no TLS handshake came in 30 s".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Tried on a real process: a container may have the program and forbid the tracing.
fn strace_works() -> bool {
    let mut trial = Command::new("strace");
    trial.args(["-o", "/dev/null", "true"]);
    let status = trial.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Whether a line of strace begins a sync; lines that resume one do not count again.
fn is_sync(line: &str) -> bool {
    let call = line.split_once(' ').map_or("", |(_, rest)| rest.trim_start());
    SYNCS.iter().any(|name| call.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
}

/// Lines with a text delta in all session logs below a home.
fn count_deltas(home: &Path) -> io::Result<usize> {
    let mut count = 0;
    let Ok(sessions) = fs::read_dir(home.join("sessions")) else {
        return Ok(0);
    };
    for session in sessions {
        let log = session?.path().join("log.jsonl");
        let Ok(file) = File::open(log) else { continue };
        let lines = io::BufRead::lines(io::BufReader::new(file));
        for line in lines {
            count += usize::from(line?.contains(r#""type":"text-delta""#));
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::is_sync;

    #[test]
    fn only_the_start_of_a_sync_counts() {
        assert!(is_sync("9320  fdatasync(3)                      = 0"));
        assert!(is_sync("9320 fsync(3 <unfinished ...>"));
        assert!(!is_sync("9320 <... fsync resumed>)               = 0"));
        assert!(!is_sync("9318  --- SIGCHLD {si_signo=SIGCHLD} ---"));
        assert!(!is_sync("9318 syncthing(1)"));
    }
}
