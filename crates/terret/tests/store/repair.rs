//! Repairs that are interrupted, and what is said again after a write that failed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::core::fact::Fact;
use terret::core::line::{Line, Tip};
use terret::error::Error;
use terret::inspect;
use terret::store::{Journal, Log, Opened, Process};

use crate::support::{Home, header, lines, whole_log};

#[tokio::test]
async fn a_repair_that_died_before_the_cut_is_done_again_and_keeps_what_it_kept() {
    let log = whole_log().await;
    let home = Home::with(&[&log, b"torn".as_slice()].concat());
    // What two writers left: one died over the copy, one between the copy and the cut.
    std::fs::write(home.session().join("torn-2"), b"to").unwrap();
    std::fs::write(home.session().join("torn-2-1"), b"torn").unwrap();
    home.go_on().unwrap();
    assert_eq!(home.torn(), [b"to".as_slice(), b"torn", b"torn"]);
    assert!(inspect::verify(&home.log()).unwrap().bad.is_none());
}

#[tokio::test]
async fn a_repair_that_died_behind_the_cut_leaves_a_log_like_any_other() {
    let log = whole_log().await;
    let home = Home::with(&log);
    std::fs::write(home.session().join("torn-2"), b"torn").unwrap();
    home.mark();
    home.go_on().unwrap();
    assert_eq!(home.torn(), [b"torn"]);
    assert!(!home.session().join("poisoned").exists());
    assert!(home.bytes().starts_with(&log));
}

#[tokio::test]
async fn a_reader_of_the_writer_never_sees_the_torn_tail() {
    let log = whole_log().await;
    let home = Home::with(&[&log, b"torn".as_slice()].concat());
    let opened = home.open().unwrap();
    assert_eq!(opened.cut_bytes, Some(4));
    let mut reader = opened.log.reader(0).unwrap();
    let mut seen = Vec::new();
    reader.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, log);
    let (_journal, written) = crate::support::write_first(opened);
    written.unwrap();
    reader.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, home.bytes(), "it goes on with what is added");
    assert_eq!(lines(&seen).len(), lines(&log).len() + 1);
}

/// A log that notes lines, and is full when told so.
struct Noting(Arc<AtomicBool>, Arc<std::sync::Mutex<Vec<u8>>>);

impl Log for Noting {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Error::Full { path: PathBuf::from("noting") });
        }
        self.1.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }
    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        std::future::ready(Ok(())).boxed()
    }
    fn poison(&mut self, why: &str) -> Error {
        Error::Poisoned { path: PathBuf::from("noting"), why: why.into() }
    }
    fn reader(&self, _from: u64) -> Result<Box<dyn Read + Send>, Error> {
        Ok(Box::new(std::io::empty()))
    }
    fn length(&self) -> u64 {
        0
    }
    fn path(&self) -> &Path {
        Path::new("noting")
    }
}

#[tokio::test]
async fn how_far_it_is_synced_is_said_again_after_the_line_that_said_it_was_lost() {
    let (full, noted) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let log = Box::new(Noting(Arc::clone(&full), Arc::clone(&noted)));
    let (header_hash, tip) = (terret::core::id::Digest([0; 32]), Tip::default());
    let opened = Opened {
        header: header(),
        header_hash,
        tip,
        epoch: 1,
        cut_bytes: None,
        process: Process::this(),
        index: terret::store::Index::default(),
        log,
    };
    let fact = Fact::WriterOpened(opened.writer());
    let mut journal = Journal::new(opened);
    journal.push(1, &fact).unwrap();
    journal.write().unwrap();
    journal.sync().await.unwrap();
    let line = noted.lock().unwrap().clone();
    let mut tip = Tip::default();
    tip.check(&line[..line.len() - 1]).unwrap();
    full.store(true, Ordering::Relaxed);
    journal.push(2, &fact).unwrap();
    assert!(journal.write().is_err());
    journal.rewind(tip);
    full.store(false, Ordering::Relaxed);
    journal.push(3, &fact).unwrap();
    journal.write().unwrap();
    let noted = noted.lock().unwrap();
    let second = lines(&noted)[1];
    assert_eq!(Line::parse(&second[..second.len() - 1]).unwrap().d, Some(0));
}
