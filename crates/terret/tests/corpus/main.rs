//! Logs of format 1, kept as they were written, and what each of them says to this day.
//!
//! `UPDATE=1 cargo test -p terret --test corpus` writes what they say now beside them; it never writes a log. Whatever
//! changes is to be listed in `CHANGES.md`, with the reason: the test holds every file against that list.
#![allow(clippy::unwrap_used, missing_docs)]

mod kept;
mod said;

use std::path::{Path, PathBuf};

use terret::core::id::Digest;

/// Files there must be: fewer, and some were lost.
const LOGS: usize = 25;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Names and bytes of the logs.
fn logs() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir().join("logs")).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "jsonl")).collect();
    logs.sort();
    assert!(logs.len() >= LOGS, "only {} logs are there", logs.len());
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    logs.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

#[test]
fn every_log_says_what_it_said() {
    let update = std::env::var_os("UPDATE").is_some_and(|v| !v.is_empty() && v != "0");
    let mut wrong = Vec::new();
    for (name, log) in logs() {
        let (path, found) = (dir().join(format!("logs/{name}.txt")), said::by(&log));
        if update {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = |(old, new): &(&str, &str)| old != new;
        if expected != found {
            let first = expected.lines().chain([""]).zip(found.lines().chain([""])).find(differs);
            wrong.push(format!("{name}: expected, and found: {first:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A log or an expectation that changes does so on purpose, and somebody wrote down why.
#[test]
fn every_file_is_as_listed() {
    let list = std::fs::read_to_string(dir().join("CHANGES.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, file, hash, why, _] = cells[..] else { return None };
        let file = file.strip_prefix('`')?.strip_suffix('`')?;
        assert!(!why.is_empty(), "{file}: why did it change?");
        Some((file.to_owned(), hash.to_owned()))
    };
    let mut listed: Vec<_> = list.lines().filter_map(row).collect();
    let entries = std::fs::read_dir(dir().join("logs")).unwrap().map(|entry| entry.unwrap().path());
    let hash = |path: &Path| Digest::of(&std::fs::read(path).unwrap()).to_string()[..16].to_owned();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut found: Vec<_> = entries.map(|path| (name(&path), hash(&path))).collect();
    listed.sort();
    found.sort();
    let rows = |of: &[(String, String)], but: &[(String, String)]| {
        let rows =
            of.iter().filter(|row| !but.contains(row)).map(|(file, hash)| format!("| `{file}` | {hash} |"));
        rows.collect::<Vec<_>>().join("\n")
    };
    let (gone, new) = (rows(&listed, &found), rows(&found, &listed));
    assert!(
        listed == found,
        "CHANGES.md lists\n{gone}\nand there is\n{new}\nSay there what changed, and why."
    );
}
