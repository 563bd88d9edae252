//! What people and plugins post: messages, withdrawals, cancels, records.

use super::{Decided, Handled, Machine, closing};
use crate::effect::Question;
use crate::fact::{Cause, Fact, InboxAdded, InboxReleased, InboxRemoved, Lane, Removal, TurnCancel};
use crate::id::{CallId, MsgId};
use crate::input::{Record, Send};

impl Machine {
    pub(super) fn send(&mut self, send: Send, out: &mut Vec<Decided>) -> Handled {
        let Send { message, lane, wake, replaces } = send;
        let converging = self.state.turn().is_some_and(|t| t.cancelled().is_some());
        // A wake that comes while a cancel converges is meant for what follows it.
        let lane = if wake && converging { Lane::NextTurn } else { lane };
        // What was read meanwhile can no longer be edited: sending the new words beside the old would say both.
        if replaces.as_ref().is_some_and(|old| !self.state.inbox().contains(old)) {
            return Handled::Refused;
        }
        self.put(Fact::InboxAdded(InboxAdded { message, lane, wake, replaces }), out);
        Handled::Yes
    }

    pub(super) fn remove(&mut self, msgs: Vec<MsgId>, why: Removal, out: &mut Vec<Decided>) -> Handled {
        let msgs = self.only_pending(msgs);
        if msgs.is_empty() {
            return Handled::Late;
        }
        self.put(Fact::InboxRemoved(InboxRemoved { msgs, why }), out);
        Handled::Yes
    }

    pub(super) fn release(&mut self, msgs: Vec<MsgId>, out: &mut Vec<Decided>) -> Handled {
        let msgs = self.only_pending(msgs);
        if msgs.is_empty() {
            return Handled::Late;
        }
        self.full = false;
        self.put(Fact::InboxReleased(InboxReleased { msgs }), out);
        Handled::Yes
    }

    fn only_pending(&self, msgs: Vec<MsgId>) -> Vec<MsgId> {
        msgs.into_iter().filter(|id| self.state.inbox().contains(id)).collect()
    }

    pub(super) fn cancel(&mut self, cause: Cause, out: &mut Vec<Decided>) -> Handled {
        match self.state.turn() {
            Some(turn) if !closing(turn) => {
                let turn = turn.number();
                self.put(Fact::TurnCancel(TurnCancel { turn, cause }), out);
                Handled::Yes
            }
            Some(_) | None => Handled::Late,
        }
    }

    pub(super) fn record(&mut self, record: Record, out: &mut Vec<Decided>) -> Handled {
        if self.suspended || self.state.turn().is_some_and(closing) {
            return Handled::Refused;
        }
        let about = match &record {
            Record::Asked(asked) => Some(asked.call),
            Record::Decided(decided) => Some(decided.call),
            Record::Plugin(_) | Record::Surface(_) | Record::Seam(_) => None,
        };
        // Consent to a call that started, or is not judged yet, would say what nobody acts on.
        if about.is_some_and(|call| !self.judges(call)) {
            return Handled::Refused;
        }
        let fact = match record {
            Record::Plugin(event) => Fact::Plugin(event),
            Record::Surface(replaced) => Fact::SurfaceReplaced(replaced),
            Record::Asked(asked) => Fact::ApprovalAsked(asked),
            Record::Decided(decided) => Fact::ApprovalDecided(decided),
            Record::Seam(changed) => Fact::SeamChanged(changed),
        };
        self.put(fact, out);
        Handled::Yes
    }

    /// Whether it is to be decided now whether this call may start.
    fn judges(&self, call: CallId) -> bool {
        let mut asked = false;
        self.questions(|question| asked |= matches!(question, Question::Admit(judged, _) if judged == call));
        asked
    }
}
