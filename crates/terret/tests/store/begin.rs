//! The beginning of a session: complete or never begun, and its id stays free.

use terret::core::fact::{Fact, WriterIdle};
use terret::core::line::Tip;
use terret::error::{Error, ErrorKind};
use terret::store::{Condition, Store};

use crate::support::{Home, header, lines, write_first};

/// Names and bytes of the files of a session.
type Files = Vec<(&'static str, Vec<u8>)>;

/// Everything a crash in a creation may leave, as the files of the session.
fn leftovers() -> Vec<(String, Files)> {
    let line = header().to_line().unwrap();
    let mut all = vec![("nothing".to_owned(), vec![]), ("a lock".to_owned(), vec![("lock", b"{}".to_vec())])];
    for cut in 0..line.len() {
        let start = line[..cut].to_vec();
        all.push((format!("{cut} bytes"), vec![("log.jsonl", start.clone()), ("lock", vec![])]));
        all.push((format!("{cut} bytes of an unborn log"), vec![("log.jsonl.new", start)]));
    }
    // A power cut may leave a length whose first sector never came.
    let zeros = vec![0; line.len()];
    all.push(("zeros".to_owned(), vec![("log.jsonl", zeros.clone())]));
    let unsynced = [&[0; 512][..], b"\n", lines(&log_of(None))[2]].concat();
    all.push(("zeros before a line that no sync covers".to_owned(), vec![("log.jsonl", unsynced)]));
    all.push(("a whole unborn log".into(), vec![("log.jsonl.new", line.clone())]));
    let beside = vec![("log.jsonl", vec![]), ("reserve", vec![0; 9]), ("poisoned", b"!".to_vec())];
    all.push(("all that lies beside".into(), beside));
    all
}

/// A header and two events, the last of which says this of a sync.
fn log_of(synced: Option<u64>) -> Vec<u8> {
    let (mut log, mut tip) = (header().to_line().unwrap(), Tip::default());
    for synced in [None, synced] {
        tip.encode(&mut log, 1, &Fact::WriterIdle(WriterIdle {}), synced).unwrap();
    }
    log
}

#[test]
fn what_a_crash_leaves_is_listed_as_never_begun_and_taken_over() {
    for (what, files) in leftovers() {
        let home = Home::new();
        std::fs::create_dir_all(home.session()).unwrap();
        for (name, bytes) in &files {
            std::fs::write(home.session().join(name), bytes).unwrap();
        }
        let listed = home.store.list().unwrap();
        assert!(matches!(listed[0].condition, Condition::Empty), "{what}: {:?}", listed[0].condition);
        // To open it is an error a caller can tell, and changes nothing.
        let before = home.files();
        match home.open().err().unwrap() {
            Error::NoSession(_) => assert!(!home.log().exists(), "{what}"),
            Error::NotALog { why, .. } => assert!(why.contains("never begun"), "{what}: {why}"),
            other => panic!("{what}: {other}"),
        }
        assert_eq!(home.files(), before, "{what}");
        let opened = home.store.create(header()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let (journal, written) = write_first(opened);
        written.unwrap();
        drop(journal);
        assert_eq!(home.files().into_keys().collect::<Vec<_>>(), ["log.jsonl"], "{what}");
        home.go_on().unwrap();
        assert!(matches!(home.store.create(header()), Err(Error::Exists(_))), "{what}");
    }
}

#[test]
fn what_may_have_been_a_session_is_damaged_and_never_taken_over() {
    let line = header().to_line().unwrap();
    let goes_on = [&line[..40], b"\n{}\n"].concat();
    let zeros = [&[0; 512][..], b"\n", lines(&log_of(Some(0)))[2]].concat();
    let cases: [(&str, Files); 6] = [
        ("zeros before a line that says that a sync was done", vec![("log.jsonl", zeros)]),
        ("garbage", vec![("log.jsonl", b"garbage".to_vec())]),
        ("garbage line", vec![("log.jsonl", b"garbage\n".to_vec())]),
        ("a cut header that goes on", vec![("log.jsonl", goes_on)]),
        ("an empty log beside cut bytes", vec![("log.jsonl", vec![]), ("torn-2", vec![1])]),
        ("no log beside blobs", vec![("blob", vec![1])]),
    ];
    for (what, files) in cases {
        let home = Home::new();
        std::fs::create_dir_all(home.session()).unwrap();
        for (name, bytes) in files {
            std::fs::write(home.session().join(name), bytes).unwrap();
        }
        let before = home.files();
        assert!(matches!(home.condition(), Condition::Damaged(_)), "{what}: {:?}", home.condition());
        assert!(matches!(home.store.create(header()), Err(Error::Exists(_))), "{what}");
        assert!(home.open().is_err(), "{what}");
        assert_eq!(home.files(), before, "{what}");
    }
}

#[test]
fn nobody_takes_over_what_another_is_beginning() {
    let home = Home::new();
    let opened = home.store.create(header()).unwrap();
    // The name of the log went with the power; its writer is alive all the same.
    std::fs::write(home.log(), b"").unwrap();
    assert_eq!(home.store.create(header()).err().unwrap().kind(), ErrorKind::Busy);
    assert!(matches!(home.condition(), Condition::Running { .. }));
    drop(opened);
    home.store.create(header()).unwrap();
}
