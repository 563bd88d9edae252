//! The side index of a log: where the lines stand that going on with the session takes, so that opening folds
//! those and the tail, and nothing else.
//!
//! A cache beside the log, `index.jsonl`, one record for each rest of the session, each with its hash. It says
//! nothing about what happened, only where to look: every line is checked when it is folded. What in it is wrong,
//! cut or stale costs time and nothing else. Source: `docs/reference/log-format.md`.

mod known;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terret_core::fact::{EndReason, Fact, Rel, SurfaceReplaced};
use terret_core::id::{Digest, Seq};
use terret_core::message::Source;

use super::PluginEvents;
pub(super) use known::{Known, skim};

/// Name of the file.
pub(super) const INDEX: &str = "index.jsonl";

/// Characters of a prompt that name its session.
const TITLE_CHARS: usize = 60;

/// What of a log its index has to say yet: grows with the log.
///
/// [`Index::default`] gathers nothing: that of a store which has no use for it.
#[derive(Debug, Default)]
pub struct Index {
    /// Bytes of the index file that hold; what is behind them is written over.
    valid: u64,
    /// Hash of the last record.
    after: Option<Digest>,
    /// Lines since then.
    lines: Vec<Place>,
    writer: Option<Writer>,
    summary: Summary,
    /// Whether anything is gathered, and written.
    on: bool,
}

/// Where a line is, and what it is to whoever folds: seq, offset, bytes with the newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place(Seq, u64, u64, What);

/// What makes a line needed, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum What {
    /// Always.
    Line,
    /// Until there is a later one.
    Header,
    /// Until there is a later one.
    Context,
    /// Always: it bounds a step.
    Step,
    /// Until it is replaced.
    Message,
    /// Always; it replaces the messages of a range.
    Replaced(Seq, Seq),
}

/// The last writer seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Writer {
    pub(super) epoch: u64,
    pub(super) boot: String,
}

/// What a list says of a session, apart from what state it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) title: String,
    pub(super) turns: u32,
    pub(super) last: Option<EndReason>,
    pub(super) updated: u64,
    pub(super) events: u64,
    pub(super) plugins: BTreeMap<String, PluginEvents>,
}

/// What the index says of the log up to one line, at which the session rested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Hash of the record before.
    after: Option<Digest>,
    pub(super) mark: Mark,
    lines: Vec<Place>,
}

/// A line at which a session rested, and what was known there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) seq: Seq,
    pub(super) h: Digest,
    /// Offset of the line, and of what follows it.
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) synced: Option<Seq>,
    pub(super) writer: Writer,
    pub(super) summary: Summary,
    /// Messages that waited.
    pub(super) pending: usize,
    /// When the log was last written, by the file system's clock, in nanoseconds since 1970.
    pub(super) modified_ns: u128,
}

/// Where a session came to rest.
pub struct Rest {
    /// Seq of the line that says so.
    pub(super) seq: Seq,
    /// The chain there.
    pub(super) h: Digest,
    /// Offset of the line, and of what follows it.
    pub(super) range: [u64; 2],
    /// Highest seq known synced.
    pub(super) synced: Option<Seq>,
    /// Messages that wait.
    pub(super) pending: usize,
}

impl Index {
    /// One that is kept from the start of the log on.
    pub(super) fn begun() -> Self {
        Index { on: true, ..Index::default() }
    }

    /// Takes a line in: its event, and where it begins and ends, newline included.
    pub fn note(&mut self, seq: Seq, time: u64, fact: &Fact, [at, end]: [u64; 2]) {
        if !self.on {
            return;
        }
        self.summary.fold(seq, time, fact);
        if let Fact::WriterOpened(opened) = fact {
            self.writer = Some(Writer { epoch: opened.epoch, boot: opened.boot.clone() });
        }
        if let Some(what) = What::of(fact) {
            self.lines.push(Place(seq, at, end - at, what));
        }
    }

    /// The log was cut back: what was noted may be gone. The next writer takes it up again.
    pub fn give_up(&mut self) {
        self.on = false;
        self.lines = Vec::new();
    }

