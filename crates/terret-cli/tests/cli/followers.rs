//! Twenty readers of one session, in processes and threads of their own, over the death of its writer and another's
//! taking over: all of them read the same lines, and those are the file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terret::store::Follow;

use crate::place::{PATIENCE, Place, Running, wait_until};
use crate::server::{Reply, Server, says};

/// Answers killed in their middle, each followed by another writer.
const DEATHS: usize = 3;

#[test]
fn twenty_readers_read_the_same_over_the_death_of_the_writer() {
    let place = Place::new();
    let server = Server::start(|_, request| match request.prompt().as_str() {
        "go on" => Reply::Slow(says("went on, and on, and on"), Duration::from_millis(1)),
        _ => Reply::Slow(says(&"word ".repeat(5_000)), Duration::from_millis(1)),
    });
    let (over, mut readers) = (Arc::new(AtomicBool::new(false)), Vec::new());
    for death in 0..DEATHS {
        let how: &[&str] = if death == 0 { &["--session-id", "s", "long"] } else { &["-c", "long"] };
        let before = place.bytes().len();
        let mut writer = place.start(&server.run(how));
        wait_until("the session is there", || place.bytes().len() > before);
        if death == 0 {
            readers.extend((0..4).map(|_| Reader::process(&place, 0)));
            readers.extend((0..3).map(|_| Reader::thread(&place.log(), 0, &over)));
        }
        let chunks = count(&place);
        wait_until("the answer is in its middle", || count(&place) > chunks + 20);
        if death == 0 {
            readers.push(Reader::process(&place, 9));
            readers.extend([0, 0, 7, 15].map(|from| Reader::thread(&place.log(), from, &over)));
        }
        writer.kill();
        // In the middle of a write.
        let mut log = OpenOptions::new().append(true).open(place.log()).unwrap();
        log.write_all(b"{\"seq\":99,\"time\":1796044883518,\"type\":\"assistant/chu").unwrap();
        if death == 0 {
            readers.extend([0, 21].map(|from| Reader::process(&place, from)));
            readers.extend([0, 30].map(|from| Reader::thread(&place.log(), from, &over)));
        }
        let taker = place.start(&server.run(&["-c", "go on"]));
        wait_until("another writer is at it", || count_of(&place, "writer/opened") == 2 * (death + 1));
        if death == 1 {
            readers.extend([0, 50].map(|from| Reader::process(&place, from)));
            // One of them waits for an event that is long in coming.
            let last = place.events().len() as u64;
            readers.extend([0, last + 12].map(|from| Reader::thread(&place.log(), from, &over)));
        }
        taker.end().exits(0).says("torn");
    }
    assert_eq!(readers.len(), 20);
    let log = place.bytes();
    over.store(true, Ordering::Release);
    for reader in readers {
        reader.ends_with(&log);
    }
    place.ok(&["verify", "s"]);
}

fn count(place: &Place) -> usize {
    count_of(place, "assistant/chunk")
}

fn count_of(place: &Place, kind: &str) -> usize {
    String::from_utf8_lossy(&place.bytes()).matches(kind).count()
}

/// One who reads along, from an event on.
enum Reader {
    Process { from: usize, running: Running, shown: std::path::PathBuf },
    Thread { from: usize, thread: JoinHandle<Vec<u8>> },
}

impl Reader {
    fn process(place: &Place, from: usize) -> Self {
        let shown = tempfile::NamedTempFile::new_in(place.work()).unwrap().into_temp_path().keep().unwrap();
        let text = from.to_string();
        let command = place.command(&["log", "s", "--json", "--follow", "--from", &text]);
        let running = Running::with_stdout(command, std::fs::File::create(&shown).unwrap());
        Reader::Process { from, running, shown }
    }

    fn thread(log: &Path, from: u64, over: &Arc<AtomicBool>) -> Self {
        let (path, over) = (log.to_owned(), over.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(read(&path, from, &over))
        });
        Reader::Thread { from: from as usize, thread }
    }

    /// It has read this log, from its event on, and nothing else.
    fn ends_with(self, log: &[u8]) {
        let lines: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
        let (what, read, expected) = match self {
            Reader::Process { from, mut running, shown } => {
                let expected = [lines[0], &lines[from + 1..].concat()].concat();
                let read = || std::fs::read(&shown).unwrap();
                let since = Instant::now();
                while read().len() < expected.len() && since.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(5));
                }
                running.kill();
                (format!("the process from {from}"), read(), expected)
            }
            Reader::Thread { from, thread } => {
                (format!("the thread from {from}"), thread.join().unwrap(), lines[from + 1..].concat())
            }
        };
        let same = read.iter().zip(&expected).take_while(|(a, b)| a == b).count();
        let (got, wanted) = (read.len(), expected.len());
        assert!(read == expected, "{what} read {got} bytes, not {wanted}; the first {same} are right");
    }
}

/// Reads until nothing comes once it is over.
async fn read(log: &Path, from: u64, over: &AtomicBool) -> Vec<u8> {
    let mut follow = Follow::open(log, from).await.unwrap();
    let mut read = Vec::new();
    loop {
        let is_over = over.load(Ordering::Acquire);
        match tokio::time::timeout(Duration::from_secs(1), follow.next()).await {
            Ok(event) => {
                let event = event.unwrap();
                assert_eq!(event.seq, from + read.iter().filter(|b| **b == b'\n').count() as u64);
                read.extend([follow.bytes(), b"\n"].concat());
            }
            Err(_) if is_over => return read,
            Err(_) => {}
        }
    }
}
