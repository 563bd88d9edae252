//! The bodies of the fuzz targets, run over their committed corpus: what was found once stays found.
//! `cargo xtask fuzz` runs the same bodies on bytes that nobody thought of.
#![allow(clippy::unwrap_used, missing_docs)]

mod lines;
mod memory;
mod mend;
mod opener;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What is held at once is counted for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn over(target: &str, check: fn(&[u8])) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let corpus = corpus(target);
    let mut files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 5, "the corpus is not there");
    for file in files {
        // Shown when the test fails.
        eprintln!("{}", file.display());
        memory::bounded(check, &std::fs::read(file).unwrap());
    }
}

#[test]
fn the_corpus_of_the_lines() {
    over("lines", lines::check);
}

#[test]
fn the_corpus_of_the_opener() {
    over("opener", opener::check);
}

#[test]
fn a_log_without_end() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for start in ["torn", "empty"] {
        let start = std::fs::read(corpus("lines").join(start)).unwrap();
        memory::bounded(lines::endless, &start);
    }
}
