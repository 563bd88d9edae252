#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};
use tempfile::TempDir;
use terret_core::fact::Outcome;

use super::*;
use crate::tool::tests::support::{call, code, fifo, run, started, text};

fn tree(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

async fn found(dir: &TempDir, arguments: Value) -> String {
    text(&run(&Grep, dir.path(), arguments).await).to_owned()
}

#[tokio::test]
async fn lines_sorted_by_path() {
    let dir = tree(&[
        ("b.rs", b"no\nneedle b\r\n"),
        ("a/z.rs", b"needle z"),
        ("a.txt", b"Needle t\n"),
        (".hidden", b"needle\n"),
        ("out/x", b"needle\n"),
        (".gitignore", b"out/\n"),
        (".git/x", b"needle\n"),
    ]);
    assert_eq!(found(&dir, json!({"pattern": "needle"})).await, "a/z.rs:1:needle z\nb.rs:2:needle b\n");
    let all = "a/z.rs:1:needle z\na.txt:1:Needle t\nb.rs:2:needle b\n";
    assert_eq!(found(&dir, json!({"pattern": "NEEDLE", "ignore_case": true})).await, all);
    assert_eq!(found(&dir, json!({"pattern": "needle [a-z]$", "glob": "*.rs"})).await.lines().count(), 2);
    assert_eq!(found(&dir, json!({"pattern": "needle", "glob": "a/*.rs"})).await, "a/z.rs:1:needle z\n");
    assert_eq!(found(&dir, json!({"pattern": "needle", "path": "a"})).await, "a/z.rs:1:needle z\n");
    assert_eq!(found(&dir, json!({"pattern": "needle", "path": "b.rs"})).await, "b.rs:2:needle b\n");
    assert_eq!(found(&dir, json!({"pattern": "nothing"})).await, "[nothing matches `nothing`]");
}

#[tokio::test]
async fn context_is_marked() {
    let dir = tree(&[("a", b"1\n2\nx\n4\n5\n6\nx\n"), ("b", b"x\n")]);
    let expected = "a-2-2\na:3:x\na-4-4\n--\na-6-6\na:7:x\n--\nb:1:x\n";
    assert_eq!(found(&dir, json!({"pattern": "x", "context": 1})).await, expected);
}

#[tokio::test]
async fn what_is_no_text_file_is_passed_over() {
    // Far behind the first buffer of the search.
    let late_nul = [b"needle\n".repeat(9), b"hay\n".repeat(100_000), b"\0".to_vec()].concat();
    let dir = tree(&[("bin", b"needle\n\0"), ("late", &late_nul), ("text", b"needle \xff\n")]);
    fifo(&dir.path().join("live.pipe"));
    fs::write(dir.path().join(OsStr::from_bytes(b"caf\xe9")), "needle\n").unwrap();
    std::os::unix::fs::symlink("live.pipe", dir.path().join("link")).unwrap();
    let lines = found(&dir, json!({"pattern": "needle"})).await;
    assert_eq!(lines, "caf\u{fffd}:1:needle\ntext:1:needle \u{fffd}\n");
    let done = run(&Grep, dir.path(), json!({"pattern": "needle", "glob": "text"})).await;
    assert_eq!(text(&done), "text:1:needle \u{fffd}\n");
    let done = run(&Grep, dir.path(), json!({"pattern": "needle", "path": "live.pipe"})).await;
    assert_eq!(code(&done), "not-a-file");
    let done = run(&Grep, dir.path(), json!({"pattern": "needle", "path": "bin"})).await;
    assert_eq!(text(&done), "[nothing matches `needle`; it is a binary file]");
    let done = run(&Grep, dir.path(), json!({"pattern": "needle", "path": "gone"})).await;
    assert_eq!(code(&done), "not-found");
}

#[tokio::test]
async fn much_is_cut() {
    let long = format!("needle {}\n", "\u{20ac}".repeat(1000));
    let dir = tree(&[("a", long.as_bytes()), ("b", b"needle\n".repeat(300).as_slice())]);
    let lines = found(&dir, json!({"pattern": "needle"})).await;
    assert!(lines.lines().next().unwrap().ends_with("\u{20ac} [... 2607 bytes cut]"), "{lines}");
    assert_eq!(lines.lines().count(), GREP_MATCHES + 1);
    assert!(
        lines.ends_with("b:199:needle\n[there are more matches: narrow the pattern, the path or the glob]\n")
    );
    let wide = "x".repeat(399) + "\n";
    let dir = tree(&[("a", wide.repeat(1000).as_bytes())]);
    let lines = found(&dir, json!({"pattern": "x$", "context": 10})).await;
    assert!(lines.len() < GREP_BYTES + 20_000, "{}", lines.len());
}

#[tokio::test]
async fn a_bad_pattern_is_refused_before_it_runs() {
    let dir = tree(&[]);
    for pattern in ["a(b", "(?=x)", "a\\nb"] {
        let call = call(dir.path(), "grep", &json!({ "pattern": pattern }));
        let done = Grep.admit(&call).unwrap_err();
        assert_eq!((done.outcome, code(&done)), (Outcome::Error, "invalid-arguments"), "{pattern}");
        assert!(text(&done).contains("no look-around"));
    }
}

#[tokio::test]
async fn a_stop_ends_the_search() {
    let dir = tree(&[("a", b"needle\n")]);
    let (sender, stop) = watch::channel(true);
    let call = Call { stop, ..call(dir.path(), "grep", &json!({"pattern": "needle"})) };
    let done = Grep.run(started(call)).await;
    drop(sender);
    assert_eq!((done.outcome, code(&done)), (Outcome::Aborted, "aborted"));
}
