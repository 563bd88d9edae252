//! The wire form of the log: one JSON object a line, with trailers that make every byte checkable.
//!
//! A line is `{"seq":…,"time":…,"type":…,["rel":…,]["v":…,]"data":{…}[,"d":…][,"h":…],"crc":"…"}` and a
//! newline. `crc` is crc32c of the bytes before it. `h` chains: blake3 over the previous `h` (32 bytes, a
//! constant for the first) and every byte after that line's newline up to this line's `,"h"`.
//! Source: `docs/reference/log-format.md`.

mod chain;
mod envelope;
mod header;
mod tip;

pub use header::{Parent, SessionHeader, SessionTag};
pub use tip::Tip;

use crate::fact::{Class, Fact, PluginEvent, Rel, Versions};
use crate::id::{Digest, Seq};
use crate::limits::MAX_LINE_BYTES;
use crate::raw::Raw;

/// The format this library writes, and the newest it reads.
pub const FORMAT: u32 = 1;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl<'a> Line<'a> {
    /// Checks the checksum and reads the envelope; `bytes` is the line without its newline.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LineError> {
        check_crc(bytes)?;
        let line = envelope::read(bytes)?;
        if !line.data.starts_with('{') {
            return Err(LineError::Form("`data` is not an object".into()));
        }
        if line.kind.starts_with("x/") != line.rel.is_some() {
            return Err(LineError::Form(format!(
                "`rel` belongs on plugin events only, and there always: `{}`",
                line.kind
            )));
        }
        Ok(line)
    }

    /// Whether the payload is of a type and a version that can be read here. Looks at nothing of the payload.
    pub fn check_type(&self) -> Result<(), LineError> {
        self.check_type_by(Versions::default())
    }

    fn check_type_by(&self, versions: Versions) -> Result<(), LineError> {
        if self.rel.is_some() {
            return Ok(());
        }
        if Class::of(&self.kind).is_none() {
            return Err(LineError::UnknownType(self.kind.to_string()));
        }
        match self.v {
            0 => Err(LineError::Form(format!("`{}` has no version 0", self.kind))),
            v if v > versions.current(&self.kind) => {
                Err(LineError::UnknownType(format!("{}, version {v}", self.kind)))
            }
            1.. => Ok(()),
        }
    }

    /// Reads the payload; one of an older version as today's would be written.
    pub fn event(&self) -> Result<Event, LineError> {
        self.event_by(Versions::default())
    }

    /// The same, by another table of versions.
    pub fn event_by(&self, versions: Versions) -> Result<Event, LineError> {
        self.check_type_by(versions)?;
        let fact = if let Some(rel) = self.rel {
            let data = Raw::parse(self.data).map_err(LineError::json)?;
            Fact::Plugin(PluginEvent { kind: self.kind.to_string(), rel, v: self.v, data })
        } else {
            let wrong = |e| LineError::Form(format!("payload of `{}`: {e}", self.kind));
            let data = versions.upcast(&self.kind, self.v, self.data).map_err(wrong)?;
            let parsed = Fact::parse(&self.kind, &data);
            let parsed = parsed.ok_or_else(|| LineError::UnknownType(self.kind.to_string()))?;
            parsed.map_err(|e| wrong(e.to_string()))?
        };
        Ok(Event { seq: self.seq, time: self.time, fact })
    }
}

/// Adds the checksum, the brace and the newline.
fn close_line(out: &mut Vec<u8>, start: usize) {
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(br#","crc":""#);
    out.extend_from_slice(&hex(crc));
    out.extend_from_slice(b"\"}\n");
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
    let (expected, found) = (&tail[8..16], crc32c::crc32c(&line[..cut]));
    if hex(found) == expected {
        return Ok(());
    }
    let expected = String::from_utf8_lossy(expected).into_owned();
    Err(LineError::Crc { expected, found: format!("{found:08x}") })
}

/// A checksum as it stands in a line.
fn hex(crc: u32) -> [u8; 8] {
    std::array::from_fn(|at| b"0123456789abcdef"[(crc >> (28 - 4 * at)) as usize & 15])
}
