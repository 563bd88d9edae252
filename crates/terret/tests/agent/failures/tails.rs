//! Logs on disk that end in half a line, or that two writers went on with.

use terret::core::fact::Fact;
use terret::core::input::Recovery;
use terret::core::line::LineError;
use terret::error::Error;
use terret::inspect;
use terret::store::{Condition, FileStore, Fork, Listed, Scan, fork};

use super::stored::{self, ID, said};
use crate::support::{builder, endings, events, types};

/// A store whose one session has this log.
fn store(log: &[u8]) -> (tempfile::TempDir, FileStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::new(dir.path());
    std::fs::create_dir(dir.path().join(ID)).unwrap();
    std::fs::write(store.log_path(ID), log).unwrap();
    (dir, store)
}

/// Killed in the middle of a line. Every whole line is there, the half one is told with its place and kept aside
/// before the first line is added, the turn that was open is closed, and the next one works. Opening once more
/// finds whole lines only, and adds none.
#[tokio::test]
async fn case_001_a_torn_tail_is_set_aside_before_the_first_line_is_added() {
    let (whole, mut tip) = stored::begun(include_str!("001.facts"));
    let mut log = whole.clone();
    let chunk = r#"1700000000500 assistant/chunk {"turn":2,"step":1,"attempt":1,"chunk":{"type":"text-delta","index":0,"text":"It says hello."}}"#;
    stored::append(&mut log, &mut tip, chunk);
    log.truncate(whole.len() + 99);
    let (dir, store) = store(&log);
    let path = store.log_path(ID);
    let condition = Listed::of(&path).condition;
    let told = matches!(condition, Condition::Torn { offset, bytes: 99 } if offset == whole.len() as u64);
    assert!(told, "{condition:?}");

    let open = || builder("say a\n---\nsay It says hello.").store(store.clone()).resume(ID);
    let agent = open().await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), log, "opening changes nothing");
    agent.recover(Recovery::Close).await.unwrap();
    assert_eq!(agent.prompt("go on").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    let after = std::fs::read(&path).unwrap();
    assert!(after.starts_with(&whole), "every whole line stays");
    assert_eq!(std::fs::read(dir.path().join(ID).join("torn-2")).unwrap(), &log[whole.len()..]);
    let told = events(after.clone());
    let added = &told[events(whole).len()..];
    // The request that was open is closed too.
    assert_eq!(types(added)[..4], ["writer/opened", "request/failed", "step/end", "turn/end"]);
    let Fact::WriterOpened(opened) = &added[0].fact else { panic!("{:?}", added[0]) };
    assert_eq!(opened.cut_bytes, Some(99));
    assert_eq!(endings(&told), ["completed", "interrupted", "completed"]);
    assert_eq!(said(&told), ["list the files", "read a.txt", "go on"]);

    let agent = open().await.unwrap();
    agent.recover(Recovery::Close).await.unwrap();
    agent.shutdown().await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), after, "the second time nothing is added");
    assert!(inspect::verify(&path).unwrap().bad.is_none());
}

/// Two writers went on from one end. The line where the second begins is named, with the number that belongs there
/// and the one that stands there; no writer opens the log, nothing is taken for its valid beginning in silence, and
/// the way on is a new session that leaves both branches where they are.
#[tokio::test]
async fn case_003_a_seq_that_comes_twice_is_refused_and_both_branches_stay() {
    let (mut log, mut tip) = stored::begun(include_str!("003.facts"));
    let mut stale = tip.clone();
    let first = tip.next_seq();
    stored::append(&mut log, &mut tip, "1700000000150 writer/idle {}");
    let offset = log.len() as u64;
    stored::append(&mut log, &mut stale, include_str!("003-second.facts"));
    let (_dir, store) = store(&log);
    let path = store.log_path(ID);

    let refused = builder("say never").store(store.clone()).resume(ID).await.err().unwrap();
    let Error::Damaged { line, offset: found_at, seq, cause, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((line, found_at, seq), (first + 3, offset, first + 1));
    assert!(matches!(cause, LineError::Seq { expected, found } if (expected, found) == (first + 1, first)));
    let report = inspect::verify(&path).unwrap();
    assert!(report.bad.is_some() && !report.torn && !report.holds());
    // Everything that is certain can be read: up to the line where the branches part.
    let (mut scan, mut read) = (Scan::open(&path).unwrap(), 0);
    while let Some(Ok(_)) = scan.next_event().unwrap() {
        read += 1;
    }
    assert_eq!(read, first + 1);
    let plan = |boundary| Fork { boundary, id: "new".parse().unwrap(), now: 1, plugins: vec![] };
    let whole = fork(|| Scan::open(&path), &store, plan(None)).err().unwrap();
    assert!(matches!(whole, Error::Damaged { .. }), "no silent prefix: {whole:?}");

    fork(|| Scan::open(&path), &store, plan(Some(first))).unwrap();
    let agent = builder("say done\n---\nsay hello").store(store.clone()).resume("new").await.unwrap();
    assert_eq!(agent.prompt("again").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    let child = events(std::fs::read(store.log_path("new")).unwrap());
    assert_eq!(said(&child), ["go", "again"]);
    assert_eq!(std::fs::read(&path).unwrap(), log, "the log with both branches is as it was");
}
