//! Who waits for what became of a message.

use std::collections::BTreeMap;

use terret_core::fact::{EndReason, Removal};
use terret_core::id::MsgId;
use terret_core::machine::Machine;
use terret_core::project::TurnSummary;
use tokio::sync::oneshot;

use crate::mail::{Outcome, Settlement};

/// Receipts not yet resolved, in an order that lets a run be repeated.
#[derive(Default)]
pub(super) struct Receipts {
    waiting: BTreeMap<MsgId, Vec<oneshot::Sender<Settlement>>>,
    /// Taken off in the log, and not yet synced.
    removed: Vec<(MsgId, Removal)>,
}

impl Receipts {
    pub(super) fn expect(&mut self, id: MsgId, settled: oneshot::Sender<Settlement>) {
        self.waiting.entry(id).or_default().push(settled);
    }

    /// A turn's end is synced: its messages have their outcome, and what is left behind is parked.
    pub(super) fn turn_ended(&mut self, turn: &TurnSummary, machine: &Machine) {
        let state = machine.state();
        let outcome = Outcome {
            turn: turn.turn,
            ending: turn.reason.clone().unwrap_or(EndReason::Interrupted),
            text: turn.text.clone(),
            usage: turn.usage.clone(),
            steps: turn.steps,
        };
        for id in &turn.claimed {
            self.resolve(id, || Settlement::Ended(outcome.clone()));
        }
        let rests = state.turn().is_none() && machine.parked();
        for pending in state.inbox().iter().filter(|p| p.held || rests) {
            self.resolve(&pending.id, || match pending.held {
                true => Settlement::Held(outcome.clone()),
                false => Settlement::Parked(outcome.clone()),
            });
        }
    }

    /// These are taken off: who waits is told with the next sync.
    pub(super) fn removed(&mut self, ids: &[MsgId], why: Removal) {
        self.removed.extend(ids.iter().map(|id| (id.clone(), why)));
    }

    /// What was taken off is so for good.
    pub(super) fn synced(&mut self) {
        for (id, why) in std::mem::take(&mut self.removed) {
            self.resolve(&id, || Settlement::Removed(why));
        }
    }

    /// Lets go of those who wait for messages the log does not have.
    pub(super) fn forget_unless(&mut self, known: impl Fn(&MsgId) -> bool) {
        self.waiting.retain(|id, _| known(id));
    }

    fn resolve(&mut self, id: &MsgId, settlement: impl Fn() -> Settlement) {
        for settled in self.waiting.remove(id).into_iter().flatten() {
            // Nobody listening is not an error: the log has it.
            let _ = settled.send(settlement());
        }
    }
}
