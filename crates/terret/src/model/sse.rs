//! Server-sent events, byte level: bytes in, events out, no IO.
//!
//! Lines end at LF, CR or CRLF and at nothing else; text is decoded a whole line at a time, because a network
//! read may end inside a character. A byte is looked at once, so a slow drip of one huge line stays linear.

use std::ops::ControlFlow;

use crate::limits::MAX_EVENT_BYTES;

/// One event. An event without data is never reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Event name; empty where none was given.
    pub name: &'a str,
    /// The `data` lines, joined with LF, trimmed.
    pub data: &'a str,
}

/// What an event handler says: go on, or stop with a value.
pub type Flow<B> = ControlFlow<B>;

/// An event grew past [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {} MiB", MAX_EVENT_BYTES >> 20)]
pub struct TooLarge;

impl Default for SseReader {
    fn default() -> Self {
        SseReader::with_max_event(MAX_EVENT_BYTES)
    }
}

/// Reads events from bytes as they come. Holds one line and one event, and neither is larger than its limit.
#[derive(Debug)]
pub struct SseReader {
    max_event_bytes: usize,
    /// Bytes of a line whose end has not come.
    line: Vec<u8>,
    /// The last byte was a CR: an LF right after it belongs to it.
    after_cr: bool,
    /// A line has been read: past the place where a byte order mark may stand.
    past_first_line: bool,
    event: Building,
}

/// The event being put together. Its buffers are reused from event to event.
#[derive(Debug, Default)]
struct Building {
    name: String,
    data: String,
    has_data: bool,
}

impl SseReader {
    /// A reader at the start of a body.
    pub fn new() -> Self {
        SseReader::default()
    }

    /// The same with another limit, for tests of what happens there.
    pub fn with_max_event(max_event_bytes: usize) -> Self {
        let (line, event) = (Vec::new(), Building::default());
        SseReader { max_event_bytes, line, after_cr: false, past_first_line: false, event }
    }

    /// Takes bytes in and reports the events they complete. After a stop the rest of the bytes is not read.
    pub fn push<B>(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(Event<'_>) -> Flow<B>,
    ) -> Result<Flow<B>, TooLarge> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (head, tail) = bytes.split_at(end);
            let flow = if self.line.is_empty() {
                self.end_line(head, &mut on_event)?
            } else {
                self.line.extend_from_slice(head);
                let mut line = std::mem::take(&mut self.line);
                let flow = self.end_line(&line, &mut on_event)?;
                line.clear();
                self.line = line;
                flow
            };
            bytes = self.skip_line_end(tail);
            if flow.is_break() {
                return Ok(flow);
            }
        }
        if self.line.len() + bytes.len() > self.max_event_bytes {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(Flow::Continue(()))
    }

    /// The body ended cleanly. An event whose blank line never came counts only if it is visibly whole: the
    /// end marker, or one complete JSON object. Anything else is torn and dropped.
    pub fn finish<B>(&mut self, mut on_event: impl FnMut(Event<'_>) -> Flow<B>) -> Result<Flow<B>, TooLarge> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            let flow = self.end_line(&line, &mut on_event)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        let data = self.event.data.trim();
        let whole = data.starts_with("[DONE]") || is_json_object(data);
        if self.event.has_data && whole {
            Ok(self.event.dispatch(&mut on_event))
        } else {
            Ok(Flow::Continue(()))
        }
    }

    fn skip_line_end<'a>(&mut self, tail: &'a [u8]) -> &'a [u8] {
        match tail {
            [b'\r', b'\n', rest @ ..] => rest,
            [b'\r'] => {
                self.after_cr = true;
                &[]
            }
            [_, rest @ ..] => rest,
            [] => &[],
        }
    }

    fn end_line<B>(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(Event<'_>) -> Flow<B>,
    ) -> Result<Flow<B>, TooLarge> {
        // Wherever it was cut: a line is too long or it is not.
        if line.len() > self.max_event_bytes {
            return Err(TooLarge);
        }
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.event.dispatch(on_event));
        }
        self.event.field(line, self.max_event_bytes, on_event)
    }
}

