//! Words for people.

pub(crate) mod ending;
pub(crate) mod event;
mod plain;
pub(crate) mod shell;
pub(crate) mod status;
pub(crate) mod time;
pub(crate) mod transcript;

pub(crate) use plain::plain;

use std::io::{ErrorKind, IsTerminal, Write};

use terret::core::price::Usd;

use crate::problem::{Problem, exit};

/// Prints to stdout, byte for byte. `false`: the reader went away, which ends the printing quietly. Anything
/// else that keeps the bytes from it is a problem.
pub(crate) fn out(bytes: impl AsRef<[u8]>) -> Result<bool, Problem> {
    if std::io::stdout().is_terminal() {
        status::clear();
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes.as_ref()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Problem::new(exit::FAILED, format!("cannot write to stdout: {e}"))),
    }
}

/// Prints words for people to stdout: nothing in them moves a cursor.
pub(crate) fn out_plain(text: &str) -> Result<bool, Problem> {
    out(plain(text).as_bytes())
}

/// Prints what is exact for programs, and harmless where a terminal would act on it.
pub(crate) fn out_exact(text: &[u8]) -> Result<bool, Problem> {
    match std::io::stdout().is_terminal() {
        true => out_plain(&String::from_utf8_lossy(text)),
        false => out(text),
    }
}

/// Prints a line to stderr. Nowhere is left to say that stderr is closed, and it stops no work.
pub(crate) fn err(line: impl std::fmt::Display) {
    status::print_over(&format!("{}\n", plain(&line.to_string())));
}

/// An amount of money, with cents at least: `$0.50`.
pub(crate) fn dollars(amount: Usd) -> String {
    let text = amount.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    format!("${whole}.{part:0<2}")
}

/// The first line of a text, cut to a width.
pub(crate) fn first_line(text: &str, width: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.chars().count() > width {
        true => line.chars().take(width.saturating_sub(1)).chain("…".chars()).collect(),
        false => line.to_owned(),
    }
}

/// JSON on one line: what stands between its words is left out. Anything else keeps its bytes, line ends aside.
pub(crate) fn one_line(json: &str) -> std::borrow::Cow<'_, str> {
    if !json.contains('\n') {
        return json.into();
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(json).is_err() {
        return json.replace('\n', " ").into();
    }
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if quoted || !c.is_ascii_whitespace() {
            out.push(c);
        }
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
    }
    out.into()
}
