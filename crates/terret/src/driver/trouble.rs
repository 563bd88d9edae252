//! When the log cannot be written: what was not written is forgotten, what was is kept and closed.

use terret_core::chunk::{Failure, code};
use terret_core::fact::{Fact, Outcome};
use terret_core::id::CallId;
use terret_core::input::Input;
use terret_core::line::Event;

use super::Driver;
use crate::error::Error;
use crate::mail::Status;
use crate::model::BodyCache;

/// What a tool itself said of its end; what closers decided they decide again.
fn reported(event: &Event) -> Option<(CallId, Outcome)> {
    let Fact::ToolResult(result) = &event.fact else { return None };
    let decided = matches!(result.outcome, Outcome::NotStarted | Outcome::Unknown | Outcome::Denied);
    (!decided).then_some((result.call, result.outcome))
}

impl Driver {
    /// Goes on after a write that left no trace: a full disk, or a fact too long for a line. What could not be
    /// written is forgotten, whoever waits for it is told, and the open turn is closed in the room that was
    /// kept for it.
    pub(super) fn contain(&mut self, error: Error) -> Result<(), Error> {
        let failure = match &error {
            Error::Full { .. } => Failure::new(code::STORE_FULL, "the disk is full"),
            Error::TooLarge { .. } => Failure::new(code::REQUEST_TOO_LARGE, error.to_string()),
            _ => return Err(error),
        };
        self.running.clear();
        self.recorded.clear();
        self.sending = None;
        self.body = BodyCache::default();
        let written = self.ledger.journal.written();
        for (seq, ack) in std::mem::take(&mut self.acks) {
            if seq <= written {
                // It is in the log: the next barrier acknowledges it.
                self.acks.push((seq, ack));
            } else {
                let _ = ack.send(Err(error.again()));
            }
        }
        let reported = self.ledger.fresh.iter().filter_map(reported).collect();
        self.ledger.refold()?;
        // That it rests is said once there is room again: asking for it now would ask for ever.
        self.rested = self.ledger.machine.state().turn().is_none();
        self.receipts.forget_unless(|id| self.ledger.folds.accepted.contains_key(id));
        if self.resting {
            // The machine was folded anew and knows only what the log says.
            self.take(Input::Rest)?;
        }
        if let Some(writer) = self.unwritten.take() {
            // Not even our first line fitted: nothing was begun, so nothing is to be closed.
            return self.open(writer);
        }
        self.take(Input::StoreFull { failure, reported })?;
        self.commit()
    }

    /// The session is poisoned: nothing more is done, nothing is acknowledged.
    pub(super) fn fail(&mut self, error: &Error) -> Error {
        self.running.clear();
        let why = error.to_string();
        let path = self.ledger.journal.log().path().to_owned();
        let poisoned = self.ledger.journal.poison(&why);
        for (_, ack) in self.acks.drain(..) {
            let _ = ack.send(Err(Error::Poisoned { path: path.clone(), why: why.clone() }));
        }
        self.progress.send_modify(|p| p.broken = Some(why));
        self.announce(Status::Poisoned);
        poisoned
    }
}
