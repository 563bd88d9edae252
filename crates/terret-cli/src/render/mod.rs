//! Words for people.

pub(crate) mod ending;
pub(crate) mod event;
pub(crate) mod time;
pub(crate) mod transcript;

/// Prints to stdout; a reader that went away ends the printing quietly.
pub(crate) fn out(text: &str) -> bool {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

/// The first line of a text, cut to a width.
pub(crate) fn first_line(text: &str, width: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.chars().count() > width {
        true => line.chars().take(width.saturating_sub(1)).chain("…".chars()).collect(),
        false => line.to_owned(),
    }
}