/// The UTF-8 byte order mark.
const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Building {
    fn field<B>(
        &mut self,
        line: &[u8],
        max_event_bytes: usize,
        on_event: &mut impl FnMut(Event<'_>) -> Flow<B>,
    ) -> Result<Flow<B>, TooLarge> {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.data.len() + value.len() > max_event_bytes {
                    return Err(TooLarge);
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                push_lossy(&mut self.data, value);
            }
            b"event" => {
                self.name.clear();
                push_lossy(&mut self.name, value);
            }
            // Old llama.cpp servers report errors as a field of this name; the standard would drop it.
            b"error" => {
                let value = String::from_utf8_lossy(value);
                if is_json_object(value.trim()) {
                    return Ok(on_event(Event { name: "error", data: value.trim() }));
                }
            }
            // Comments (an empty name), `id`, `retry` and unknown fields say nothing to us.
            _ => {}
        }
        Ok(Flow::Continue(()))
    }

    fn dispatch<B>(&mut self, on_event: &mut impl FnMut(Event<'_>) -> Flow<B>) -> Flow<B> {
        let data = self.data.trim();
        let flow = if data.is_empty() {
            Flow::Continue(())
        } else {
            on_event(Event { name: self.name.trim(), data })
        };
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        flow
    }
}

fn push_lossy(text: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(valid) => text.push_str(valid),
        Err(_) => text.push_str(&String::from_utf8_lossy(bytes)),
    }
}

fn is_json_object(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// What a body with status 200 is, whatever its content type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// Events.
    Events,
    /// A plain JSON value.
    Json,
    /// A page for a browser.
    Html,
    /// Compressed, although nobody asked for it.
    Compressed,
}

