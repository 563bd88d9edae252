//! From the events of a message stream to chunks.

use std::collections::BTreeSet;

use terret_core::chunk::{Chunk, Failure, code};
use terret_core::limits::MAX_BLOCKS;

use super::event::{Delta, Ending, Event, Start, StopDetails};
use super::fields::Fields;
use super::open::Open;
use crate::limits::MAX_KEPT_BYTES;
use crate::model::failure::{self, Secret, cut};
use crate::model::sse::{self, Flow};
use crate::model::surrogate;
use crate::model::wire::{self, End, warning};

/// Folds the events of one response into chunks.
#[derive(Default)]
pub(super) struct Decoder {
    /// Masked in failures: servers echo keys.
    secret: Option<String>,
    started: bool,
    /// Blocks opened so far.
    blocks: u32,
    /// Blocks that are being written; on this wire seldom more than one.
    open: Vec<Open>,
    /// What was counted last, member by member.
    pub(super) usage: Fields,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_details: Option<StopDetails>,
    /// Whether there is a call.
    pub(super) calls: bool,
    /// Whether anything was said.
    pub(super) said: bool,
    /// Bytes of the events that came to no chunk.
    held_bytes: usize,
    /// Warnings that are given once.
    warned: BTreeSet<String>,
}

impl Decoder {
    /// A decoder at the start of a response.
    pub(super) fn new(secret: Option<String>) -> Self {
        Decoder { secret, ..Decoder::default() }
    }
}

impl wire::Decoder for Decoder {
    fn event(&mut self, event: sse::Event<'_>, out: &mut Vec<Chunk>) -> Flow<End> {
        // Not of this protocol, but some who speak it send it.
        if event.data.starts_with("[DONE]") {
            return Flow::Break(End::Done);
        }
        if event.name == "error" {
            return Flow::Break(End::Failed(self.error(event.data)));
        }
        let before = out.len();
        let taken = match serde_json::from_str::<Event<'_>>(event.data) {
            Ok(parsed) => self.take(parsed, &event, out),
            Err(error) => Err(self.malformed(&error.to_string(), event.data)),
        };
        self.said |= out[before..].iter().any(says);
        if out.len() == before {
            self.held_bytes += event.data.len();
        }
        if self.held_bytes > MAX_KEPT_BYTES {
            return Flow::Break(End::Failed(
                self.malformed("its blocks hold too much that is no answer", ""),
            ));
        }
        match taken {
            Ok(flow) => flow,
            Err(failure) => Flow::Break(End::Failed(failure)),
        }
    }

    fn end(&mut self, done: bool, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        let unfinished = !self.open.is_empty();
        self.flush(out);
        self.conclude(done, unfinished, out)
    }

    fn flush(&mut self, out: &mut Vec<Chunk>) {
        for mut open in std::mem::take(&mut self.open) {
            open.release(out);
        }
        self.count(out);
    }
}

/// Whether a chunk brings anything the answer is not empty with.
fn says(chunk: &Chunk) -> bool {
    match chunk {
        Chunk::TextDelta { text, .. } => !text.is_empty(),
        Chunk::ReasoningDelta { .. } | Chunk::ProviderDelta { .. } => true,
        Chunk::BlockStart { id, .. } => id.is_some(),
        _ => false,
    }
}

