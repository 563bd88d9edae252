//! The list of faults: what to change, and who must notice.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use super::Result;

const PATH: &str = "xtask/mutants.txt";

/// Where the faults go.
pub(super) const SOURCES: &str = "crates/terret-core/src";

/// One fault.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// Below [`SOURCES`].
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
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Rule(name) => write!(f, "rule {name}"),
            Check::Test(path) => write!(f, "test {path}"),
        }
    }
}

/// Reads the list and checks that every fault still fits the sources.
pub(super) fn read(root: &Path) -> Result<Vec<Mutant>> {
    let mutants = parse(&fs::read_to_string(root.join(PATH))?)?;
    let mut names = BTreeSet::new();
    for mutant in &mutants {
        let source = fs::read_to_string(root.join(SOURCES).join(&mutant.file))
            .map_err(|error| format!("mutant `{}`: {}: {error}", mutant.name, mutant.file))?;
        let found = source.matches(&mutant.from).count();
        if found != 1 {
            let place = format!("{SOURCES}/{}", mutant.file);
            return Err(format!("mutant `{}`: its text stands {found} times in {place}", mutant.name).into());
        }
        if mutant.from == mutant.to || !names.insert(&mutant.name) {
            return Err(format!("mutant `{}` changes nothing, or is there twice", mutant.name).into());
        }
    }
    Ok(mutants)
}

/// A fault is three lines: `NAME | FILE | rule NAME or test PATH`, `- from`, `+ to`. A `\n` in a text is a new line.
fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut mutants = Vec::new();
    while let Some(head) = lines.next() {
        let bad = || format!("{PATH}: `{head}` is not a mutant of three lines");
        let mut parts = head.split(" | ").map(str::to_owned);
        let (Some(name), Some(file), Some(check), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad().into());
        };
        let check = match check.split_once(' ') {
            Some(("rule", name)) => Check::Rule(name.to_owned()),
            Some(("test", path)) => Check::Test(path.to_owned()),
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

    use super::{Check, parse, read};

    #[test]
    fn a_mutant_is_three_lines() {
        let text = "# words\n\na | f.rs | rule turns\n- x\n+ y\nb | g.rs | test t::u\n- x\n+\n";
        let mutants = parse(text).unwrap();
        let names: Vec<_> =
            mutants.iter().map(|m| (m.name.as_str(), m.to.as_str(), m.check.clone())).collect();
        let checks = (Check::Rule("turns".into()), Check::Test("t::u".into()));
        assert_eq!(names, [("a", "y", checks.0), ("b", "", checks.1)]);
        assert!(parse("a | f.rs | rule turns\n- x\n").is_err());
        assert!(parse("a | f.rs | turns\n- x\n+ y\n").is_err());
    }

    #[test]
    fn every_mutant_of_the_list_fits_the_sources() {
        assert!(read(crate::root()).unwrap().len() >= 40);
    }
}
