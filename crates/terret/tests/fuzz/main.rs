//! The bodies of the fuzz targets, run over their committed corpus: what was found once stays found.
//! `cargo xtask fuzz` runs the same bodies on bytes that nobody thought of.
#![allow(clippy::unwrap_used, missing_docs)]

mod lines;
mod memory;
mod mend;
mod opener;
mod stream;
mod streams;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What is held at once is counted for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn files(target: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(corpus(target)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 5, "the corpus is not there");
    files
}

fn over(files: Vec<PathBuf>, check: impl Fn(&[u8])) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for file in files {
        // Shown when the test fails.
        eprintln!("{}", file.display());
        check(&std::fs::read(file).unwrap());
    }
}

#[test]
fn the_corpus_of_the_lines() {
    over(files("lines"), |data| memory::bounded(lines::check, data));
}

#[test]
fn the_corpus_of_the_opener() {
    over(files("opener"), |data| memory::bounded(opener::check, data));
}

#[test]
fn the_corpus_of_the_streams() {
    over(files("stream"), |data| {
        stream::check(data);
        stream::long(data);
    });
}

#[test]
fn recorded_streams_in_any_pieces() {
    // The few long ones hold one line each that is all the same.
    let small = |path: &PathBuf| std::fs::metadata(path).unwrap().len() < 100_000;
    over(streams::recorded().into_iter().filter(small).collect(), stream::check);
}

#[test]
fn streams_put_together_by_chance() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    streams::by_chance();
}

#[test]
fn a_log_without_end() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for start in ["torn", "empty"] {
        let start = std::fs::read(corpus("lines").join(start)).unwrap();
        memory::bounded(lines::endless, &start);
    }
}
