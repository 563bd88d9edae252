//! A directory of sessions of which most cannot be read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use terret::error::Error;
use terret::store::{Address, Condition, Store};

use crate::support::{Home, ID, lines, whole_log};

/// Every log, with its bytes.
fn logs(home: &Home) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let entries = std::fs::read_dir(home.store.sessions()).unwrap().flatten();
    let logs = entries.map(|e| e.path().join("log.jsonl"));
    logs.map(|log| (log.clone(), std::fs::read(&log).ok())).collect()
}

/// One good session beside an empty file, one of garbage, one that only begins with garbage, and a directory where
/// the log should be. All are listed, the bad ones with a reason; the good one is found and goes on; each bad one is
/// refused in words; and nothing is removed or written over.
#[tokio::test]
async fn case_004_bad_files_stop_neither_the_list_nor_the_good_session() {
    let good = whole_log().await;
    let home = Home::with(&good);
    let headless = [&b"\xff\x00(garbage\n"[..], &lines(&good)[1..].concat()].concat();
    for (id, bytes) in
        [("empty", &b""[..]), ("garbage", b"(\xef garbage\n{\"seq\":0}\n"), ("headless", &headless)]
    {
        let dir = home.store.sessions().join(id);
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("log.jsonl"), bytes).unwrap();
    }
    std::fs::create_dir_all(home.store.log_path("dir")).unwrap();
    let before = logs(&home);

    let listed = home.store.list().unwrap();
    assert_eq!(listed.len(), 5);
    for one in &listed {
        let as_it_is = match (one.id.as_str(), &one.condition) {
            (ID, Condition::Idle) => one.events == lines(&good).len() as u64 - 1,
            // Nothing was ever in it: its id is free.
            ("empty", Condition::Empty) => true,
            ("garbage" | "headless" | "dir", Condition::Damaged(Error::NotALog { path, why })) => {
                *path == one.path && !why.is_empty()
            }
            _ => false,
        };
        assert!(as_it_is, "{}: {:?}", one.id, one.condition);
    }
    let latest: Address = "latest".parse().unwrap();
    assert_eq!(home.store.find(&latest, None).unwrap(), home.log());
    for id in ["empty", "garbage", "headless", "dir"] {
        let refused = home.store.open(id, &mut |_| {}).err().unwrap();
        assert!(matches!(refused, Error::NotALog { .. }), "{id}: {refused:?}");
    }
    assert_eq!(logs(&home), before, "nothing was changed");
    home.go_on().unwrap();
}

/// A copy of a session's directory under another name can be read. Two writers, each in its own, would hand out the
/// same keys.
#[tokio::test]
async fn a_log_is_written_under_its_own_name_alone() {
    let home = Home::with(&whole_log().await);
    let copy = home.store.sessions().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(home.log(), copy.join("log.jsonl")).unwrap();
    let refused = home.store.open("copy", &mut |_| {}).err().unwrap();
    assert!(matches!(refused, Error::NotALog { .. }), "{refused:?}");
    assert_eq!(home.store.list().unwrap().len(), 2);
    home.go_on().unwrap();
}
