//! Facts as the machine decides them: complete but for words the state does not hold.

use crate::fact::Fact;

/// A fact the machine decided. What it says in words, where the state holds none, is filled in from the log
/// by the projection of the open turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The fact.
    pub fact: Fact,
    /// What is still to be filled in.
    pub fill: Fill,
}

/// What the log must add to a decided fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Nothing.
    None,
    /// An `assistant/message`: what the open attempt said so far.
    Partial,
    /// A `request/failed`: the tokens counted so far.
    Usage,
    /// A `turn/end`: the last `request/failed`'s failure.
    Failure,
    /// A `turn/end`: the `turn/cancel`'s cause.
    Cause,
}

impl From<Fact> for Decided {
    fn from(fact: Fact) -> Self {
        Decided { fact, fill: Fill::None }
    }
}
