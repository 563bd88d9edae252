#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::net::UnixListener;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::tool::tests::support::{code, fifo, run, text};

fn dir_with(name: &str, content: impl AsRef<[u8]>) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), content).unwrap();
    dir
}

#[tokio::test]
async fn pieces_follow_each_other() {
    let dir = dir_with("a.txt", "one\ntwo\nthree");
    let read = async |offset: u64, limit: u64| {
        run(&Read, dir.path(), json!({"path": "a.txt", "offset": offset, "limit": limit})).await
    };
    assert_eq!(text(&run(&Read, dir.path(), json!({"path": "a.txt"})).await), "one\ntwo\nthree");
    assert_eq!(text(&read(1, 2).await), "one\ntwo\n[more follows: read on with offset 3]\n");
    assert_eq!(text(&read(3, 2).await), "three");
    let done = read(4, 1).await;
    assert_eq!((code(&done), text(&done)), ("past-end", "`a.txt` has 3 lines: there is no line 4."));
}

#[tokio::test]
async fn much_is_cut_by_lines_and_by_bytes() {
    let dir = dir_with("many", "x\n".repeat(3000));
    let done = run(&Read, dir.path(), json!({"path": "many", "limit": 5000})).await;
    assert!(text(&done).ends_with("x\n[more follows: read on with offset 2001]\n"));
    fs::write(dir.path().join("wide"), format!("{}\n", "y".repeat(999)).repeat(100)).unwrap();
    let done = run(&Read, dir.path(), json!({"path": "wide"})).await;
    assert!(text(&done).ends_with("y\n[more follows: read on with offset 66]\n"));
    assert!(text(&done).len() < READ_BYTES + 100);
}

#[tokio::test]
async fn a_long_line_is_cut_at_a_character() {
    let line = format!("{}\u{20ac}\u{20ac}", "z".repeat(READ_LINE_BYTES - 1));
    let dir = dir_with("long", format!("{line}\r\nnext\r\n"));
    let done = run(&Read, dir.path(), json!({"path": "long"})).await;
    let start = "z".repeat(READ_LINE_BYTES - 1);
    assert_eq!(
        text(&done),
        format!("{start} [... 6 bytes cut]\nnext\n[long lines are cut to 2000 bytes; lines end in CRLF]\n")
    );
    // One line of 5 MB takes no 5 MB of text.
    fs::write(dir.path().join("long"), "q".repeat(5_000_000)).unwrap();
    assert!(text(&run(&Read, dir.path(), json!({"path": "long"})).await).len() < 2200);
}

#[tokio::test]
async fn line_ends_marks_and_broken_bytes() {
    let dir = dir_with("w.txt", b"\xef\xbb\xbfa\r\nb\xff\r\n");
    let done = run(&Read, dir.path(), json!({"path": "w.txt"})).await;
    assert_eq!(text(&done), "a\nb\u{fffd}\n[lines end in CRLF; not all of it is UTF-8]\n");
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_at_once() {
    let dir = dir_with("empty", "");
    fs::write(dir.path().join("bin"), b"\x7fELF\0\0").unwrap();
    fifo(&dir.path().join("live.pipe"));
    let _listener = UnixListener::bind(dir.path().join("sock")).unwrap();
    std::os::unix::fs::symlink("live.pipe", dir.path().join("link")).unwrap();
    let cases = [
        ("live.pipe", "not-a-file", "a named pipe"),
        ("link", "not-a-file", "a named pipe"),
        ("sock", "not-a-file", "a socket"),
        ("/dev/zero", "not-a-file", "a device"),
        (".", "not-a-file", "a directory"),
        ("bin", "binary", "a binary file of 6 bytes"),
    ];
    for (path, expected, says) in cases {
        let done = run(&Read, dir.path(), json!({ "path": path })).await;
        assert_eq!(code(&done), expected, "{path}");
        assert!(text(&done).contains(says), "{path}: {}", text(&done));
    }
    assert_eq!(text(&run(&Read, dir.path(), json!({"path": "empty"})).await), "[`empty` is empty]");
}

#[tokio::test]
async fn a_pipe_swapped_in_after_the_look_does_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    fifo(&path);
    // What `open_regular` does after its look; without the flag this open waits for a writer.
    let opened = tokio::task::spawn_blocking(move || files::open_checked(&path));
    let opened = tokio::time::timeout(std::time::Duration::from_secs(5), opened).await.unwrap().unwrap();
    assert!(matches!(opened, Err(files::Trouble::NotAFile("a named pipe"))));
}

#[tokio::test]
async fn a_missing_file_comes_with_names_near_it() {
    let dir = dir_with("README.md", "x");
    fs::write(dir.path().join("reader.md"), "x").unwrap();
    fs::write(dir.path().join("zebra"), "x").unwrap();
    let done = run(&Read, dir.path(), json!({"path": "Readme.md"})).await;
    let says = "there is no `Readme.md`. In the same directory: `README.md`, `reader.md`.";
    assert_eq!((code(&done), text(&done)), ("not-found", says));
    let done = run(&Read, dir.path(), json!({"path": "no/such/file"})).await;
    assert!(text(&done).contains("nearest existing directory"), "{}", text(&done));
}

#[test]
fn it_runs_beside_others_when_its_arguments_are_good() {
    assert_eq!(Read.mode(r#"{"path":"x"}"#), CallMode::Parallel);
    assert_eq!(Read.mode(r#"{"file":"x"}"#), CallMode::Exclusive);
}
