//! What is told to those who only look, beside the events themselves.

use terret_core::chunk::Failure;
use terret_core::fact::{Removal, ToolResult};
use terret_core::id::MsgId;
use terret_core::message::Message;

/// `tools/result`: a call has its result. Told once it is written, just before its event is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Tool that was asked for.
    pub name: String,
    /// The result.
    pub result: ToolResult,
}

/// `agent/error`: a turn ends with an error. Told just before its `turn/end` is; a cancel is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnError {
    /// The turn.
    pub turn: u32,
    /// Its last step; 0 if it had none.
    pub step: u32,
    /// What went wrong.
    pub failure: Failure,
}

/// A message of the inbox moved. Told just behind the event that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxNotice {
    /// It was accepted.
    Inserted(Message),
    /// A turn took it. It may come back: `inbox/returned` is in the events.
    Claimed {
        /// The message.
        msg: MsgId,
        /// The turn.
        turn: u32,
    },
    /// It was taken off, or another took its place.
    Discarded {
        /// The message.
        msg: MsgId,
        /// Why.
        why: Removal,
    },
}
