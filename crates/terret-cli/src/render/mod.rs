//! Words for people.

pub(crate) mod ending;
pub(crate) mod event;
pub(crate) mod time;
pub(crate) mod transcript;

use std::io::{ErrorKind, Write};

use crate::problem::{Problem, exit};

/// Prints to stdout. `false`: the reader went away, which ends the printing quietly. Anything else that keeps
/// the bytes from it is a problem.
pub(crate) fn out(bytes: impl AsRef<[u8]>) -> Result<bool, Problem> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes.as_ref()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Problem::new(exit::FAILED, format!("cannot write to stdout: {e}"))),
    }
}

/// Prints a line to stderr. Nowhere is left to say that stderr is closed, and it stops no work.
pub(crate) fn err(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// The first line of a text, cut to a width.
pub(crate) fn first_line(text: &str, width: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.chars().count() > width {
        true => line.chars().take(width.saturating_sub(1)).chain("…".chars()).collect(),
        false => line.to_owned(),
    }
}
