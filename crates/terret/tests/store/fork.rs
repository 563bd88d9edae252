//! The making of a fork on disk: whole or never begun, and always from what the source says.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use terret::error::Error;
use terret::inspect;
use terret::store::{Condition, FileStore, Fork, Listed, Scan, Store, fork};

use crate::support::{Home, ID, lines, of_another_boot, read, whole_log};

fn plan(boundary: Option<u64>) -> Fork {
    Fork { boundary, id: "child".parse().unwrap(), now: 1, plugins: vec![] }
}

fn make(home: &Home) -> Result<(), Error> {
    fork(|| home.store.read(ID), &home.store, plan(None)).map(|_| ())
}

/// Names of everything in the child's directory.
fn beside(store: &FileStore) -> BTreeMap<String, usize> {
    let entries = std::fs::read_dir(store.sessions().join("child")).into_iter().flatten().flatten();
    entries
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.metadata().unwrap().len() as usize))
        .collect()
}

#[tokio::test]
async fn a_crash_in_the_middle_of_it_leaves_nothing_that_counts_and_the_id_free() {
    let home = Home::with(&whole_log().await);
    make(&home).unwrap();
    let child = std::fs::read(home.store.log_path("child")).unwrap();
    assert_eq!(std::fs::metadata(home.store.log_path("child")).unwrap().permissions().mode() & 0o777, 0o600);
    let dir = home.store.sessions().join("child");
    for keep in (0..=child.len()).step_by(97) {
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("log.jsonl.new"), &child[..keep]).unwrap();
        std::fs::write(dir.join("lock"), "").unwrap();
        let condition = Listed::of(&home.store.log_path("child")).condition;
        assert!(matches!(condition, Condition::Empty), "{keep}: {condition:?}");
        assert!(matches!(home.store.read("child"), Err(Error::NoSession(_))), "{keep}");
        make(&home).unwrap();
        assert_eq!(beside(&home.store).into_keys().collect::<Vec<_>>(), ["lock", "log.jsonl"], "{keep}");
        assert!(inspect::verify(&home.store.log_path("child")).unwrap().holds(), "{keep}");
    }
}

#[tokio::test]
async fn a_write_that_fails_leaves_nothing() {
    let home = Home::with(&whole_log().await);
    let id = "child".parse().unwrap();
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        let failed = home.store.adopt(&id, &mut |out| out.write_all(b"{").and(Err(kind.into())));
        assert_eq!(matches!(failed, Err(Error::Full { .. })), kind == ErrorKind::StorageFull, "{failed:?}");
        assert!(failed.is_err() && !home.store.sessions().join("child").exists());
    }
    make(&home).unwrap();
}

#[tokio::test]
async fn a_source_that_changes_while_it_is_copied_gives_no_child() {
    let log = whole_log().await;
    let home = Home::with(&log);
    let last = lines(&log)[..lines(&log).len() - 1].concat().len();
    // A full disk takes back what was read: the second look finds less, damage, or other lines as good as those.
    let (less, mut bad) = (log[..last].to_vec(), log.clone());
    bad[last + 20] ^= 1;
    for then in [less, bad, of_another_boot(&log)] {
        let looks = std::cell::Cell::new(0);
        let source = || {
            let now = if looks.replace(1) == 0 { &log } else { &then };
            Scan::new(std::io::Cursor::new(now.clone()), "moving".as_ref())
        };
        let refused = fork(source, &home.store, plan(None)).unwrap_err().to_string();
        assert!(refused.contains("fork it again"), "{refused}");
        assert!(!home.store.sessions().join("child").exists());
    }
}

#[tokio::test]
async fn a_line_that_is_being_written_is_waited_for() {
    let log = whole_log().await;
    let home = Home::with(&log);
    let looks = std::cell::Cell::new(0);
    // What a reader sees of a write under way: a line without its end, and when it looks again more than that.
    let source = || {
        looks.set(looks.get() + 1);
        let half = lines(&log)[..9].concat().len() + 15;
        let (first, rest) = log.split_at(half);
        let pause = if looks.get() == 1 { Pause::Once } else { Pause::Over };
        Scan::new(Slow { first, rest, pause }, "growing".as_ref())
    };
    fork(source, &home.store, plan(None)).unwrap();
    assert_eq!(looks.get(), 3, "read anew once, then copied");
    let (events, bad) = read(std::fs::read(home.store.log_path("child")).unwrap(), "child".as_ref());
    assert!(bad.is_none() && events.len() > lines(&log).len() - 1);
}

/// A file that seems to end for a moment.
struct Slow<'a> {
    first: &'a [u8],
    rest: &'a [u8],
    pause: Pause,
}

enum Pause {
    Once,
    Over,
}

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if !self.first.is_empty() {
            return self.first.read(buf);
        }
        if let Pause::Once = std::mem::replace(&mut self.pause, Pause::Over) {
            return Ok(0);
        }
        self.rest.read(buf)
    }
}
