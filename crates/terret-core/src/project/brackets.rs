//! What opens must close, once, in order: checked on the log alone.

use std::collections::HashMap;

use crate::fact::{Fact, Next, Outcome};
use crate::id::{CallId, Seq};
use crate::line::Event;

/// Folds events and finds what the rules of the loop do not allow.
#[derive(Clone, Debug, Default)]
pub struct Brackets {
    turn: Option<u32>,
    step: Option<u32>,
    attempt: Option<u32>,
    calls: HashMap<CallId, bool>,
    /// The step has results, and none of them ends the work.
    unread: bool,
    /// A result of the step ends the work.
    concluded: bool,
    last_turn: u32,
    faults: Vec<(Seq, String)>,
}

impl Brackets {
    /// What is wrong so far: seq, and what.
    pub fn faults(&self) -> &[(Seq, String)] {
        &self.faults
    }

    /// The open turn, if the log ends inside one.
    pub fn open_turn(&self) -> Option<u32> {
        self.turn
    }

    /// Takes one event in.
    pub fn fold(&mut self, event: &Event) {
        let seq = event.seq;
        match &event.fact {
            Fact::TurnStart(start) => {
                self.demand(seq, self.turn.is_none(), "a turn starts inside another");
                self.demand(seq, start.turn == self.last_turn + 1, "turn numbers are not contiguous");
                self.turn = Some(start.turn);
                self.last_turn = start.turn;
                self.unread = false;
            }
            Fact::TurnEnd(end) => {
                self.demand(seq, self.turn == Some(end.turn), "a turn ends that is not open");
                self.demand(seq, self.step.is_none(), "a turn ends with a step open");
                let clean = end.reason.word() != "completed" || !self.unread;
                self.demand(seq, clean, "a turn completes with results the model never read");
                self.turn = None;
            }
            Fact::StepStart(start) => {
                self.demand(seq, self.turn == Some(start.turn), "a step starts outside its turn");
                self.demand(seq, self.step.is_none(), "a step starts inside another");
                self.step = Some(start.step);
                self.calls.clear();
                (self.unread, self.concluded) = (false, false);
            }
            Fact::StepEnd(end) => {
                self.demand(seq, self.step == Some(end.step), "a step ends that is not open");
                self.demand(seq, self.attempt.is_none(), "a step ends with an attempt open");
                self.demand(seq, self.calls.values().all(|done| *done), "a step ends with a call open");
                self.step = None;
            }
            Fact::RequestAttempt(attempt) => {
                self.demand(seq, self.step == Some(attempt.step), "an attempt outside its step");
                self.demand(seq, self.attempt.is_none(), "an attempt starts before the last one closed");
                self.attempt = Some(attempt.attempt);
            }
            Fact::AssistantChunk(chunk) => {
                self.demand(seq, self.attempt == Some(chunk.attempt), "a chunk outside its attempt");
            }
            Fact::AssistantMessage(answer) => {
                self.demand(seq, self.attempt == Some(answer.attempt), "an answer outside its attempt");
                self.attempt = None;
                self.calls = answer.calls.iter().map(|call| (call.call, false)).collect();
                let below = answer.sources.iter().all(|[first, last]| first <= last && *last < seq);
                self.demand(seq, below, "an answer names sources that do not stand before it");
            }
            Fact::RequestFailed(failed) => {
                // A crash may leave the attempt open: closing it later is no second opening.
                self.demand(seq, self.attempt == Some(failed.attempt), "a failure outside its attempt");
                self.attempt = None;
                let last = failed.next == Next::End;
                self.demand(seq, self.step.is_some() || last, "a failure outside a step");
            }
            Fact::ToolCall(call) => {
                let open = self.calls.get(&call.call) == Some(&false);
                self.demand(seq, open, "a call starts that nobody asked for, or that has its result");
            }
            Fact::ToolResult(result) => {
                let first = self.calls.insert(result.call, true) == Some(false);
                self.demand(seq, first, "a result nobody asked for, or a second one");
                self.concluded |= result.concludes && result.outcome == Outcome::Ok;
                self.unread = !self.concluded;
            }
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnCancel(_)
            | Fact::UserMessage(_)
            | Fact::RequestHeader(_)
            | Fact::RequestContext(_)
            | Fact::RequestRetry(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
    }

    fn demand(&mut self, seq: Seq, holds: bool, otherwise: &str) {
        if !holds {
            self.faults.push((seq, otherwise.to_owned()));
        }
    }
}
