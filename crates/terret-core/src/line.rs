//! The wire form of the log: one JSON object a line, with trailers that make every byte checkable.
//!
//! A line is `{"seq":…,"time":…,"type":…,["rel":…,]["v":…,]"data":{…}[,"d":…][,"h":…],"crc":"…"}` and a
//! newline. `crc` is crc32c of the bytes before it. `h` chains: blake3 over the previous `h` (32 bytes, a
//! constant for the first) and every byte after that line's newline up to this line's `,"h"`.
//! Source: `docs/reference/log-format.md`.

mod header;

pub use header::{Parent, SessionHeader, SessionTag};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fact::{Class, Fact, PluginEvent, Rel};
use crate::id::{Digest, Seq};
use crate::limits::MAX_LINE_BYTES;
use crate::raw::Raw;

/// The format this library writes, and the newest it reads.
pub const FORMAT: u32 = 1;

const CHAIN_START: &[u8] = b"terret log chain, format 1";
const CRC_TAIL: usize = r#","crc":"00000000"}"#.len();
const H_TAIL: usize = r#","h":"""#.len() + 64;

/// A fact in its place: what the log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Place in the log.
    pub seq: Seq,
    /// Epoch milliseconds as the clock said; may repeat or go back.
    pub time: u64,
    /// What happened.
    pub fact: Fact,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The bytes are not those that were written.
    #[error("checksum: the line says {expected}, its bytes give {found}")]
    Crc {
        /// What stands in the line.
        expected: String,
        /// What its bytes give.
        found: String,
    },
    /// The line has no checksum where one belongs: cut, or not ours.
    #[error("no checksum at the end of the line")]
    NoCrc,
    /// The chain value does not fit what stands before it.
    #[error("chain: the line says {expected}, the bytes before it give {found}")]
    Chain {
        /// What stands in the line.
        expected: Digest,
        /// What the bytes give.
        found: Digest,
    },
    /// A number is missing, repeated or out of order.
    #[error("expected seq {expected}, found {found}")]
    Seq {
        /// The one that belongs here.
        expected: Seq,
        /// The one that stands here.
        found: Seq,
    },
    /// Not the JSON this format promises.
    #[error("not a log line: {0}")]
    Form(String),
    /// A core type this version does not know.
    #[error("unknown event type `{0}`: a newer terret wrote it: upgrade terret")]
    UnknownType(String),
    /// A newer format.
    #[error("format {found} is newer than this terret reads (up to {FORMAT}): upgrade terret")]
    Newer {
        /// Its format.
        found: u32,
    },
    /// Longer than a line may be.
    #[error("a line of {0} bytes is over the limit of {MAX_LINE_BYTES}")]
    TooLong(usize),
}

impl LineError {
    /// Whether the line is as it was written, by a newer terret: to be read with that one.
    pub fn is_newer(&self) -> bool {
        matches!(self, LineError::UnknownType(_) | LineError::Newer { .. })
    }

    /// What belongs in the line, and what stands there, in words.
    pub fn sides(&self) -> (String, String) {
        match self {
            LineError::Crc { expected, found } => {
                (format!("checksum {expected}, as the line says"), format!("checksum {found} of its bytes"))
            }
            LineError::NoCrc => ("a checksum at the end of the line".into(), "none".into()),
            LineError::Chain { expected, found } => (
                format!("chain value {expected}, as the line says"),
                format!("chain value {found} of the bytes before it"),
            ),
            LineError::Seq { expected, found } => (format!("seq {expected}"), format!("seq {found}")),
            LineError::Form(why) => ("a line as this format has it".into(), why.clone()),
            LineError::UnknownType(kind) => {
                ("a type of event that this terret knows".into(), format!("`{kind}`"))
            }
            LineError::Newer { found } => (format!("format {FORMAT} or older"), format!("format {found}")),
            LineError::TooLong(bytes) => {
                (format!("at most {MAX_LINE_BYTES} bytes in a line"), format!("{bytes} or more"))
            }
        }
    }

    fn json(error: serde_json::Error) -> Self {
        LineError::Form(error.to_string())
    }
}

