//! What the outside owes the loop, read off the state.

use crate::id::{CallId, MsgId};

/// One thing the outside owes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Decide what of this batch the model may see.
    PreStep {
        /// Turn.
        turn: u32,
        /// Number the step will have.
        step: u32,
        /// What was claimed, in order.
        batch: Vec<MsgId>,
    },
    /// Make a request ready, after a wait.
    Prepare {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Attempt.
        attempt: u32,
        /// How long to wait first.
        delay_ms: u64,
    },
    /// Send the request and report its stream.
    Stream {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Attempt.
        attempt: u32,
    },
    /// Judge a failed attempt.
    Recover {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Attempt.
        attempt: u32,
    },
    /// Decide whether a call may start.
    Admit {
        /// Call.
        call: CallId,
        /// Which run of it.
        run: u32,
    },
    /// Run a call that the log knows as started.
    Run {
        /// Call.
        call: CallId,
        /// Which run of it.
        run: u32,
        /// Ask it to stop.
        stop: bool,
    },
    /// Vote on whether the turn may end.
    Stopping {
        /// Turn.
        turn: u32,
        /// Its last step.
        step: u32,
    },
}

/// What an answer answers: an effect without the parts that may change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// [`Effect::PreStep`] of turn and step.
    PreStep(u32, u32),
    /// [`Effect::Prepare`] of turn, step, attempt.
    Prepare(u32, u32, u32),
    /// [`Effect::Stream`] of turn, step, attempt.
    Stream(u32, u32, u32),
    /// [`Effect::Recover`] of turn, step, attempt.
    Recover(u32, u32, u32),
    /// [`Effect::Admit`] of call and run.
    Admit(CallId, u32),
    /// [`Effect::Run`] of call and run.
    Run(CallId, u32),
    /// [`Effect::Stopping`] of turn and step.
    Stopping(u32, u32),
}

impl Effect {
    /// The question it puts.
    pub fn question(&self) -> Question {
        match *self {
            Effect::PreStep { turn, step, .. } => Question::PreStep(turn, step),
            Effect::Prepare { turn, step, attempt, .. } => Question::Prepare(turn, step, attempt),
            Effect::Stream { turn, step, attempt } => Question::Stream(turn, step, attempt),
            Effect::Recover { turn, step, attempt } => Question::Recover(turn, step, attempt),
            Effect::Admit { call, run } => Question::Admit(call, run),
            Effect::Run { call, run, .. } => Question::Run(call, run),
            Effect::Stopping { turn, step } => Question::Stopping(turn, step),
        }
    }

    /// Whether performing it reaches outside the process: the log must be synced first.
    pub fn leaves_process(&self) -> bool {
        match self {
            Effect::Stream { .. } | Effect::Run { .. } => true,
            Effect::PreStep { .. }
            | Effect::Prepare { .. }
            | Effect::Recover { .. }
            | Effect::Admit { .. }
            | Effect::Stopping { .. } => false,
        }
    }
}
