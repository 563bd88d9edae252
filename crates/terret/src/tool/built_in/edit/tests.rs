#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::json;
use terret_core::fact::Outcome;

use super::*;
use crate::tool::tests::support::{call, code, fifo, run, started, text};
use crate::tool::{Call, Permissions};

#[tokio::test]
async fn it_changes_the_span_and_keeps_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("crlf.txt");
    fs::write(&file, "\u{feff}a = 1\r\nb = 2\r\nc = 3").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let done = run(
        &Edit,
        dir.path(),
        json!({"path": "crlf.txt", "old": "a = 1\nb = 2", "new": "a = 1\nb = 22\nb2"}),
    )
    .await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "\u{feff}a = 1\r\nb = 22\r\nb2\r\nc = 3");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(
        text(&done),
        "edited `crlf.txt` in one place; its CRLF line ends were kept\n@@ line 1 @@\n-a = 1\n-b = 2\n+a = 1\n+b = 22\n+b2\n"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn all_places_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "x y x").unwrap();
    let done = run(&Edit, dir.path(), json!({"path": "f", "old": "x", "new": "", "all": true})).await;
    assert!(text(&done).starts_with("edited `f` in 2 places\n"));
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), " y ");
}

#[tokio::test]
async fn what_cannot_be_done_is_said_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let content = "one\n\ttwo\none\n";
    fs::write(dir.path().join("f"), content).unwrap();
    fs::write(dir.path().join("latin1"), b"caf\xe9 x").unwrap();
    fifo(&dir.path().join("p"));
    let cases = [
        ("f", "one", "1", "several-matches", "`old` is 2 times in `f` (lines 1, 3)"),
        ("f", "  two", "2", "no-match", "Only blanks differ: line 2"),
        ("f", "three", "3", "no-match", "`old` is not in `f`."),
        ("f", "", "3", "invalid-arguments", "`old` is empty"),
        ("f", "one", "one", "invalid-arguments", "are the same"),
        ("f", "one\n", "one\r\n", "invalid-arguments", "line ends only"),
        ("latin1", "x", "y", "not-utf8", "not UTF-8"),
        ("p", "x", "y", "not-a-file", "a named pipe"),
        ("gone", "x", "y", "not-found", "there is no `gone`"),
    ];
    for (path, old, new, expected, says) in cases {
        let done = run(&Edit, dir.path(), json!({"path": path, "old": old, "new": new})).await;
        assert_eq!((done.outcome, code(&done)), (Outcome::Error, expected), "{path} {old:?}");
        assert!(text(&done).contains(says), "{}", text(&done));
    }
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), content);
    assert_eq!(fs::read(dir.path().join("latin1")).unwrap(), b"caf\xe9 x");
}

#[tokio::test]
async fn the_border_holds() {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    fs::create_dir(&ws).unwrap();
    fs::write(dir.path().join("victim"), "v").unwrap();
    symlink("../victim", ws.join("notes.md")).unwrap();
    let outside = call(&ws, "edit", &json!({"path": "notes.md", "old": "v", "new": "w"}));
    let read_only = Call { permissions: Permissions::ReadOnly, ..outside.clone() };
    for (call, expected) in [(outside, "outside-workspace"), (read_only, "read-only")] {
        for done in [Edit.admit(&call).unwrap_err(), Edit.run(started(call)).await] {
            assert_eq!((done.outcome, code(&done)), (Outcome::Denied, expected));
        }
    }
    assert_eq!(fs::read_to_string(dir.path().join("victim")).unwrap(), "v");
}
