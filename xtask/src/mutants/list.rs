//! The list of faults: what to change, and who must notice.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use super::Result;

/// A list, and the crate its faults go into.
#[derive(Debug)]
pub(super) struct Table {
    path: &'static str,
    /// Where the faults go.
    pub(super) sources: &'static str,
    /// What is copied to try them.
    pub(super) crates: &'static [&'static str],
    /// The crate that holds the tests, and the name of their binary.
    pub(super) tests: (&'static str, &'static str),
}

/// Every list.
pub(super) static TABLES: [Table; 2] = [
    Table {
        path: "xtask/mutants.txt",
        sources: "crates/terret-core/src",
        crates: &["crates/terret-core"],
        tests: ("terret-core", "core"),
    },
    Table {
        path: "xtask/mutants-driver.txt",
        sources: "crates/terret/src",
        crates: &["crates/terret-core", "crates/terret", "crates/terret-sim"],
        tests: ("terret-sim", "sim"),
    },
];

/// One fault.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// Below the sources of its table.
    pub(super) file: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) check: Check,
}

/// Who must notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// The exploration, with this rule of the log.
    Rule(String),
    /// A test of the core, by its path.
    Test(String),
    /// The simulation, with these words.
    Sim(String),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Rule(name) => write!(f, "rule {name}"),
            Check::Test(path) => write!(f, "test {path}"),
            Check::Sim(words) => write!(f, "sim {words}"),
        }
    }
}

/// Reads a list and checks that every fault still fits the sources.
pub(super) fn read(root: &Path, table: &Table) -> Result<Vec<Mutant>> {
    let mutants = parse(table.path, &fs::read_to_string(root.join(table.path))?)?;
    let mut names = BTreeSet::new();
    for mutant in &mutants {
        let source = fs::read_to_string(root.join(table.sources).join(&mutant.file))
            .map_err(|error| format!("mutant `{}`: {}: {error}", mutant.name, mutant.file))?;
        let found = source.matches(&mutant.from).count();
        if found != 1 {
            let place = format!("{}/{}", table.sources, mutant.file);
            return Err(format!("mutant `{}`: its text stands {found} times in {place}", mutant.name).into());
        }
        if mutant.from == mutant.to || !names.insert(&mutant.name) {
            return Err(format!("mutant `{}` changes nothing, or is there twice", mutant.name).into());
        }
    }
    Ok(mutants)
}

/// A fault is three lines: `NAME | FILE | rule NAME, test PATH or sim WORDS`, `- from`, `+ to`. A `\n` in a text is a new line.
fn parse(path: &str, text: &str) -> Result<Vec<Mutant>> {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut mutants = Vec::new();
    while let Some(head) = lines.next() {
        let bad = || format!("{path}: `{head}` is not a mutant of three lines");
        let mut parts = head.split(" | ").map(str::to_owned);
        let (Some(name), Some(file), Some(check), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad().into());
        };
        let check = match check.split_once(' ') {
            Some(("rule", name)) => Check::Rule(name.to_owned()),
            Some(("test", path)) => Check::Test(path.to_owned()),
            Some(("sim", words)) => Check::Sim(words.to_owned()),
            Some(_) | None => return Err(bad().into()),
        };
        let mut text = |mark: &str| lines.next().and_then(|line| line.strip_prefix(mark));
        let from = text("- ").ok_or_else(bad)?.replace("\\n", "\n");
        let to = text("+").ok_or_else(bad)?.trim_start().replace("\\n", "\n");
        mutants.push(Mutant { name, file, from, to, check });
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Check, TABLES, parse, read};

    #[test]
    fn a_mutant_is_three_lines() {
        let text = "# words\n\na | f.rs | rule turns\n- x\n+ y\nb | g.rs | test t::u\n- x\n+\n";
        let mutants = parse("list", text).unwrap();
        let names: Vec<_> =
            mutants.iter().map(|m| (m.name.as_str(), m.to.as_str(), m.check.clone())).collect();
        let checks = (Check::Rule("turns".into()), Check::Test("t::u".into()));
        assert_eq!(names, [("a", "y", checks.0), ("b", "", checks.1)]);
        assert!(parse("list", "a | f.rs | rule turns\n- x\n").is_err());
        assert!(parse("list", "a | f.rs | turns\n- x\n+ y\n").is_err());
    }

    #[test]
    fn every_mutant_of_the_list_fits_the_sources() {
        let counts = TABLES.each_ref().map(|table| read(crate::root(), table).unwrap().len());
        assert!(counts[0] >= 40 && counts[1] >= 15, "{counts:?}");
    }
}
