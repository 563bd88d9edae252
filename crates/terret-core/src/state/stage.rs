//! The words of an open turn: where it stands, and where its calls stand.

use crate::fact::{CallMode, EffectClass};
use crate::id::CallId;

/// Where an open turn stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Input is about to be taken.
    Claiming,
    /// The batch is before the hooks.
    PreStep,
    /// The step is open; this many of its messages are still to come.
    Entering {
        /// How many.
        left: u32,
    },
    /// The step is open and its input was given back: it can only end.
    Emptied,
    /// A request is being made ready.
    Preparing {
        /// Its number in the step.
        attempt: u32,
        /// How long to wait first.
        delay_ms: u64,
    },
    /// A request was logged; its stream is open.
    Streaming {
        /// Its number in the step.
        attempt: u32,
        /// Whether text a person could read came.
        visible: bool,
    },
    /// A request failed; somebody decides.
    Recovering {
        /// Its number in the step.
        attempt: u32,
    },
    /// The model asked for tools.
    Tools(Vec<CallState>),
    /// Nothing is left to do in the step.
    StepDone,
    /// The turn would end; listeners vote.
    Stopping,
    /// Only closers may follow.
    Closing,
}

/// How a turn would end if nothing else came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The work is done.
    Completed,
    /// The output limit cut the answer.
    MaxTokens,
}

/// Who cancelled, as far as the rules tell causes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CauseKind {
    /// The person: claimed input is held.
    User,
    /// Anybody else.
    Other,
}

/// A call of the open step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallState {
    /// Its id.
    pub id: CallId,
    /// Whether it runs alone.
    pub mode: CallMode,
    /// Its effect class, once it started.
    pub effect: Option<EffectClass>,
    /// How often it started.
    pub runs: u32,
    /// Where it stands.
    pub status: CallStatus,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallStatus {
    /// Not started.
    Waiting,
    /// Started by this writer.
    Running,
    /// Started by a writer that is gone.
    Orphaned,
    /// Has its result.
    Done {
        /// A success that says the turn's work is done.
        concludes: bool,
    },
}
