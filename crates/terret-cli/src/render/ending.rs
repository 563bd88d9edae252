//! Endings: in people's words, and as exit codes.

use terret::core::fact::{Cause, EndReason};
use terret::core::price::Usd;

use super::dollars;

/// How a turn ended, in people's words.
pub(crate) fn words(reason: &EndReason, attempts: u32) -> String {
    match reason {
        EndReason::Completed => "done".into(),
        EndReason::MaxTokens => "cut off by the output limit".into(),
        EndReason::Blocked { by, reason } => format!("blocked by `{by}`: {reason}"),
        EndReason::Aborted { cause } => match cause {
            Cause::User { .. } => "stopped by you".into(),
            Cause::Parent => "stopped by the agent that started it".into(),
            Cause::Hook { plugin, reason } => format!("stopped by `{plugin}`: {reason}"),
            Cause::Disposed => "stopped because the process had to end".into(),
            Cause::Budget { which, limit } => match which.as_str() {
                "cost" => format!("stopped at the budget of {}", dollars(Usd::from_micros(*limit))),
                "wall-time-ms" => format!("stopped at the budget of {} s", limit / 1000),
                which => format!("stopped at the budget of {limit} {which}"),
            },
        },
        EndReason::Error { failure } => {
            let tries = if attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() };
            format!("failed: {} [{}]{tries}", failure.message, failure.code)
        }
        EndReason::Interrupted => "interrupted: the process stopped in the middle of it".into(),
    }
}

/// The exit code of an ending.
pub(crate) fn code(reason: &EndReason) -> u8 {
    match reason {
        EndReason::Completed => 0,
        EndReason::MaxTokens => 4,
        EndReason::Blocked { .. } => 3,
        EndReason::Aborted { cause } => match cause {
            Cause::User { .. } => 130,
            Cause::Disposed => 143,
            Cause::Budget { .. } => 7,
            Cause::Hook { .. } | Cause::Parent => 1,
        },
        EndReason::Error { .. } | EndReason::Interrupted => 1,
    }
}