/// One line as read: the envelope parsed, the payload still raw.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Place in the log.
    pub seq: Seq,
    /// Epoch milliseconds.
    pub time: u64,
    /// Type on disk.
    pub kind: std::borrow::Cow<'a, str>,
    /// Reach of a plugin event.
    pub rel: Option<Rel>,
    /// Version of the payload.
    pub v: u32,
    /// The payload.
    pub data: &'a str,
    /// Highest seq known synced when the line was written.
    pub d: Option<Seq>,
    /// Chain value.
    pub h: Option<Digest>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    seq: Seq,
    time: u64,
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    rel: Option<Rel>,
    v: Option<u32>,
    #[serde(borrow)]
    data: &'a RawValue,
    d: Option<Seq>,
    h: Option<Digest>,
}

impl<'a> Line<'a> {
    /// Checks the checksum and reads the envelope; `bytes` is the line without its newline.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LineError> {
        check_crc(bytes)?;
        let e: Envelope<'a> = serde_json::from_slice(bytes).map_err(LineError::json)?;
        if !e.data.get().starts_with('{') {
            return Err(LineError::Form("`data` is not an object".into()));
        }
        if e.kind.starts_with("x/") != e.rel.is_some() {
            return Err(LineError::Form(format!(
                "`rel` belongs on plugin events only, and there always: `{}`",
                e.kind
            )));
        }
        Ok(Line {
            seq: e.seq,
            time: e.time,
            kind: e.kind,
            rel: e.rel,
            v: e.v.unwrap_or(1),
            data: e.data.get(),
            d: e.d,
            h: e.h,
        })
    }

    /// Reads the payload.
    pub fn event(&self) -> Result<Event, LineError> {
        let fact = if let (true, Some(rel)) = (self.kind.starts_with("x/"), self.rel) {
            let data = Raw::parse(self.data).map_err(LineError::json)?;
            Fact::Plugin(PluginEvent { kind: self.kind.to_string(), rel, v: self.v, data })
        } else {
            if self.v != 1 {
                return Err(LineError::UnknownType(format!("{}, version {}", self.kind, self.v)));
            }
            match Fact::parse(&self.kind, self.data) {
                None => return Err(LineError::UnknownType(self.kind.to_string())),
                Some(parsed) => {
                    parsed.map_err(|e| LineError::Form(format!("payload of `{}`: {e}", self.kind)))?
                }
            }
        };
        Ok(Event { seq: self.seq, time: self.time, fact })
    }
}

/// The end of a log to which lines are added: the next seq and the running chain.
#[derive(Clone, Debug)]
pub struct Tip {
    next: Seq,
    chain: Chain,
}

impl Default for Tip {
    fn default() -> Self {
        Tip { next: 0, chain: Chain::start() }
    }
}

impl Tip {
    /// The seq the next line will have.
    pub fn next_seq(&self) -> Seq {
        self.next
    }

    /// Chain value after the last line: its `h` where it carries one.
    pub fn head(&self) -> Digest {
        self.chain.value()
    }

    /// Appends the line of one fact to `out` and returns its seq. `synced`: the highest seq known synced,
    /// on the first line after that sync. After an error nothing was appended.
    pub fn encode(
        &mut self,
        out: &mut Vec<u8>,
        time: u64,
        fact: &Fact,
        synced: Option<Seq>,
    ) -> Result<Seq, LineError> {
        let start = out.len();
        let appended = self.append(out, time, fact, synced);
        if appended.is_err() {
            out.truncate(start);
        }
        appended
    }

