//! After a crash, and on a full disk: how an open turn of a dead writer moves on.

use super::answers::UNKNOWN_TEXT;
use super::closers::Why;
use super::{Decided, Handled, Machine, closing};
use crate::chunk::{Failure, code};
use crate::fact::{EffectClass, Fact, InboxReturned, Next, Outcome, RequestFailed};
use crate::id::CallId;
use crate::input::{Recovery, Settled};
use crate::state::{CallState, CallStatus, Stage};

const RESULT_LOST_TEXT: &str = "The call ended; its output could not be written to the log.";

impl Machine {
    pub(super) fn recover(&mut self, recovery: Recovery, out: &mut Vec<Decided>) -> Handled {
        let Some(turn) = self.state.turn().filter(|_| self.suspended) else {
            return Handled::Late;
        };
        match recovery {
            Recovery::ResumeTurn { keyed } if !closing(turn) => self.resume(&keyed, out),
            Recovery::ResumeTurn { .. } | Recovery::Close => {
                let why = if turn.cancelled().is_some() { Why::Cancelled } else { Why::Interrupted };
                self.close(&why, out);
            }
        }
        Handled::Yes
    }

    /// Goes on inside the turn; what is owed follows from the state.
    fn resume(&mut self, keyed: &[CallId], out: &mut Vec<Decided>) {
        self.suspended = false;
        let Some(t) = self.state.turn() else { return };
        let (turn, step) = (t.number(), t.step());
        match t.stage().clone() {
            Stage::PreStep | Stage::Entering { .. } => {
                let msgs = t.batch().iter().map(|p| p.id.clone()).collect();
                self.put(Fact::InboxReturned(InboxReturned { turn, msgs, held: false }), out);
            }
            Stage::Streaming { attempt, .. } => {
                let failure =
                    Failure::new(code::INTERRUPTED, "the process stopped while the request was open");
                let fact = RequestFailed { turn, step, attempt, failure, next: Next::Retry, usage: None };
                self.put(Decided { fact: Fact::RequestFailed(fact), fill: super::Fill::Usage }, out);
            }
            Stage::Tools(calls) => {
                for call in calls.iter().filter(|call| lost_for_good(call, keyed)) {
                    self.settle(call.id, Settled::notice(Outcome::Unknown, UNKNOWN_TEXT), out);
                }
            }
            Stage::Claiming
            | Stage::Emptied
            | Stage::Preparing { .. }
            | Stage::Recovering { .. }
            | Stage::StepDone
            | Stage::Stopping
            | Stage::Closing => {}
        }
    }

    pub(super) fn store_full(
        &mut self,
        failure: Failure,
        reported: &[(CallId, Outcome)],
        out: &mut Vec<Decided>,
    ) -> Handled {
        self.full = true;
        if self.state.turn().is_none() {
            return Handled::Late;
        }
        for (id, outcome) in reported {
            let open = |call: &CallState| call.id == *id && !matches!(call.status, CallStatus::Done { .. });
            if self.state.turn().is_some_and(|t| t.calls().iter().any(open)) {
                self.settle(*id, Settled::notice(*outcome, RESULT_LOST_TEXT), out);
            }
        }
        self.close(&Why::Unwritable(failure), out);
        Handled::Yes
    }
}

/// Whether an orphaned call must not be run again.
fn lost_for_good(call: &CallState, keyed: &[CallId]) -> bool {
    let again = match call.effect {
        Some(EffectClass::Read | EffectClass::Idempotent) => true,
        Some(EffectClass::Keyed) => keyed.contains(&call.id),
        Some(EffectClass::Unsafe) | None => false,
    };
    call.status == CallStatus::Orphaned && !again
}
