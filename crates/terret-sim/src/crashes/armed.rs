//! A fault that waits for its operation.

use std::sync::{Arc, Mutex, PoisonError};

use super::plan::Fault;
use crate::dice::Dice;
use crate::fs::{Done, Fate, Kind, Op, Verdict};

/// The fate of one process.
#[derive(Clone)]
pub(super) struct Armed(Arc<Mutex<State>>);

struct State {
    dice: Dice,
    /// The fault, and at which of the operations it can strike; `None`: they are only counted.
    plan: Option<(Fault, Option<u32>)>,
    /// Operations it could strike since it was armed.
    seen: u32,
    /// What it struck.
    struck: Option<Kind>,
    /// After a fault that it outlives, the process dies over this one of the operations that follow.
    then_dies: Option<u32>,
}

impl Armed {
    pub(super) fn new(seed: u64) -> Self {
        let state = State { dice: Dice::new(seed), plan: None, seen: 0, struck: None, then_dies: None };
        Armed(Arc::new(Mutex::new(state)))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From here on operations count, and the fault strikes the one with this number.
    pub(super) fn arm(&self, fault: Fault, at: Option<u32>) {
        self.with(|state| (state.plan, state.seen, state.struck) = (Some((fault, at)), 0, None));
    }

    /// After the next fault that the process outlives it dies over this one of the operations that follow.
    pub(super) fn then_dies(&self, at: u32) {
        self.with(|state| state.then_dies = Some(at));
    }

    /// Gives how many operations it could have struck.
    pub(super) fn disarm(&self) -> u32 {
        self.with(|state| {
            state.plan = None;
            state.seen
        })
    }

    /// Another process begins: nothing struck it yet.
    pub(super) fn begin(&self) {
        self.with(|state| (state.plan, state.struck) = (None, None));
    }

    pub(super) fn struck(&self) -> Option<Kind> {
        self.with(|state| state.struck)
    }
}

impl Fate for Armed {
    fn verdict(&self, op: &Op<'_>) -> Verdict {
        self.with(|state| {
            let Some((fault, at)) = state.plan.filter(|(fault, _)| fault.strikes(op)) else {
                return Verdict::Go;
            };
            let number = state.seen;
            state.seen += 1;
            if at != Some(number) {
                return Verdict::Go;
            }
            state.struck = Some(op.kind);
            if !fault.kills()
                && let Some(at) = state.then_dies.take()
            {
                (state.plan, state.seen) = (Some((Fault::Killed, Some(at))), 0);
            }
            state.strike(fault, op)
        })
    }
}

impl State {
    fn strike(&mut self, fault: Fault, op: &Op<'_>) -> Verdict {
        match fault {
            Fault::Killed | Fault::Dropped | Fault::Zeroed | Fault::Stale | Fault::Mixed => {
                Verdict::Die(match self.dice.below(3) {
                    0 => Done::Nothing,
                    1 => Done::All,
                    _ => Done::Part(1.max(self.dice.part(op.bytes))),
                })
            }
            Fault::Failing | Fault::FailingSync | Fault::Combined => Verdict::Fail(self.dice.part(op.bytes)),
            Fault::Short => Verdict::Short(self.dice.below(op.bytes as u32) as usize),
            Fault::Full => {
                let most = if self.dice.half() { op.bytes as u64 } else { 4_000 };
                Verdict::Room(Some(self.dice.within(0..most.max(1))))
            }
        }
    }
}
