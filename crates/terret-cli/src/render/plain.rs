//! Text of a model, a server, a tool or a file name, made harmless for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with every character that a terminal would act on shown instead: control characters other than
/// line ends and tabs, and those that turn the direction of writing.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match acts(c) {
            // Writing to a string does not fail.
            true => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn acts(c: char) -> bool {
    let is_control = c.is_control() && c != '\n' && c != '\t';
    is_control || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_a_terminal_acts_on_is_shown() {
        assert_eq!(plain("a\tb\nc é 🦀"), "a\tb\nc é 🦀");
        assert_eq!(plain("\u{1b}[2J\r\u{7f}\u{9b}1m"), "\\u{1b}[2J\\u{d}\\u{7f}\\u{9b}1m");
        assert_eq!(plain("a\u{202e}b\u{2066}c\u{2069}"), "a\\u{202e}b\\u{2066}c\\u{2069}");
    }
}