impl Decoder {
    fn take(
        &mut self,
        event: Event<'_>,
        sent: &sse::Event<'_>,
        out: &mut Vec<Chunk>,
    ) -> Result<Flow<End>, Failure> {
        if event.error.is_some_and(|error| error.get() != "null") || event.kind == "error" {
            return Err(self.error(sent.data));
        }
        let kind = if event.kind.is_empty() { sent.name } else { &event.kind };
        let index = event.index.unwrap_or(0);
        let delta = event.delta.map_or("{}", |delta| delta.get());
        match kind {
            "message_start" => self.start(event.message, sent.data, out)?,
            "content_block_start" => {
                self.open_block(index, event.content_block.unwrap_or_default(), sent.data, out)?;
            }
            "content_block_delta" => self.delta(index, delta, sent.data, out)?,
            "content_block_stop" => {
                if let Some(at) = self.open.iter().position(|open| open.wire_index == index) {
                    self.open.remove(at).close(out);
                }
            }
            "message_delta" => {
                let ending: Ending = serde_json::from_str(delta)
                    .map_err(|error| self.malformed(&error.to_string(), sent.data))?;
                // The last word stands; a later null takes nothing back.
                self.stop_reason = ending.stop_reason.or(self.stop_reason.take());
                self.stop_details = ending.stop_details.or(self.stop_details.take());
                self.usage.overwrite(event.usage.unwrap_or_default());
            }
            "message_stop" => return Ok(Flow::Break(End::Done)),
            "ping" => {}
            other => self.unknown("event", other, out),
        }
        Ok(Flow::Continue(()))
    }

    fn start(&mut self, start: Option<Start>, data: &str, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        if self.blocks > 0 {
            // A proxy asked twice and sent both answers: their blocks cannot be told apart.
            return Err(self.malformed("a second message starts inside the first", data));
        }
        if std::mem::replace(&mut self.started, true) {
            out.push(warning("duplicate-message-start", "the message was started twice"));
            return Ok(());
        }
        let Some(start) = start else { return Ok(()) };
        self.usage.overwrite(start.usage.unwrap_or_default());
        let known = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (response_id, model) = (known(start.id), known(start.model));
        if response_id.is_some() || model.is_some() {
            out.push(Chunk::ResponseStart { response_id, model });
        }
        Ok(())
    }

    fn open_block(
        &mut self,
        wire_index: u64,
        start: Fields,
        data: &str,
        out: &mut Vec<Chunk>,
    ) -> Result<(), Failure> {
        if self.open.iter().any(|open| open.wire_index == wire_index) {
            return Err(self.malformed("a block starts that is open already", data));
        }
        if self.blocks as usize >= MAX_BLOCKS {
            let message = format!("the response opened more than {MAX_BLOCKS} blocks");
            return Err(Failure::new(code::MALFORMED_RESPONSE, message));
        }
        let spare = format!("call_{}", self.blocks);
        let open = Open::new(wire_index, self.blocks, start, &spare, out);
        self.calls |= open.is_call();
        self.open.push(open);
        self.blocks += 1;
        Ok(())
    }

    fn delta(&mut self, wire_index: u64, raw: &str, data: &str, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        let mut parsed = serde_json::from_str::<Delta<'_>>(raw);
        // A half of a character may wait for its other half in the next delta.
        let fixed = parsed.is_err().then(|| surrogate::stand_in(raw)).flatten();
        if let Some(fixed) = &fixed {
            parsed = serde_json::from_str(fixed);
        }
        let delta = parsed.map_err(|error| self.malformed(&error.to_string(), data))?;
        let kind = delta.kind.clone().into_owned();
        let Some(open) = self.open.iter_mut().find(|open| open.wire_index == wire_index) else {
            return Err(self.malformed("a delta belongs to no open block", data));
        };
        if !open.push(delta, fixed.as_deref().unwrap_or(raw), fixed.is_some(), out) {
            self.unknown("delta", &kind, out);
        }
        Ok(())
    }

    /// The protocol may grow: what nobody knows is passed over, and named once.
    fn unknown(&mut self, what: &str, name: &str, out: &mut Vec<Chunk>) {
        let code = format!("unknown-{what}:{}", cut(name, 64));
        if self.warned.insert(code.clone()) {
            out.push(warning(&code, "the provider sent something we do not know"));
        }
    }

    fn error(&self, data: &str) -> Failure {
        failure::in_stream(data, Secret(self.secret.as_deref()))
    }

    fn malformed(&self, what: &str, data: &str) -> Failure {
        let message = format!("an event of the stream makes no sense: {what}");
        failure::malformed(message, data, Secret(self.secret.as_deref()))
    }
}