/// Tells a body's kind from its first byte that is not blank; `None` while there is none.
pub fn sniff(bytes: &[u8]) -> Option<BodyKind> {
    if BOM.starts_with(bytes) && bytes.len() < BOM.len() {
        return None;
    }
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes).trim_ascii_start();
    bytes.first().map(|first| match first {
        b'{' | b'[' => BodyKind::Json,
        b'<' => BodyKind::Html,
        0x1f => BodyKind::Compressed,
        _ => BodyKind::Events,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{BodyKind, Flow, SseReader, TooLarge, sniff};
    use crate::limits::MAX_EVENT_BYTES;

    type Got = Vec<(String, String)>;

    fn read(pieces: &[&[u8]]) -> Got {
        let mut got = Got::new();
        let mut reader = SseReader::new();
        let mut keep = |event: super::Event<'_>| {
            got.push((event.name.to_owned(), event.data.to_owned()));
            Flow::<()>::Continue(())
        };
        for piece in pieces {
            assert!(reader.push(piece, &mut keep).unwrap().is_continue());
        }
        assert!(reader.finish(&mut keep).unwrap().is_continue());
        got
    }

    fn read_all_ways(body: &[u8]) -> Got {
        let whole = read(&[body]);
        let single: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(read(&single), whole, "byte by byte");
        for at in 0..=body.len() {
            let (head, tail) = body.split_at(at);
            assert_eq!(read(&[head, tail]), whole, "split at {at}");
        }
        whole
    }

    fn events(list: &[(&str, &str)]) -> Got {
        list.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect()
    }

    #[test]
    fn line_ends_are_lf_cr_and_crlf() {
        for end in ["\n", "\r", "\r\n"] {
            let body = format!("event: a{end}data: 1{end}{end}data: 2{end}{end}").into_bytes();
            assert_eq!(read_all_ways(&body), events(&[("a", "1"), ("", "2")]), "{end:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once_at_the_start() {
        assert_eq!(read_all_ways(b"\xEF\xBB\xBFdata: 1\n\ndata: 2\n\n"), events(&[("", "1"), ("", "2")]));
        assert_eq!(read_all_ways(b"\n\xEF\xBB\xBFdata: 1\n\n"), events(&[]));
    }

    #[test]
    fn an_event_without_data_is_none_and_loses_its_name() {
        assert_eq!(read_all_ways(b"event: a\n\ndata: 1\n\n"), events(&[("", "1")]));
        assert_eq!(read_all_ways(b"data\n\ndata:  \n\nid: 1\n\nretry: 2\n\n: x\n\n"), events(&[]));
    }

    #[test]
    fn one_space_is_stripped_lines_are_joined_and_the_whole_is_trimmed() {
        assert_eq!(read_all_ways(b"data:a\ndata:  b \ndata: c \n\n"), events(&[("", "a\n b \nc")]));
    }

    #[test]
    fn broken_characters_are_replaced_and_do_not_spread() {
        assert_eq!(
            read_all_ways(b"data: a\xFFb\n\ndata: \xC3\n\n"),
            events(&[("", "a\u{FFFD}b"), ("", "\u{FFFD}")])
        );
    }

    #[test]
    fn a_tail_counts_only_if_it_is_visibly_whole() {
        assert_eq!(read_all_ways(b"data: [DONE]"), events(&[("", "[DONE]")]));
        assert_eq!(read_all_ways(b"data: {\"a\":1}\n"), events(&[("", "{\"a\":1}")]));
        assert_eq!(read_all_ways(b"data: {\"a\":1"), events(&[]));
        assert_eq!(read_all_ways(b"data: 1"), events(&[]));
        assert_eq!(read_all_ways(b"data: {\"a\":1}\nda"), events(&[("", "{\"a\":1}")]));
    }

    #[test]
    fn an_error_field_with_an_object_is_an_error_event() {
        assert_eq!(read_all_ways(b"error: {\"code\":1}\n\n"), events(&[("error", "{\"code\":1}")]));
        assert_eq!(read_all_ways(b"error: boo\n\n"), events(&[]));
    }

    #[test]
    fn a_stop_leaves_the_rest_unread() {
        let mut reader = SseReader::new();
        let mut seen = 0;
        let flow = reader.push(b"data: 1\n\ndata: 2\n\n", |_| {
            seen += 1;
            Flow::Break(7)
        });
        assert_eq!((flow, seen), (Ok(Flow::Break(7)), 1));
    }

    #[test]
    fn an_endless_event_is_refused() {
        let piece = vec![b'x'; MAX_EVENT_BYTES / 4];
        let mut reader = SseReader::new();
        let mut outcome = Ok(Flow::<()>::Continue(()));
        for _ in 0..5 {
            outcome = reader.push(&piece, |_| Flow::Continue(()));
        }
        assert_eq!(outcome, Err(TooLarge));

        let mut lines = b"data: ".to_vec();
        lines.extend_from_slice(&piece);
        lines.push(b'\n');
        let mut reader = SseReader::new();
        for _ in 0..5 {
            outcome = reader.push(&lines, |_| Flow::Continue(()));
        }
        assert_eq!(outcome, Err(TooLarge));
    }

    #[test]
    fn a_body_is_known_by_its_first_byte() {
        assert_eq!(sniff(b""), None);
        assert_eq!(sniff(b"\xEF\xBB"), None);
        assert_eq!(sniff(b"\xEF\xBB\xBF \n"), None);
        assert_eq!(sniff(b"\n {"), Some(BodyKind::Json));
        assert_eq!(sniff(b"\xEF\xBB\xBF["), Some(BodyKind::Json));
        assert_eq!(sniff(b"<html>"), Some(BodyKind::Html));
        assert_eq!(sniff(b": hi"), Some(BodyKind::Events));
        assert_eq!(sniff(b"\x1f\x8b"), Some(BodyKind::Compressed));
    }
}
