//! The vocabulary of the log: everything it can say, who says it, and what silence means.
//!
//! Source: `docs/reference/loop.md`. Facts are grouped as they happen: writer, inbox, turn, step,
//! request, answer, tools, plugins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chunk::{Chunk, Failure, Finish, Usage};
use crate::id::{CallId, Digest, MsgId, Seq};
use crate::message::{Block, Message};
use crate::raw::Raw;

macro_rules! facts {
    ($( $(#[$doc:meta])* $name:literal $variant:ident($payload:ty) $class:ident; )*) => {
        /// One thing the log says.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Fact {
            $( $(#[$doc])* $variant($payload), )*
            /// `x/<plugin>/<kind>`: a plugin's own event. Written by that plugin. Never part of a request;
            /// its absence means nothing to the core.
            Plugin(PluginEvent),
        }

        impl Fact {
            /// Every core fact: its type on disk and its barrier class.
            pub const TABLE: &'static [(&'static str, Class)] = &[$( ($name, Class::$class) ),*];

            /// The `type` on disk.
            pub fn type_name(&self) -> &str {
                match self {
                    $( Fact::$variant(_) => $name, )*
                    Fact::Plugin(event) => &event.kind,
                }
            }

            /// Whether the line carries the chain value `h`.
            pub fn class(&self) -> Class {
                match self {
                    $( Fact::$variant(_) => Class::$class, )*
                    Fact::Plugin(_) => Class::Plain,
                }
            }

            /// Appends the payload's JSON.
            pub fn write_data(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
                match self {
                    $( Fact::$variant(data) => serde_json::to_writer(out, data), )*
                    Fact::Plugin(event) => {
                        out.extend_from_slice(event.data.get().as_bytes());
                        Ok(())
                    }
                }
            }

            /// Reads a core fact. `None`: the type is not in this vocabulary.
            pub fn parse(kind: &str, data: &str) -> Option<Result<Fact, serde_json::Error>> {
                match kind {
                    $( $name => Some(serde_json::from_str(data).map(Fact::$variant)), )*
                    _ => None,
                }
            }

            /// JSON Schema of every core fact's payload, by type.
            #[cfg(feature = "schema")]
            pub fn schemas(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, schemars::Schema)> {
                vec![$( ($name, generator.subschema_for::<$payload>()) ),*]
            }
        }
    };
}

/// What must be on disk with a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Rides along with the next barrier.
    Plain,
    /// Something may be acknowledged or started on its strength: it carries the chain value.
    Barrier,
}

facts! {
    /// Written by the store with the first append of a writer. Its absence at seq 0 means the file is not
    /// ours. Suspends the machine: calls that ran are orphaned, the open attempt is lost.
    "writer/opened" WriterOpened(WriterOpened) Plain;
    /// Written by the driver after the sync of a turn's end. Its absence after a `turn/end` means the process
    /// went away before it could rest; nothing is lost by that.
    "writer/idle" WriterIdle(WriterIdle) Barrier;
    /// Written when a message is accepted; acknowledged once synced. Its absence means it was never accepted.
    "inbox/added" InboxAdded(InboxAdded) Barrier;
    /// Written when pending messages are taken off by name. Without it they stay pending.
    "inbox/removed" InboxRemoved(InboxRemoved) Plain;
    /// Written when a step takes its input, even when there is none. What arrives later waits.
    "inbox/claimed" InboxClaimed(InboxClaimed) Plain;
    /// Written when claimed messages go back to the front of their lane. Without it a claim is consumed.
    "inbox/returned" InboxReturned(InboxReturned) Plain;
    /// Written when held messages are let go by name. Without it claims pass over them.
    "inbox/released" InboxReleased(InboxReleased) Plain;
    /// Written before anything of a turn happens. A turn without it does not exist.
    "turn/start" TurnStart(TurnStart) Plain;
    /// Written when somebody asks a turn to stop; the first one wins. Without it a turn is not `aborted`
    /// by a person, parent, budget or disposal.
    "turn/cancel" TurnCancel(TurnCancel) Plain;
    /// Written once, last in a turn. Its absence means the turn is open: running, or left by a crash.
    "turn/end" TurnEnd(TurnEnd) Barrier;
    /// Written when a step's input is decided. Its absence in a turn means no model was asked.
    "step/start" StepStart(StepStart) Plain;
    /// Written when every call of the step has its result. Its absence means the step is open.
    "step/end" StepEnd(StepEnd) Plain;
    /// Written by the driver for each admitted message, right after `step/start`. Fewer than `admits` means
    /// a torn group: the projection ignores those that are there.
    "user/message" UserMessage(UserMessage) Plain;
    /// Written when a request's configuration differs from the last header, and as the first of each writer.
    /// Its absence before an attempt means: as before.
    "request/header" RequestHeader(RequestHeader) Plain;
    /// Written when provider, model or window differ from the last one. Absence: as before.
    "request/context" RequestContext(RequestContext) Plain;
    /// Written before a request is sent, and synced. Its absence means that request was never sent.
    "request/attempt" RequestAttempt(RequestAttempt) Barrier;
    /// Written when an attempt ends without a message. Exactly one of this and `assistant/message` an attempt.
    "request/failed" RequestFailed(RequestFailed) Plain;
    /// Written when a plugin takes a failure over. Its absence after `request/failed {recover}` means no one
    /// decided yet.
    "request/retry" RequestRetry(RequestRetry) Plain;
    /// Written for each piece of the stream. Its absence means the model had not said it yet.
    "assistant/chunk" AssistantChunk(AssistantChunk) Plain;
    /// Written when a stream is whole, or cut with visible text in it (`interrupted`). Without it the
    /// attempt's text reaches no later request.
    "assistant/message" AssistantMessage(AssistantMessage) Plain;
    /// Written, and synced, before a tool starts. Its absence beside a result means the call never started.
    "tool/call" ToolCall(ToolCall) Barrier;
    /// Written once for each call of a step. Its absence means the call is waiting, running, or was lost.
    "tool/result" ToolResult(ToolResult) Plain;
    /// Written when a call needs somebody's consent. Without it nobody was asked.
    "approval/asked" ApprovalAsked(ApprovalAsked) Plain;
    /// Written when somebody answered. Its absence after `approval/asked` is not consent.
    "approval/decided" ApprovalDecided(ApprovalDecided) Plain;
    /// Written by a plugin that replaces a range of messages (compaction). Without it the messages stand.
    "surface/replaced" SurfaceReplaced(SurfaceReplaced) Plain;
    /// Written when a plugin changed something at a seam. Its absence means the default was taken.
    "seam/changed" SeamChanged(SeamChanged) Plain;
}

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
        /// Which, unit last: `steps`, `tool-calls`, `tokens`, `wall-time-ms`.
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

/// A plugin's own event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEvent {
    /// `x/<plugin>/<kind>`.
    pub kind: String,
    /// How far it reaches.
    pub rel: Rel,
    /// Version of its payload.
    pub v: u32,
    /// The payload.
    pub data: Raw,
}
