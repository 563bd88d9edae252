//! The closed choices inside payloads: one word on disk each, some with their particulars.

use serde::{Deserialize, Serialize};

use crate::chunk::Failure;

macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$vdoc:meta])* $variant:ident ),* $(,)? } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $( $(#[$vdoc])* $variant, )* }
    )* };
}

words! {
    /// Where a message waits.
    Lane {
        /// For the next turn: one a turn.
        NextTurn,
        /// For the next step: all at once.
        NextStep,
    }
    /// Why pending messages were taken off.
    Removal {
        /// Somebody withdrew them.
        Canceled,
        /// Another message took their place.
        Replaced,
        /// They stayed with the parent of a fork.
        Fork,
    }
    /// Why a header was written.
    HeaderReason {
        /// There was none.
        Initial,
        /// First of a new writer or of a fork.
        Resume,
        /// Something differs.
        Change,
    }
    /// What follows a failed attempt.
    Next {
        /// `agent/request-error` decides.
        Recover,
        /// Another attempt at once (after a crash, under resume-turn).
        Retry,
        /// The turn ends.
        End,
    }
    /// Whether a call may run beside others.
    CallMode {
        /// Beside other parallel calls.
        Parallel,
        /// Alone.
        Exclusive,
    }
    /// What running a tool a second time would mean.
    EffectClass {
        /// It only looks.
        Read,
        /// The same again has no further effect.
        Idempotent,
        /// The receiver drops a repeated key.
        Keyed,
        /// Nobody knows: never by itself a second time.
        Unsafe,
    }
    /// How a tool call ended.
    Outcome {
        /// It did what was asked.
        Ok,
        /// It failed and says so.
        Error,
        /// It was not allowed to start.
        Denied,
        /// It never started.
        NotStarted,
        /// It was stopped.
        Aborted,
        /// It ran out of time.
        Timeout,
        /// It started and nobody knows how it ended.
        Unknown,
    }
    /// How far a plugin event reaches.
    Rel {
        /// Any reader may skip it.
        View,
        /// It shapes requests.
        Context,
    }
}

/// Who asked a turn to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Cause {
    /// The person.
    User {
        /// Their words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The agent that started this one.
    Parent,
    /// A plugin.
    Hook {
        /// Its name.
        plugin: String,
        /// Its reason.
        reason: String,
    },
    /// The process ends.
    Disposed,
    /// A budget is used up.
    Budget {
        /// Which, unit last: `steps`, `tool-calls`, `tokens`, `wall-time-ms`; `cost` is in millionths of a US
        /// dollar.
        which: String,
        /// Its limit.
        limit: u64,
    },
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum EndReason {
    /// Its work is done.
    Completed,
    /// An output limit cut an answer of it.
    MaxTokens,
    /// A plugin kept its input from the model; no step ran.
    Blocked {
        /// Plugin.
        by: String,
        /// Its reason.
        reason: String,
    },
    /// It was asked to stop.
    Aborted {
        /// By whom.
        cause: Cause,
    },
    /// Something failed.
    Error {
        /// What.
        failure: Failure,
    },
    /// The process went away in the middle of it.
    Interrupted,
}

impl EndReason {
    /// The word on disk.
    pub fn word(&self) -> &'static str {
        match self {
            EndReason::Completed => "completed",
            EndReason::MaxTokens => "max-tokens",
            EndReason::Blocked { .. } => "blocked",
            EndReason::Aborted { .. } => "aborted",
            EndReason::Error { .. } => "error",
            EndReason::Interrupted => "interrupted",
        }
    }
}
