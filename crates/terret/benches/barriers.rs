//! What barriers cost when a thousand sessions of one process ask for them. Prints `NAME<tab>FIGURE` a line, for
//! `cargo xtask bench`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use terret::core::chunk::Chunk;
use terret::core::fact::{AssistantChunk, Fact};
use terret::core::line::{FORMAT, SessionHeader, SessionTag};
use terret::store::{FileStore, Journal, Store};

const SESSIONS: usize = 1_000;
const BARRIERS: usize = 20;
/// Threads of the bare files: with fewer or more of them the disk takes less.
const THREADS: usize = 64;
/// Measured in turns, since a machine is seldom quiet: the median counts.
const TURNS: usize = 7;

fn main() {
    // Not on a file system in memory: there is no barrier there.
    let home = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let (mut bare, mut ours, mut share) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bare.push(raw(&home.path().join("bare")));
        ours.push(sessions(&home.path().join("sessions")));
        share.push(100.0 * ours.last().unwrap() / bare.last().unwrap());
    }
    println!("barriers: of 1,000 bare files, a second\t{:.0}", median(bare));
    println!("barriers: of 1,000 sessions, a second\t{:.0}", median(ours));
    println!("barriers: sessions beside bare files, %\t{:.0}", median(share));
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn raw(dir: &Path) -> f64 {
    std::fs::create_dir_all(dir).unwrap();
    let line = vec![b'x'; 183];
    let mut files: Vec<std::fs::File> = (0..SESSIONS)
        .map(|n| std::fs::File::options().create(true).append(true).open(dir.join(n.to_string())).unwrap())
        .collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for part in files.chunks_mut(SESSIONS.div_ceil(THREADS)) {
            scope.spawn(|| {
                for _ in 0..BARRIERS {
                    for file in part.iter_mut() {
                        file.write_all(&line).unwrap();
                        file.sync_data().unwrap();
                    }
                }
            });
        }
    });
    let rate = (SESSIONS * BARRIERS) as f64 / started.elapsed().as_secs_f64();
    std::fs::remove_dir_all(dir).unwrap();
    rate
}

fn sessions(dir: &Path) -> f64 {
    let store = FileStore::new(dir);
    let mut journals: Vec<Journal> =
        (0..SESSIONS).map(|n| Journal::new(store.create(header(n)).unwrap())).collect();
    let chunk = Chunk::TextDelta { index: 0, text: "four words of it ".into() };
    let fact = Fact::AssistantChunk(AssistantChunk { turn: 1, step: 1, attempt: 1, chunk });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    // The first sync of a session syncs its directories too.
    let all = |journals: &mut Vec<Journal>, barriers: usize| {
        runtime.block_on(async {
            let tasks: Vec<_> = journals
                .drain(..)
                .map(|mut journal| {
                    let fact = fact.clone();
                    tokio::spawn(async move {
                        for _ in 0..barriers {
                            journal.push(1, &fact).unwrap();
                            journal.write().unwrap();
                            journal.sync().await.unwrap();
                        }
                        journal
                    })
                })
                .collect();
            let mut back = Vec::new();
            for task in tasks {
                back.push(task.await.unwrap());
            }
            back
        })
    };
    journals = all(&mut journals, 1);
    let started = Instant::now();
    journals = all(&mut journals, BARRIERS);
    let rate = (SESSIONS * BARRIERS) as f64 / started.elapsed().as_secs_f64();
    drop(journals);
    std::fs::remove_dir_all(dir).unwrap();
    rate
}

fn header(n: usize) -> SessionHeader {
    SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: format!("s{n}").parse().unwrap(),
        created: 0,
        cwd: ".".into(),
        by: "bench".into(),
        parent: None,
        origin: None,
    }
}
