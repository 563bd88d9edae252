//! `xtask tidy`: the rules of the code that no compiler knows.
//!
//! Each rule is textual and says less than a compiler could, but it runs in milliseconds and fails with the
//! sentence that explains it. `cargo test` runs it on the real tree.

mod allow;
mod conformance;
mod imports;
mod lex;
mod map;
mod rules;
mod source;

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::args::Args;
use crate::{Outcome, root};
use allow::Allowed;
use source::Source;

/// Longest source file, tests not counted: what one sitting can read.
const MAX_LINES: usize = 400;

/// Places of one machine; a file that names them works nowhere else. Split, so that this file names none.
const STRAY: [&str; 3] = [concat!("../", "shared"), concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// `xtask tidy`: prints what breaks a rule; exit 1 if anything does.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let root = args.value("--root")?.unwrap_or_else(|| root().to_owned());
    args.finish()?;
    let report = check(&root)?;
    for note in &report.notes {
        println!("note: {note}");
    }
    for finding in &report.findings {
        eprintln!("{finding}");
    }
    if report.findings.is_empty() {
        println!("tidy");
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("{} rules broken; exceptions with reasons go to `{}`", report.findings.len(), allow::PATH)
        .into())
}

/// What a look at a tree found.
#[derive(Debug, Default)]
struct Report {
    findings: Vec<Finding>,
    /// What was not checked, and why.
    notes: Vec<String>,
}

/// One broken rule.
#[derive(Debug)]
struct Finding {
    path: String,
    /// Counted from 1; 0: the whole file.
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Checks the tree below `root`.
fn check(root: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let mut files = Vec::new();
    walk(root, Path::new(""), &mut files)?;
    files.sort();
    let mut allowed = Allowed::read(root, &mut report.findings)?;
    for path in &files {
        let bytes = fs::read(root.join(path))?;
        // A picture or an archive has no lines to judge.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        check_stray(path, &text, &mut report.findings);
        if path.ends_with("Cargo.toml") {
            imports::check_manifest(path, &text, &mut report.findings);
        }
        if path.ends_with(".rs") && !is_test(path) {
            let source = Source::read(&text);
            check_size(path, &source, &allowed, &mut report.findings);
            check_wildcards(path, &source, &allowed, &mut report.findings);
            imports::check_source(path, &source, &mut report.findings);
            allowed.seen(path, source.lines(), source.wildcard_arms().len());
        }
    }
    allowed.report_stale(&mut report.findings);
    map::check(root, &files, &mut report)?;
    conformance::check(root, &mut report)?;
    Ok(report)
}

fn check_stray(path: &str, text: &str, findings: &mut Vec<Finding>) {
    if path.ends_with(".lock") {
        return;
    }
    for (at, line) in text.lines().enumerate() {
        for word in STRAY.iter().filter(|word| line.contains(**word)) {
            findings.push(Finding {
                path: path.to_owned(),
                line: at + 1,
                what: format!("names `{word}`, a place of one machine"),
            });
        }
    }
}

fn check_size(path: &str, source: &Source<'_>, allowed: &Allowed, findings: &mut Vec<Finding>) {
    let max = allowed.get("lines", path).unwrap_or(MAX_LINES);
    let lines = source.lines();
    if lines > max {
        findings.push(Finding {
            path: path.to_owned(),
            line: 0,
            what: format!("{lines} lines without tests, {max} at most"),
        });
    }
}

/// A wildcard arm on a closed enum of the core turns a new fact into silence. Which enum an arm matches is not
/// in the text, so every wildcard in the core needs a reason.
fn check_wildcards(path: &str, source: &Source<'_>, allowed: &Allowed, findings: &mut Vec<Finding>) {
    if !path.starts_with("crates/terret-core/") {
        return;
    }
    let arms = source.wildcard_arms();
    let max = allowed.get("wildcard", path).unwrap_or(0);
    if arms.len() > max {
        for line in arms {
            let what = format!(
                "a `_ =>` arm in the core, {max} allowed in this file: name the variants, or give a reason"
            );
            findings.push(Finding { path: path.to_owned(), line, what });
        }
    }
}

/// Files that hold only tests are free to import and to be long.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| part == "tests") || name == "tests.rs" || name.ends_with("_tests.rs")
}

/// Every file below `root`, as a path relative to it, without what is built or belongs to git.
fn walk(root: &Path, below: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if entry.file_name() == ".git" || entry.file_name() == "target" {
            continue;
        }
        if kind.is_dir() {
            walk(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
