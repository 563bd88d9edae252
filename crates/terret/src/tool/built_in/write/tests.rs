#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::json;
use terret_core::fact::Outcome;

use super::*;
use crate::tool::tests::support::{call, code, fifo, run, started, text};
use crate::tool::{Call, Permissions};

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn it_creates_and_overwrites_and_leaves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let done = run(&Write, dir.path(), json!({"path": "a/b/c.txt", "content": "h\u{e9}"})).await;
    assert_eq!((done.outcome, text(&done)), (Outcome::Ok, "created `a/b/c.txt`: 3 bytes"));
    let done = run(&Write, dir.path(), json!({"path": "a/b/c.txt", "content": ""})).await;
    assert_eq!(text(&done), "overwritten `a/b/c.txt`: 0 bytes");
    assert_eq!(names(&dir.path().join("a/b")), ["c.txt"]);
}

#[tokio::test]
async fn a_file_is_replaced_not_rewritten_and_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("run.sh"), dir.path().join("hard"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
    fs::hard_link(&file, &link).unwrap();
    run(&Write, dir.path(), json!({"path": "run.sh", "content": "new"})).await;
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o751);
    // Who had the old file open, or linked, has the old content whole: nothing was truncated in place.
    assert_eq!(
        (fs::read_to_string(&file).unwrap(), fs::read_to_string(&link).unwrap()),
        ("new".into(), "old".into())
    );
    run(&Write, dir.path(), json!({"path": "fresh", "content": "x"})).await;
    fs::write(dir.path().join("usual"), "x").unwrap();
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode();
    assert_eq!(mode("fresh"), mode("usual"));
}

#[tokio::test]
async fn a_link_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("real"), "old").unwrap();
    symlink("real", dir.path().join("in")).unwrap();
    let done = run(&Write, dir.path(), json!({"path": "in", "content": "new"})).await;
    assert!(fs::symlink_metadata(dir.path().join("in")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(dir.path().join("real")).unwrap(), "new");
    assert!(done.data.unwrap().get().ends_with("/real\"}"));
}

#[tokio::test]
async fn outside_is_refused_before_and_while_running() {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    fs::create_dir(&ws).unwrap();
    fs::write(dir.path().join("victim"), "v").unwrap();
    symlink("../victim", ws.join("notes.md")).unwrap();
    for path in ["notes.md", "../victim", dir.path().join("victim").to_str().unwrap()] {
        let call = call(&ws, "write", &json!({"path": path, "content": "x"}));
        for done in [Write.admit(&call).unwrap_err(), Write.run(started(call)).await] {
            assert_eq!((done.outcome, code(&done)), (Outcome::Denied, "outside-workspace"), "{path}");
            assert!(text(&done).contains("--permissions full"));
        }
    }
    let inside = call(&ws, "write", &json!({"path": "x", "content": "x"}));
    let read_only = Call { permissions: Permissions::ReadOnly, ..inside };
    for done in [Write.admit(&read_only).unwrap_err(), Write.run(started(read_only)).await] {
        assert_eq!((done.outcome, code(&done)), (Outcome::Denied, "read-only"));
    }
    assert_eq!(fs::read_to_string(dir.path().join("victim")).unwrap(), "v");
    assert_eq!(names(&ws), ["notes.md"]);
    let full = call(&ws, "write", &json!({"path": "notes.md", "content": "x"}));
    let done = Write.run(started(Call { permissions: Permissions::Full, ..full })).await;
    assert_eq!(done.outcome, Outcome::Ok);
    assert_eq!(fs::read_to_string(dir.path().join("victim")).unwrap(), "x");
}

#[tokio::test]
async fn what_is_no_file_is_refused_and_a_failure_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("f"), "x").unwrap();
    fifo(&dir.path().join("p"));
    for (path, expected) in [("d", "not-a-file"), ("p", "not-a-file"), (".", "not-a-file"), ("f/x", "io")] {
        let done = run(&Write, dir.path(), json!({"path": path, "content": "x"})).await;
        assert_eq!((done.outcome, code(&done)), (Outcome::Error, expected), "{path}: {}", text(&done));
    }
    assert_eq!(names(dir.path()), ["d", "f", "p"]);
}

#[test]
fn a_file_changed_since_it_was_seen_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    fs::write(&file, "seen").unwrap();
    let seen = fs::metadata(&file).unwrap();
    fs::write(&file, "changed by another").unwrap();
    assert!(matches!(files::replace(&file, b"mine", Some(&seen)), Err(files::Trouble::Changed)));
    assert_eq!(fs::read_to_string(&file).unwrap(), "changed by another");
    assert_eq!(names(dir.path()), ["f"]);
}

#[test]
fn a_reader_sees_the_old_or_the_new_content_whole() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let (old, new) = (vec![b'o'; 1 << 20], vec![b'n'; 1 << 20]);
    fs::write(&file, &old).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..5 {
                files::replace(&file, &new, None).unwrap();
                files::replace(&file, &old, None).unwrap();
            }
        });
        while !writer.is_finished() {
            let read = fs::read(&file).unwrap();
            assert!(read == old || read == new);
        }
    });
    assert_eq!(names(dir.path()), ["f"]);
}
