//! The end of a log: what the next line is, whoever writes or reads it.

use super::chain::Chain;
use super::{CRC_TAIL, H_TAIL, Line, LineError, close_line};
use crate::fact::{Class, Fact, PluginEvent, Rel, Versions};
use crate::id::{Digest, Seq};
use crate::limits::MAX_LINE_BYTES;

/// The end of a log to which lines are added: the next seq and the running chain.
#[derive(Clone, Debug)]
pub struct Tip {
    next: Seq,
    chain: Chain,
    versions: Versions,
}

impl Default for Tip {
    fn default() -> Self {
        Tip::of(Versions::default())
    }
}

impl Tip {
    /// The start of a log whose payloads are of these versions.
    pub fn of(versions: Versions) -> Self {
        Tip { next: 0, chain: Chain::start(), versions }
    }

    /// The end behind a line with this `h`.
    pub fn behind(seq: Seq, h: Digest) -> Self {
        let mut tip = Tip { next: seq + 1, ..Tip::default() };
        tip.chain.link(h);
        tip
    }

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
        }
        let v =
            if let Fact::Plugin(event) = fact { event.v } else { self.versions.current(fact.type_name()) };
        if v != 1 {
            let _ = write!(out, r#","v":{v}"#);
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
            let h = self.chain.value_with(&out[start..]);
            self.chain.link(h);
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
    /// over it. After an error the tip stands where it stood.
    pub fn check<'a>(&mut self, bytes: &'a [u8]) -> Result<Line<'a>, LineError> {
        self.read(bytes, |line| Ok(line.clone()))
    }

    /// The same, and steps over the line only if `read` makes something of it.
    pub fn read<'a, T>(
        &mut self,
        bytes: &'a [u8],
        read: impl FnOnce(&Line<'a>) -> Result<T, LineError>,
    ) -> Result<T, LineError> {
        let line = Line::parse(bytes)?;
        if line.seq != self.next {
            return Err(LineError::Seq { expected: self.next, found: line.seq });
        }
        if Class::of(&line.kind).is_some_and(|class| (class == Class::Barrier) != line.h.is_some()) {
            return Err(LineError::Form(format!("`{}` with or without `h`, against its class", line.kind)));
        }
        if let Some(expected) = line.h {
            let found = self.chain.value_with(&bytes[..bytes.len().saturating_sub(CRC_TAIL + H_TAIL)]);
            if found != expected {
                return Err(LineError::Chain { expected, found });
            }
        }
        let made = read(&line)?;
        match line.h {
            Some(h) => self.chain.link(h),
            None => self.chain.gather(bytes),
        }
        self.next += 1;
        Ok(made)
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
