//! `read`: a piece of a text file, without line numbers, so that `edit` finds what the model copies.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use terret_core::fact::{CallMode, EffectClass, ToolSpec};

use super::arguments::{parse_args, parse_text, schema};
use super::{Call, Done, Started, Tool, files, paths};
use crate::limits::{BINARY_PROBE_BYTES, READ_BYTES, READ_LINE_BYTES, READ_LINES};

/// Reads a text file.
pub struct Read;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// File to read, from the working directory or absolute.
    path: String,
    /// First line, counted from 1.
    offset: Option<u64>,
    /// How many lines: 2000 unless given, and at most.
    limit: Option<u64>,
}

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read".to_owned(),
            description: "Reads a text file: up to 2000 lines or 64 KiB in one call, from line `offset` on. \
                          Says in brackets at the end when there is more."
                .to_owned(),
            parameters: schema::<Args>(),
        }
    }

    fn effect(&self) -> EffectClass {
        EffectClass::Read
    }

    fn mode(&self, arguments: &str) -> CallMode {
        parse_text::<Args>("read", arguments).map_or(CallMode::Exclusive, |_| CallMode::Parallel)
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        parse_args::<Args>(call).map(drop)
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        let call = started.into_call();
        Box::pin(files::blocking(call, |call| read(call, &parse_args(call)?)))
    }
}

fn read(call: &Call, args: &Args) -> Result<Done, Done> {
    let path = paths::absolute(call, &args.path)?;
    let (file, meta) = files::open_regular(&path).map_err(|trouble| files::explain(call, &path, trouble))?;
    let io = |error| files::explain(call, &path, files::Trouble::Io(error));
    let mut reader = BufReader::with_capacity(BINARY_PROBE_BYTES, file);
    let start = reader.fill_buf().map_err(io)?;
    if start.is_empty() {
        return Ok(Done::ok(format!("[`{}` is empty]", args.path)));
    }
    if start.contains(&0) {
        let text = format!(
            "`{}` is a binary file of {} bytes. Look at it with the shell: `file`, `strings` or `xxd | head`.",
            args.path,
            meta.len()
        );
        return Err(Done::error(&call.name, "binary", text));
    }
    piece(call, args, &path, reader)
}

fn piece(call: &Call, args: &Args, path: &Path, mut reader: BufReader<File>) -> Result<Done, Done> {
    let first = args.offset.unwrap_or(1).max(1);
    let limit = args.limit.map_or(READ_LINES as u64, |limit| limit.clamp(1, READ_LINES as u64));
    let (mut text, mut notes) = (String::new(), Vec::new());
    let (mut number, mut crlf, mut long) = (0, false, false);
    let mut lossy = false;
    loop {
        if *call.stop.borrow() {
            return Err(super::stopped(call));
        }
        let line = next_line(&mut reader).map_err(|e| files::explain(call, path, files::Trouble::Io(e)))?;
        let Some(line) = line else { break };
        number += 1;
        if number < first {
            continue;
        }
        let (shown, bad) = line.text(number == 1);
        // A line that does not fit any more starts the next piece. The first one always fits.
        if number - first >= limit || text.len() + shown.len() > READ_BYTES {
            notes.push(format!("more follows: read on with offset {number}"));
            break;
        }
        text.push_str(&shown);
        lossy |= bad;
        crlf |= line.crlf;
        long |= line.cut_bytes > 0;
    }
    if number < first {
        let text = format!("`{}` has {number} lines: there is no line {first}.", args.path);
        return Err(Done::error(&call.name, "past-end", text));
    }
    if long {
        notes.push(format!("long lines are cut to {READ_LINE_BYTES} bytes"));
    }
    if crlf {
        notes.push("lines end in CRLF".to_owned());
    }
    if lossy {
        notes.push("not all of it is UTF-8".to_owned());
    }
    if !notes.is_empty() {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{}]\n", notes.join("; ")));
    }
    Ok(Done::ok(text))
}

struct Line {
    bytes: Vec<u8>,
    cut_bytes: u64,
    crlf: bool,
    ended: bool,
}

impl Line {
    /// The text with its line end as LF, and whether it was not UTF-8.
    fn text(&self, first: bool) -> (String, bool) {
        let mut bytes = self.bytes.as_slice();
        if first {
            bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        }
        let whole = String::from_utf8_lossy(bytes);
        let bad = matches!(whole, std::borrow::Cow::Owned(_));
        let mut text = whole.into_owned();
        if self.cut_bytes > 0 {
            text.push_str(&format!(" [... {} bytes cut]", self.cut_bytes));
        }
        if self.ended {
            text.push('\n');
        }
        (text, bad)
    }
}

/// The next line, of which no more than the limit is held in memory.
fn next_line(reader: &mut BufReader<File>) -> std::io::Result<Option<Line>> {
    let (mut bytes, mut length, mut last) = (Vec::new(), 0_u64, 0_u8);
    let ended = loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break false;
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        // A few bytes more than are shown: the cut is made at a character border.
        let room = (READ_LINE_BYTES + 4).saturating_sub(bytes.len());
        bytes.extend_from_slice(&part[..part.len().min(room)]);
        length += part.len() as u64;
        last = part.last().copied().unwrap_or(last);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            break true;
        }
    };
    if length == 0 && !ended {
        return Ok(None);
    }
    let crlf = ended && last == b'\r' && length > 0;
    length -= u64::from(crlf);
    bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len()));
    if bytes.len() > READ_LINE_BYTES {
        let mut border = READ_LINE_BYTES;
        while border > 0 && bytes[border] & 0xc0 == 0x80 && READ_LINE_BYTES - border < 3 {
            border -= 1;
        }
        bytes.truncate(border);
    }
    let cut_bytes = length - bytes.len() as u64;
    Ok(Some(Line { bytes, cut_bytes, crlf, ended }))
}

#[cfg(test)]
mod tests;