    fn append(
        &mut self,
        out: &mut Vec<u8>,
        time: u64,
        fact: &Fact,
        synced: Option<Seq>,
    ) -> Result<Seq, LineError> {
        use std::io::Write;
        let start = out.len();
        let seq = self.next;
        // Writing to a vector does not fail.
        let _ = write!(out, r#"{{"seq":{seq},"time":{time},"type":"{}""#, fact.type_name());
        if let Fact::Plugin(event) = fact {
            check_plugin(event)?;
            let rel = match event.rel {
                Rel::View => "view",
                Rel::Context => "context",
            };
            let _ = write!(out, r#","rel":"{rel}""#);
            if event.v != 1 {
                let _ = write!(out, r#","v":{}"#, event.v);
            }
        }
        out.extend_from_slice(br#","data":"#);
        fact.write_data(out).map_err(LineError::json)?;
        if let Some(d) = synced {
            let _ = write!(out, r#","d":{d}"#);
        }
        let length = out.len() - start + H_TAIL + CRC_TAIL + 1;
        if length > MAX_LINE_BYTES {
            return Err(LineError::TooLong(length));
        }
        if fact.class() == Class::Barrier {
            self.chain.update(&out[start..]);
            let h = self.chain.link();
            let _ = write!(out, r#","h":"{h}""#);
            close_line(out, start);
        } else {
            close_line(out, start);
            self.chain.update(&out[start..]);
        }
        self.next = seq + 1;
        Ok(seq)
    }

    /// Checks that `bytes` (a line without its newline) is the next line, whole and unchanged, and steps
    /// over it. After [`LineError::Chain`] the tip is of no further use; after any other error it stands
    /// where it stood.
    pub fn check<'a>(&mut self, bytes: &'a [u8]) -> Result<Line<'a>, LineError> {
        let line = Line::parse(bytes)?;
        if line.seq != self.next {
            return Err(LineError::Seq { expected: self.next, found: line.seq });
        }
        if Class::of(&line.kind).is_some_and(|class| (class == Class::Barrier) != line.h.is_some()) {
            return Err(LineError::Form(format!("`{}` with or without `h`, against its class", line.kind)));
        }
        match line.h {
            Some(expected) => {
                let cut = bytes.len().saturating_sub(CRC_TAIL + H_TAIL);
                self.chain.update(&bytes[..cut]);
                let found = self.chain.link();
                if found != expected {
                    return Err(LineError::Chain { expected, found });
                }
            }
            None => {
                self.chain.update(bytes);
                self.chain.update(b"\n");
            }
        }
        self.next += 1;
        Ok(line)
    }
}

/// The running hash over a log's lines.
#[derive(Clone, Debug)]
struct Chain {
    link: Digest,
    /// What came since the link; `None`: nothing.
    since: Option<blake3::Hasher>,
}

impl Chain {
    fn start() -> Self {
        Chain { link: Digest::of(CHAIN_START), since: None }
    }

    fn update(&mut self, bytes: &[u8]) {
        let from = || {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&self.link.0);
            hasher
        };
        self.since.get_or_insert_with(from).update(bytes);
    }

    fn value(&self) -> Digest {
        match &self.since {
            Some(hasher) => Digest(*hasher.finalize().as_bytes()),
            None => self.link,
        }
    }

    /// The value so far, from which the next link runs.
    fn link(&mut self) -> Digest {
        self.link = self.value();
        self.since = None;
        self.link
    }
}

/// Whether a reader would take a plugin's event for what it is.
fn check_plugin(event: &PluginEvent) -> Result<(), LineError> {
    let word = |part: &str| {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        !part.is_empty() && part.bytes().all(legal)
    };
    let mut parts = event.kind.strip_prefix("x/").unwrap_or_default().split('/');
    let named = parts.next().is_some_and(word) && parts.next().is_some_and(word) && parts.all(word);
    if !named {
        return Err(LineError::Form(format!("`{}` is not `x/<plugin>/<kind>`", event.kind)));
    }
    if !event.data.get().starts_with('{') {
        return Err(LineError::Form(format!("the data of `{}` is not an object", event.kind)));
    }
    Ok(())
}

/// Adds the checksum, the brace and the newline.
fn close_line(out: &mut Vec<u8>, start: usize) {
    use std::io::Write;
    let crc = crc32c::crc32c(&out[start..]);
    // Writing to a vector does not fail.
    let _ = writeln!(out, r#","crc":"{crc:08x}"}}"#);
}

fn check_crc(line: &[u8]) -> Result<(), LineError> {
    if line.len() > MAX_LINE_BYTES {
        return Err(LineError::TooLong(line.len()));
    }
    let cut = line.len().checked_sub(CRC_TAIL).ok_or(LineError::NoCrc)?;
    let tail = &line[cut..];
    if !tail.starts_with(br#","crc":""#) || !tail.ends_with(br#""}"#) {
        return Err(LineError::NoCrc);
    }
    let expected = &tail[8..16];
    let found = format!("{:08x}", crc32c::crc32c(&line[..cut]));
    if found.as_bytes() == expected {
        Ok(())
    } else {
        Err(LineError::Crc { expected: String::from_utf8_lossy(expected).into_owned(), found })
    }
}
