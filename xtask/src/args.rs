//! Just enough argument parsing that the checks need no parser crate.

use std::fmt;
use std::str::FromStr;

/// The words after the verb. Verbs take out what they know; [`Args::finish`] refuses the rest.
#[derive(Clone)]
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: Vec<String>) -> Args {
        Args { words }
    }

    /// The words no option took yet, to hand on to another process.
    pub(crate) fn into_words(self) -> Vec<String> {
        self.words
    }

    /// Whether `--name` was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let found = self.words.iter().position(|word| word == name);
        found.map(|at| self.words.remove(at)).is_some()
    }

    /// The value after `--name`, parsed.
    pub(crate) fn value<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, UsageError> {
        let Some(at) = self.words.iter().position(|word| word == name) else {
            return Ok(None);
        };
        if at + 1 >= self.words.len() {
            return Err(UsageError(format!("`{name}` needs a value")));
        }
        let value = self.words.remove(at + 1);
        self.words.remove(at);
        value.parse().map(Some).map_err(|_| UsageError(format!("`{name}` cannot be `{value}`")))
    }

    /// Like [`Args::value`], for an option that has no default.
    pub(crate) fn required<T: FromStr>(&mut self, name: &str) -> Result<T, UsageError> {
        self.value(name)?.ok_or_else(|| UsageError(format!("`{name}` is missing")))
    }

    /// Refuses what no option took: a misspelt option must not silently change what is measured.
    pub(crate) fn finish(self) -> Result<(), UsageError> {
        match self.words.first() {
            Some(word) => Err(UsageError(format!("unexpected `{word}`"))),
            None => Ok(()),
        }
    }
}

/// The command line is wrong; exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
