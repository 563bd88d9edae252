//! What each fact carries, field by field, as on disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CallMode, Cause, EffectClass, EndReason, HeaderReason, Lane, Next, Outcome, Removal};
use crate::chunk::{Chunk, Failure, Finish, Usage};
use crate::id::{CallId, Digest, MsgId, Seq};
use crate::message::{Block, Message};
use crate::price::Prices;
use crate::raw::Raw;

macro_rules! payloads {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$fdoc:meta])* $field:ident: $ty:ty ),* $(,)? } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name { $( $(#[$fdoc])* pub $field: $ty, )* }
    )* };
}

payloads! {
    /// Payload of `writer/opened`.
    WriterOpened {
        /// Count of writers of this log, from 1.
        epoch: u64,
        /// Process id of the writer.
        pid: u32,
        /// Host name.
        host: String,
        /// Boot id of the machine: tells a crash of the process from a reboot.
        boot: String,
        /// Program and version.
        by: String,
        /// blake3 of the header line (without its newline).
        header_hash: Digest,
        /// Bytes of a torn tail moved to `torn-<epoch>`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut_bytes: Option<u64>,
    }
    /// Payload of `writer/idle`.
    WriterIdle {}
    /// Payload of `inbox/added`.
    InboxAdded {
        /// The message.
        message: Message,
        /// Where it waits.
        lane: Lane,
        /// Whether it may start a turn.
        wake: bool,
        /// The pending message it takes the place of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<MsgId>,
    }
    /// Payload of `inbox/removed`.
    InboxRemoved {
        /// Which.
        msgs: Vec<MsgId>,
        /// Why.
        why: Removal,
    }
    /// Payload of `inbox/claimed`.
    InboxClaimed {
        /// Turn that claims.
        turn: u32,
        /// What it claims, in order; may be empty.
        msgs: Vec<MsgId>,
    }
    /// Payload of `inbox/returned`.
    InboxReturned {
        /// Turn that gives back.
        turn: u32,
        /// What it gives back, in order.
        msgs: Vec<MsgId>,
        /// Whether claims pass over them until released by name.
        held: bool,
    }
    /// Payload of `inbox/released`.
    InboxReleased {
        /// Which.
        msgs: Vec<MsgId>,
    }
    /// Payload of `turn/start`.
    TurnStart {
        /// Number of the turn, from 1.
        turn: u32,
    }
    /// Payload of `turn/cancel`.
    TurnCancel {
        /// Which turn.
        turn: u32,
        /// Who asked.
        cause: Cause,
    }
    /// Payload of `turn/end`.
    TurnEnd {
        /// Which turn.
        turn: u32,
        /// How it ended.
        reason: EndReason,
    }
    /// Payload of `step/start`.
    StepStart {
        /// Turn.
        turn: u32,
        /// Number of the step in the turn, from 1.
        step: u32,
        /// How many `user/message` follow.
        admits: u32,
    }
    /// Payload of `step/end`.
    StepEnd {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
    }
    /// Payload of `user/message`.
    UserMessage {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// The message the model will see.
        message: Message,
    }
    /// Payload of `request/header`.
    RequestHeader {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// The whole configuration of the requests that follow.
        header: Header,
        /// Why it was written.
        reason: HeaderReason,
    }
    /// Everything of a request that is not a message. A codec reads this and the messages, nothing else.
    Header {
        /// Provider of the route.
        provider: String,
        /// Model of the route.
        model: String,
        /// Codec name and version; empty for a route a plugin serves.
        wire: String,
        /// The effective dialect row.
        dialect: Raw,
        /// Parameters by name, sorted.
        parameters: BTreeMap<String, Raw>,
        /// Which parameters the adapter derived; a new route derives them again.
        defaults: Vec<String>,
        /// System text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<String>,
        /// Tools offered, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ToolSpec>,
    }
    /// A tool as the model sees it.
    ToolSpec {
        /// Name, `[a-zA-Z0-9_-]{1,64}`.
        name: String,
        /// What it does and when to use it.
        description: String,
        /// JSON Schema of its arguments.
        parameters: Raw,
    }
    /// Payload of `request/context`.
    RequestContext {
        /// Provider of the route.
        provider: String,
        /// Model of the route.
        model: String,
        /// Its window, in tokens, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
        /// What its tokens cost; absent where that is not known. Absence is not zero.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prices: Option<Prices>,
        /// Where the prices are from: a table and its version, `config`, or both.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<String>,
    }
    /// Payload of `request/attempt`.
    RequestAttempt {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Number of the attempt in the step, from 1.
        attempt: u32,
        /// Digest of the canonical request (header and messages).
        digest: Digest,
        /// Codec name and version that made the body; absent when a plugin serves the stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wire: Option<String>,
        /// blake3 of the exact body.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wire_digest: Option<Digest>,
        /// Length of the body in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    }
    /// Payload of `request/failed`.
    RequestFailed {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Attempt.
        attempt: u32,
        /// What went wrong.
        failure: Failure,
        /// What the loop does about it.
        next: Next,
        /// Tokens it cost, where the provider said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    }
    /// Payload of `request/retry`.
    RequestRetry {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// The attempt that failed.
        attempt: u32,
        /// Plugin that decided.
        by: String,
        /// How long to wait before the next attempt.
        delay_ms: u64,
    }
    /// Payload of `assistant/chunk`.
    AssistantChunk {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Attempt.
        attempt: u32,
        /// The piece.
        chunk: Chunk,
    }
    /// Payload of `assistant/message`.
    AssistantMessage {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Attempt.
        attempt: u32,
        /// What the model said.
        message: Message,
        /// Calls to make, in the model's order; empty when they must not run.
        calls: Vec<CallRef>,
        /// How the stream ended.
        finish: Finish,
        /// Tokens counted by the provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Ranges of chunk seqs it was made of, first and last.
        sources: Vec<[Seq; 2]>,
        /// Cut by a cancel or a crash.
        #[serde(default, skip_serializing_if = "is_false")]
        interrupted: bool,
    }
    /// A call of a committed message.
    CallRef {
        /// Our id.
        call: CallId,
        /// Tool asked for.
        name: String,
        /// Whether others may run beside it.
        mode: CallMode,
    }
    /// Payload of `tool/call`.
    ToolCall {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Which call.
        call: CallId,
        /// Which run of it: 1, and more only under resume-turn.
        run: u32,
        /// Tool.
        name: String,
        /// The raw argument string.
        arguments: String,
        /// What running it twice would mean.
        effect: EffectClass,
        /// The key an idempotent receiver can use: `session/turn.step.ordinal`.
        key: String,
    }
    /// Payload of `tool/result`.
    ToolResult {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Which call.
        call: CallId,
        /// How it ended.
        outcome: Outcome,
        /// What the model reads.
        content: Vec<Block>,
        /// What programs read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Raw>,
        /// Which error, when it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ToolError>,
        /// The tool says the turn's work is done.
        #[serde(default, skip_serializing_if = "is_false")]
        concludes: bool,
    }
    /// A tool's error as a program reads it.
    ToolError {
        /// Tool or seam that failed.
        name: String,
        /// Stable code, for example `invalid-arguments`.
        code: String,
    }
    /// Payload of `approval/asked`.
    ApprovalAsked {
        /// Which call.
        call: CallId,
        /// What would be done.
        what: String,
        /// Answers offered.
        choices: Vec<String>,
    }
    /// Payload of `approval/decided`.
    ApprovalDecided {
        /// Which call.
        call: CallId,
        /// The answer.
        decision: String,
        /// Who or what answered.
        by: String,
    }
    /// Payload of `surface/replaced`.
    SurfaceReplaced {
        /// Seqs of the first and last message replaced; whole closed steps only.
        range: [Seq; 2],
        /// What stands in their place.
        message: Message,
        /// Plugin.
        by: String,
    }
    /// Payload of `seam/changed`.
    SeamChanged {
        /// Seam, for example `agent/pre-step`.
        seam: String,
        /// Plugin.
        plugin: String,
        /// What it did.
        what: String,
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
