//! The closers: one way to end a turn early, for cancels, errors, a full disk and crashes alike.

use super::answers::UNKNOWN_TEXT;
use super::{Decided, Fill, Machine};
use crate::chunk::{Failure, Finish, FinishKind, code};
use crate::fact::{
    AssistantMessage, Cause, EndReason, Fact, InboxReturned, Next, Outcome, RequestFailed, TurnEnd,
};
use crate::input::Settled;
use crate::message::{Message, Role, Source};
use crate::state::{CallStatus, CauseKind, Stage};

const NOT_STARTED_TEXT: &str = "This call was never started.";

/// Why a turn is closed early.
pub(super) enum Why {
    /// A cancel.
    Cancelled,
    /// A hook or the assembly failed.
    Broken(Failure),
    /// The writer died.
    Interrupted,
    /// A write could not be made: nothing with content may be written.
    Unwritable(Failure),
}

impl Machine {
    pub(super) fn close_cancelled(&mut self, out: &mut Vec<Decided>) {
        self.close(&Why::Cancelled, out);
    }

    pub(super) fn close_broken(&mut self, failure: Failure, out: &mut Vec<Decided>) {
        self.close(&Why::Broken(failure), out);
    }

    /// Everything open, closed in order: the claim, the attempt, the calls, the step, the turn.
    pub(super) fn close(&mut self, why: &Why, out: &mut Vec<Decided>) {
        let Some(t) = self.state.turn() else { return };
        let (turn, step) = (t.number(), t.step());
        self.return_claim(turn, out);
        self.close_attempt(turn, step, why, out);
        self.close_calls(out);
        if self.state.turn().is_some_and(|t| t.step_open()) {
            self.end_step(turn, step, out);
        }
        let (reason, fill) = self.early_reason(why);
        self.put(Decided { fact: Fact::TurnEnd(TurnEnd { turn, reason }), fill }, out);
        self.suspended = false;
    }

    fn return_claim(&mut self, turn: u32, out: &mut Vec<Decided>) {
        let Some(t) = self.state.turn() else { return };
        let by_user = t.cancelled() == Some(CauseKind::User);
        // A message that was given back before would only crash the next turn as well.
        let (held, free): (Vec<_>, Vec<_>) = t.batch().iter().partition(|p| by_user || p.returned);
        let ids = |group: Vec<&crate::state::Pending>| group.iter().map(|p| p.id.clone()).collect::<Vec<_>>();
        for (msgs, held) in [(ids(held), true), (ids(free), false)] {
            if !msgs.is_empty() {
                self.put(Fact::InboxReturned(InboxReturned { turn, msgs, held }), out);
            }
        }
    }

    fn close_attempt(&mut self, turn: u32, step: u32, why: &Why, out: &mut Vec<Decided>) {
        let Some(&Stage::Streaming { attempt, visible }) = self.state.turn().map(|t| t.stage()) else {
            return;
        };
        let (class, sentence) = match why {
            Why::Cancelled | Why::Broken(_) => (code::ABORTED, "the request was cancelled"),
            Why::Interrupted => (code::INTERRUPTED, "the process stopped while the request was open"),
            Why::Unwritable(failure) => (failure.code.as_str(), failure.message.as_str()),
        };
        if visible && !matches!(why, Why::Unwritable(_)) {
            let message = Message {
                // Filled in from the log, like the content and the source.
                id: "".into(),
                role: Role::Assistant,
                content: Vec::new(),
                source: Source::Model {
                    provider: String::new(),
                    model: String::new(),
                    wire: None,
                    response_id: None,
                },
            };
            let fact = AssistantMessage {
                turn,
                step,
                attempt,
                message,
                calls: Vec::new(),
                finish: Finish { kind: FinishKind::Other, raw: class.to_lowercase() },
                usage: None,
                sources: Vec::new(),
                interrupted: true,
            };
            self.put(Decided { fact: Fact::AssistantMessage(fact), fill: Fill::Partial }, out);
        } else {
            let failure = Failure::new(class, sentence);
            let fact = RequestFailed { turn, step, attempt, failure, next: Next::End, usage: None };
            self.put(Decided { fact: Fact::RequestFailed(fact), fill: Fill::Usage }, out);
        }
    }

    fn close_calls(&mut self, out: &mut Vec<Decided>) {
        let calls = self.state.turn().map(|t| t.calls().to_vec()).unwrap_or_default();
        for call in calls {
            match call.status {
                CallStatus::Done { .. } => {}
                CallStatus::Waiting => {
                    self.settle(call.id, Settled::notice(Outcome::NotStarted, NOT_STARTED_TEXT), out);
                }
                CallStatus::Running | CallStatus::Orphaned => {
                    self.settle(call.id, Settled::notice(Outcome::Unknown, UNKNOWN_TEXT), out);
                }
            }
        }
    }

    fn early_reason(&self, why: &Why) -> (EndReason, Fill) {
        let cancelled = self.state.turn().is_some_and(|t| t.cancelled().is_some());
        let failed = self.state.turn().is_some_and(|t| t.failed());
        match why {
            Why::Unwritable(failure) | Why::Broken(failure) => {
                (EndReason::Error { failure: failure.clone() }, Fill::None)
            }
            Why::Cancelled | Why::Interrupted if cancelled => {
                (EndReason::Aborted { cause: Cause::Disposed }, Fill::Cause)
            }
            Why::Cancelled | Why::Interrupted if failed => {
                (EndReason::Error { failure: Failure::new(code::UNKNOWN, "") }, Fill::Failure)
            }
            Why::Cancelled | Why::Interrupted => (EndReason::Interrupted, Fill::None),
        }
    }
}