    /// The record of this rest, to be written at a place in the index file; `None`: there is nothing to say. A record
    /// vouches for all lines before the one that says that the session rests: so they must be synced, all of them.
    pub(super) fn rest(&mut self, rest: &Rest, modified_ns: u128) -> Option<(u64, Vec<u8>)> {
        let [at, end] = rest.range;
        let writer = self.writer.clone().filter(|_| self.on && rest.follows_synced())?;
        let (seq, h, synced, pending) = (rest.seq, rest.h, rest.synced, rest.pending);
        let summary = self.summary.clone();
        let mark = Mark { seq, h, at, end, synced, writer, summary, pending, modified_ns };
        let record = Record { after: self.after, mark, lines: std::mem::take(&mut self.lines) };
        let (line, sum) = record.to_line()?;
        self.after = Some(sum);
        let place = self.valid;
        self.valid += line.len() as u64;
        Some((place, line))
    }
}

impl Rest {
    fn follows_synced(&self) -> bool {
        self.synced.is_some() && self.synced == self.seq.checked_sub(1)
    }
}

impl What {
    fn of(fact: &Fact) -> Option<What> {
        match fact {
            Fact::RequestHeader(_) => Some(What::Header),
            Fact::RequestContext(_) => Some(What::Context),
            Fact::StepStart(_) | Fact::StepEnd(_) => Some(What::Step),
            Fact::UserMessage(_) | Fact::AssistantMessage(_) | Fact::ToolResult(_) => Some(What::Message),
            Fact::SurfaceReplaced(SurfaceReplaced { range: [first, last], .. }) => {
                Some(What::Replaced(*first, *last))
            }
            Fact::InboxClaimed(claimed) => (!claimed.msgs.is_empty()).then_some(What::Line),
            Fact::Plugin(plugin) => (plugin.rel == Rel::Context).then_some(What::Line),
            Fact::WriterOpened(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnStart(_)
            | Fact::TurnCancel(_)
            | Fact::TurnEnd(_) => Some(What::Line),
            // What these say is over with their turn.
            Fact::WriterIdle(_)
            | Fact::RequestAttempt(_)
            | Fact::RequestFailed(_)
            | Fact::RequestRetry(_)
            | Fact::AssistantChunk(_)
            | Fact::ToolCall(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SeamChanged(_) => None,
        }
    }
}

impl Summary {
    pub(super) fn fold(&mut self, seq: Seq, time: u64, fact: &Fact) {
        // The pieces of an open answer may come behind what came after them.
        if seq >= self.events {
            (self.events, self.updated) = (seq + 1, time);
        }
        if let Fact::Plugin(plugin) = fact {
            let of = self.plugins.entry(plugin.plugin().to_owned()).or_default();
            of.events += 1;
            of.context = of.context.or((plugin.rel == Rel::Context).then_some(seq));
        }
        if let Fact::TurnEnd(end) = fact {
            self.turns += 1;
            self.last = Some(end.reason.clone());
        }
        if let Fact::InboxAdded(added) = fact
            && self.title.is_empty()
            && added.message.source == Source::User
        {
            let text = added.message.text();
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            self.title = words.chars().take(TITLE_CHARS).collect();
        }
    }
}

/// A record as it stands in the file.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    sum: Digest,
    #[serde(borrow)]
    record: &'a serde_json::value::RawValue,
}

impl Record {
    fn to_line(&self) -> Option<(Vec<u8>, Digest)> {
        let record = serde_json::value::to_raw_value(self).ok()?;
        let sum = Digest::of(record.get().as_bytes());
        let mut line = serde_json::to_vec(&Sealed { sum, record: &record }).ok()?;
        line.push(b'\n');
        Some((line, sum))
    }

    /// The record of a line, and its hash; `None` if it is not as it was written.
    fn parse(line: &[u8]) -> Option<(Record, Digest)> {
        let Sealed { sum, record } = serde_json::from_slice(line).ok()?;
        let text = record.get();
        (Digest::of(text.as_bytes()) == sum).then(|| Some((serde_json::from_str(text).ok()?, sum)))?
    }
}
