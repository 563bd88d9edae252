#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::tool::tests::support::{code, fifo, run, text};

fn tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        "b.rs",
        "a.rs",
        "a/z.rs",
        "a/deep/x.rs",
        "a.b/y.rs",
        ".hidden.rs",
        ".github/ci.rs",
        ".git/config.rs",
        "target/out.rs",
        "notes.md",
    ];
    for file in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::write(dir.path().join(".gitignore"), "target/\n").unwrap();
    dir
}

async fn found(dir: &TempDir, pattern: &str) -> String {
    text(&run(&Glob, dir.path(), json!({ "pattern": pattern })).await)
        .replace('\n', " ")
        .trim_end()
        .to_owned()
}

#[tokio::test]
async fn sorted_without_what_is_ignored_or_hidden() {
    let dir = tree();
    assert_eq!(found(&dir, "**/*.rs").await, "a/deep/x.rs a/z.rs a.b/y.rs a.rs b.rs");
    assert_eq!(found(&dir, "*.rs").await, "a.rs b.rs");
    assert_eq!(found(&dir, "a/**/*.rs").await, "a/deep/x.rs a/z.rs");
    assert_eq!(found(&dir, "a/*").await, "a/deep/ a/z.rs");
    assert_eq!(found(&dir, "notes.md").await, "notes.md");
    let absolute = dir.path().join("a/*.rs").display().to_string();
    assert_eq!(found(&dir, &absolute).await, "a/z.rs");
}

#[tokio::test]
async fn what_the_pattern_names_is_found_but_never_git() {
    let dir = tree();
    assert_eq!(found(&dir, ".*.rs").await, ".hidden.rs");
    assert_eq!(found(&dir, "**/.github/*").await, ".github/ci.rs");
    assert_eq!(found(&dir, ".github/**").await, ".github/ci.rs");
    assert_eq!(found(&dir, "target/*.rs").await, "target/out.rs");
    for pattern in ["**/.git/**", ".git/**", ".git/*"] {
        assert!(found(&dir, pattern).await.starts_with("[nothing matches"), "{pattern}");
    }
}

#[tokio::test]
async fn a_start_and_what_is_not_there() {
    let dir = tree();
    let done = run(&Glob, dir.path(), json!({"pattern": "*.rs", "path": "a"})).await;
    assert_eq!(text(&done), "a/z.rs\n");
    let done = run(&Glob, dir.path(), json!({"pattern": "*.rs", "path": "nope"})).await;
    assert_eq!((code(&done), text(&done)), ("not-found", "there is no directory `nope`."));
    assert!(found(&dir, "*.py").await.contains("`**/` in front"));
    let done = run(&Glob, dir.path(), json!({"pattern": "a[.rs"})).await;
    assert_eq!(code(&done), "invalid-arguments");
}

#[tokio::test]
async fn odd_names_and_many() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    fifo(&dir.path().join("pipe"));
    // No repository, and yet.
    fs::write(dir.path().join(".gitignore"), "ignored\n").unwrap();
    fs::write(dir.path().join("ignored"), "").unwrap();
    assert_eq!(found(&dir, "*").await, "caf\u{fffd} pipe");
    for number in 0..GLOB_PATHS + 1 {
        fs::write(dir.path().join(format!("{number:04}")), "").unwrap();
    }
    let all = found(&dir, "*").await;
    assert!(all.starts_with("0000 0001 "), "{all}");
    assert!(all.ends_with("0499 [these are the first 500; there are more: narrow the pattern]"), "{all}");
}
