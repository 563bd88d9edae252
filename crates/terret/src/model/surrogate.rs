//! Halves of surrogate pairs in JSON escapes.
//!
//! Proxies written in JavaScript cut strings between the two halves of a pair. JSON readers refuse a lone
//! half. Such a half is replaced by a stand-in from a private plane, and joined with its other half once that
//! comes.

use std::borrow::Cow;

/// First stand-in; there are as many as there are surrogates. Unassigned for ever: private use.
const STAND_IN: u32 = 0x10_F000;

/// The JSON text with every lone half replaced; `None` if it has none.
pub(super) fn stand_in(json: &str) -> Option<String> {
    let mut fixed = String::with_capacity(json.len());
    let mut rest = json;
    let mut found = false;
    while let Some(at) = rest.find('\\') {
        let (head, tail) = rest.split_at(at);
        fixed.push_str(head);
        let Some(unit) = escape(tail).filter(|unit| (0xD800..0xE000).contains(unit)) else {
            // Any other escape is passed on together with the character it protects.
            let len = 1 + tail.chars().nth(1).map_or(0, char::len_utf8);
            fixed.push_str(&tail[..len]);
            rest = &tail[len..];
            continue;
        };
        let paired = unit < 0xDC00 && escape(&tail[6..]).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        if paired {
            fixed.push_str(&tail[..12]);
            rest = &tail[12..];
        } else {
            found = true;
            fixed.extend(char::from_u32(STAND_IN + u32::from(unit - 0xD800)));
            rest = &tail[6..];
        }
    }
    fixed.push_str(rest);
    found.then_some(fixed)
}

/// The unit of a `\uXXXX` at the start.
fn escape(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Turns stand-ins back: pairs are joined, also with a half held over from the text before; a half at the end
/// is held for the text to come; a half without its other becomes U+FFFD.
pub(super) fn join(held: &mut Option<u16>, text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for c in text.chars() {
        let unit = u32::from(c).checked_sub(STAND_IN).filter(|offset| *offset < 0x800);
        let unit = unit.map(|offset| 0xD800 + offset as u16);
        match (held.take(), unit) {
            (Some(high), Some(low)) if low >= 0xDC00 => {
                joined.extend(
                    char::decode_utf16([high, low]).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)),
                );
                continue;
            }
            (Some(_), _) => joined.push(char::REPLACEMENT_CHARACTER),
            (None, _) => {}
        }
        match unit {
            Some(high) if high < 0xDC00 => *held = Some(high),
            Some(_) => joined.push(char::REPLACEMENT_CHARACTER),
            None => joined.push(c),
        }
    }
    joined
}

/// Like [`join`] for a text that stands alone.
pub(super) fn join_alone(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut held = None;
    let mut joined = join(&mut held, &text);
    if held.is_some() {
        joined.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(joined)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{join, stand_in};

    fn texts(pieces: &[&str]) -> Vec<String> {
        let mut held = None;
        let read = |piece: &&str| {
            let json = format!("\"{piece}\"");
            let json = stand_in(&json).unwrap_or(json);
            join(&mut held, &serde_json::from_str::<String>(&json).unwrap())
        };
        pieces.iter().map(read).collect()
    }

    #[test]
    fn halves_find_each_other() {
        assert_eq!(texts(&["A\\ud83d", "\\ude00B"]), ["A", "😀B"]);
        assert_eq!(texts(&["\\ud83d", "", "\\ude00"]), ["", "", "😀"]);
        assert_eq!(texts(&["\\ud83d\\ude00", "x"]), ["😀", "x"]);
    }

    #[test]
    fn a_half_that_stays_alone_is_replaced() {
        assert_eq!(texts(&["A\\ud83d", "B"]), ["A", "\u{FFFD}B"]);
        assert_eq!(texts(&["\\ude00\\ud83dx"]), ["\u{FFFD}\u{FFFD}x"]);
        assert_eq!(texts(&["\\\\ud83d"]), ["\\ud83d"], "an escaped backslash is no escape of a unit");
    }
}
