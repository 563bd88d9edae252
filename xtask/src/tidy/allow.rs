//! The list of exceptions: `xtask/tidy-allow.txt`. A line is `RULE FILE NUMBER REASON`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::Finding;

/// Where the list is.
pub(super) const PATH: &str = "xtask/tidy-allow.txt";

/// Rules that have exceptions: the most lines of a file, and the most wildcard arms in a file of the core.
const RULES: [&str; 2] = ["lines", "wildcard"];

/// The exceptions, by rule and file.
#[derive(Default)]
pub(super) struct Allowed {
    entries: BTreeMap<(String, String), Entry>,
}

struct Entry {
    line: usize,
    number: usize,
    /// What the file really has, once it was looked at.
    found: usize,
}

impl Allowed {
    /// Reads the list; a tree without one has no exceptions. A line without a reason is a finding.
    pub(super) fn read(root: &Path, findings: &mut Vec<Finding>) -> io::Result<Allowed> {
        let text = match std::fs::read_to_string(root.join(PATH)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let mut allowed = Allowed::default();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match (words.as_slice(), words.get(2).and_then(|number| number.parse().ok())) {
                ([rule, file, _, reason], Some(number))
                    if RULES.contains(rule) && !reason.trim().is_empty() =>
                {
                    let key = ((*rule).to_owned(), (*file).to_owned());
                    allowed.entries.insert(key, Entry { line: at + 1, number, found: 0 });
                }
                _ => findings.push(Finding {
                    path: PATH.to_owned(),
                    line: at + 1,
                    what: format!("not `RULE FILE NUMBER REASON` with a rule of {RULES:?}"),
                }),
            }
        }
        Ok(allowed)
    }

    /// The number a file is allowed.
    pub(super) fn get(&self, rule: &str, path: &str) -> Option<usize> {
        self.entries.get(&(rule.to_owned(), path.to_owned())).map(|entry| entry.number)
    }

    /// Notes what a file really has.
    pub(super) fn seen(&mut self, path: &str, lines: usize, wildcards: usize) {
        for (rule, found) in [("lines", lines), ("wildcard", wildcards)] {
            if let Some(entry) = self.entries.get_mut(&(rule.to_owned(), path.to_owned())) {
                entry.found = found;
            }
        }
    }

    /// An exception that nothing needs any more would hide the next one.
    pub(super) fn report_stale(&self, findings: &mut Vec<Finding>) {
        for ((rule, path), entry) in &self.entries {
            let needed = if rule == "lines" { entry.found > super::MAX_LINES } else { entry.found > 0 };
            if !needed {
                let what = format!("`{rule} {path}` is not needed any more: remove it");
                findings.push(Finding { path: PATH.to_owned(), line: entry.line, what });
            }
        }
    }
}
