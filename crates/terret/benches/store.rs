//! What the log costs. Prints `NAME<tab>FIGURE` a line, for `cargo xtask bench`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use terret::core::chunk::Chunk;
use terret::core::fact::{AssistantChunk, Fact};
use terret::core::line::{FORMAT, SessionHeader, SessionTag};
use terret::store::{FileStore, Journal, Scan, Store};

/// Pieces one network read brings.
const BATCH: usize = 32;

/// Reads that are timed.
const READS: usize = 5_000;

fn main() {
    let home = tempfile::tempdir().unwrap();
    let store = FileStore::new(home.path());
    let mut journal = Journal::new(store.create(header()).unwrap());
    let fact = chunk();
    let mut spent = 0;
    for read in 0..READS {
        let started = cpu_ns();
        for _ in 0..BATCH {
            journal.push(1_790_000_000_000 + read as u64, &fact).unwrap();
        }
        journal.write().unwrap();
        spent += cpu_ns() - started;
    }
    let events = (READS * BATCH) as f64;
    println!("store: a piece of a stream, appended\t{:.0}", spent as f64 / events);
    drop(journal);

    let log = std::fs::read(store.log_path("bench")).unwrap();
    println!("store: bytes of such a line\t{:.0}", log.len() as f64 / events);
    let started = Instant::now();
    let mut scan = Scan::new(&log[..], std::path::Path::new("bench")).unwrap();
    let mut read = 0_u64;
    while let Some(event) = scan.next_event().unwrap() {
        black_box(event.unwrap());
        read += 1;
    }
    assert_eq!(read, events as u64);
    println!(
        "store: reading back with every check, MB/s\t{:.0}",
        log.len() as f64 / started.elapsed().as_micros() as f64
    );
    println!("store: reading back a line\t{:.0}", started.elapsed().as_nanos() as f64 / events);
}

/// A piece whose line is about 150 bytes.
fn chunk() -> Fact {
    let chunk = Chunk::TextDelta { index: 0, text: "four words of it ".into() };
    Fact::AssistantChunk(AssistantChunk { turn: 1, step: 1, attempt: 1, chunk })
}

fn header() -> SessionHeader {
    SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: "bench".parse().unwrap(),
        created: 0,
        cwd: ".".into(),
        by: "bench".into(),
        parent: None,
        origin: None,
    }
}

/// Nanoseconds of CPU this thread has used.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
