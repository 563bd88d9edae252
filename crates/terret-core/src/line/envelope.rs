//! What stands around a payload. Lines as this library writes them are read by hand; all others, and what is wrong
//! with them, by the JSON parser. A line that both can read is the same line to both.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{CRC_TAIL, H_TAIL, Line, LineError};
use crate::fact::Rel;
use crate::id::{Digest, Seq};

/// Reads the envelope of a line that has its checksum.
pub(super) fn read(line: &[u8]) -> Result<Line<'_>, LineError> {
    exact(line).map_or_else(|| json(line), Ok)
}

/// A line with these keys in this order and no byte between them. The payload is checked to be one JSON object:
/// so the trailers are none of it.
fn exact(line: &[u8]) -> Option<Line<'_>> {
    let (seq, rest) = number(line.strip_prefix(br#"{"seq":"#)?)?;
    let (time, rest) = number(rest.strip_prefix(br#","time":"#)?)?;
    let (kind, rest) = word(rest.strip_prefix(br#","type":""#)?)?;
    let (rel, rest) = match rest.strip_prefix(br#","rel":""#).map(word) {
        None => (None, rest),
        Some(Some(("view", rest))) => (Some(Rel::View), rest),
        Some(Some(("context", rest))) => (Some(Rel::Context), rest),
        Some(_) => return None,
    };
    let (v, rest) = match rest.strip_prefix(br#","v":"#) {
        None => (1, rest),
        Some(rest) => number(rest).and_then(|(v, rest)| Some((u32::try_from(v).ok()?, rest)))?,
    };
    let rest = rest.strip_prefix(br#","data":"#)?;
    let rest = &rest[..rest.len().checked_sub(CRC_TAIL)?];
    let (rest, h) = chain_value(rest).map_or((rest, None), |(rest, h)| (rest, Some(h)));
    let (rest, d) = synced(rest).map_or((rest, None), |(rest, d)| (rest, Some(d)));
    Some(Line { seq, time, kind: Cow::Borrowed(kind), rel, v, data: object(rest)?, d, h })
}

/// The number these bytes begin with, as JSON spells it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    // One digit more might not fit.
    const MOST: usize = 19;
    let (digits, rest) = bytes.split_at(bytes.iter().take_while(|b| b.is_ascii_digit()).count());
    let plain = match digits {
        [] => false,
        [b'0', more @ ..] => more.is_empty(),
        [_, ..] => digits.len() <= MOST,
    };
    plain.then(|| (digits.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0')), rest))
}

/// The letters these bytes begin with, up to and over a quote.
fn word(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let legal = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.');
    let (word, rest) = bytes.split_at(bytes.iter().take_while(|b| legal(b)).count());
    Some((std::str::from_utf8(word).ok()?, rest.strip_prefix(b"\"")?))
}

/// What stands before a chain value, and the value.
fn chain_value(bytes: &[u8]) -> Option<(&[u8], Digest)> {
    let (rest, tail) = bytes.split_at_checked(bytes.len().checked_sub(H_TAIL)?)?;
    let hex = tail.strip_prefix(br#","h":""#)?.strip_suffix(b"\"")?;
    Some((rest, std::str::from_utf8(hex).ok()?.parse().ok()?))
}

/// What stands before the seq that was synced, and that.
fn synced(bytes: &[u8]) -> Option<(&[u8], Seq)> {
    let digits = bytes.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (rest, digits) = bytes.split_at(bytes.len() - digits);
    Some((rest.strip_suffix(br#","d":"#)?, number(digits)?.0))
}

/// These bytes, if they are one JSON object and nothing else.
fn object(bytes: &[u8]) -> Option<&str> {
    let text = serde_json::from_slice::<&RawValue>(bytes).ok()?.get();
    (text.len() == bytes.len() && text.starts_with('{')).then_some(text)
}

/// A line in any shape the format allows.
fn json(line: &[u8]) -> Result<Line<'_>, LineError> {
    let e: Envelope<'_> = serde_json::from_slice(line).map_err(LineError::json)?;
    let Envelope { seq, time, kind, rel, v, data, d, h } = e;
    Ok(Line { seq, time, kind, rel, v: v.unwrap_or(1), data: data.get(), d, h })
}

#[derive(Deserialize)]
struct Envelope<'a> {
    seq: Seq,
    time: u64,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    rel: Option<Rel>,
    v: Option<u32>,
    #[serde(borrow)]
    data: &'a RawValue,
    d: Option<Seq>,
    h: Option<Digest>,
}

#[cfg(test)]
mod tests;
