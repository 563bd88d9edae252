//! Reading a log to go on writing it: the pieces of answers that are whole are passed over unread.

use std::io::Read;

use terret_core::fact::Fact;
use terret_core::id::Seq;
use terret_core::line::{Event, Line};

use super::{Bad, Scan};
use crate::error::Error;
use crate::limits::MAX_HELD_BYTES;

/// Type of the pieces.
const PIECE: &str = "assistant/chunk";

/// Takes an event, and where its line begins and ends, newline included.
pub(super) type Placed<'a> = &'a mut dyn FnMut(&Event, [u64; 2]);

/// Lines of the attempt that is open so far, not parsed yet.
#[derive(Default)]
struct Held {
    lines: Vec<u8>,
    /// Of each line: its seq, its byte offset in the log, where it ends in `lines`.
    places: Vec<(Seq, u64, usize)>,
}

impl<R: Read> Scan<R> {
    /// Reads on to the end of the log, or to its first bad line, and hands `fold` what whoever goes on with it needs:
    /// every event but the pieces of attempts that a later event closes. What such a piece says stands in the message
    /// that closed it, or went with the failure. The pieces of the attempt that is open at the end come last.
    ///
    /// Every line is checked: checksum, chain, seq, and that its payload is a JSON object. Whether the payload of a
    /// piece is what its type promises is looked at only where it is handed on: in a closed attempt `verify` and
    /// `doctor` find that out, not this.
    pub fn fold(&mut self, fold: &mut dyn FnMut(&Event)) -> Result<Option<Bad>, Error> {
        self.fold_placed(&mut |event, _| fold(event))
    }

    /// The same, with where each line begins and ends, newline included.
    pub(super) fn fold_placed(&mut self, fold: Placed<'_>) -> Result<Option<Bad>, Error> {
        let mut held = Held::default();
        let bad = loop {
            let offset = self.offset();
            let read = |line: &Line<'_>| match &*line.kind {
                PIECE => line.check_type().map(|()| Err(line.seq)),
                _ => line.event().map(Ok),
            };
            match self.next_line(read)? {
                None => break None,
                Some(Err(bad)) => break Some(bad),
                Some(Ok(Ok(event))) => {
                    if closes(&event.fact) {
                        held.clear();
                    }
                    fold(&event, [offset, offset + self.bytes().len() as u64 + 1]);
                }
                Some(Ok(Err(seq))) => {
                    held.push(seq, offset, self.bytes());
                    if held.lines.len() > MAX_HELD_BYTES
                        && let Some(bad) = held.hand_on(fold)
                    {
                        return Ok(Some(bad));
                    }
                }
            }
        };
        Ok(held.hand_on(fold).or(bad))
    }
}

impl Held {
    fn push(&mut self, seq: Seq, offset: u64, line: &[u8]) {
        self.lines.extend_from_slice(line);
        self.places.push((seq, offset, self.lines.len()));
    }

    fn clear(&mut self) {
        self.lines.clear();
        self.places.clear();
    }

    /// Parses what is held. Gives the first line whose payload is not what its type promises.
    fn hand_on(&mut self, fold: Placed<'_>) -> Option<Bad> {
        let mut start = 0;
        for &(seq, offset, end) in &self.places {
            match Line::parse(&self.lines[start..end]).and_then(|line| line.event()) {
                Ok(event) => fold(&event, [offset, offset + (end - start) as u64 + 1]),
                // The header is line 1. Whether a newline follows makes no difference to what is wrong here.
                Err(cause) => return Some(Bad { line: seq + 2, offset, seq, cause, terminated: true }),
            }
            start = end;
        }
        self.clear();
        None
    }
}

/// Whether no piece before this fact is needed after it.
fn closes(fact: &Fact) -> bool {
    match fact {
        Fact::RequestAttempt(_) | Fact::RequestFailed(_) | Fact::AssistantMessage(_) => true,
        Fact::WriterOpened(_)
        | Fact::WriterIdle(_)
        | Fact::InboxAdded(_)
        | Fact::InboxRemoved(_)
        | Fact::InboxClaimed(_)
        | Fact::InboxReturned(_)
        | Fact::InboxReleased(_)
        | Fact::TurnStart(_)
        | Fact::TurnCancel(_)
        | Fact::TurnEnd(_)
        | Fact::StepStart(_)
        | Fact::StepEnd(_)
        | Fact::UserMessage(_)
        | Fact::RequestHeader(_)
        | Fact::RequestContext(_)
        | Fact::RequestRetry(_)
        | Fact::AssistantChunk(_)
        | Fact::ToolCall(_)
        | Fact::ToolResult(_)
        | Fact::ApprovalAsked(_)
        | Fact::ApprovalDecided(_)
        | Fact::SurfaceReplaced(_)
        | Fact::SeamChanged(_)
        | Fact::Plugin(_) => false,
    }
}
