//! The vocabulary of the log: everything it can say, who says it, and what silence means.
//!
//! Source: `docs/reference/loop.md`. Facts are grouped as they happen: writer, inbox, turn, step,
//! request, answer, tools, plugins.

mod attachments;
mod payload;
mod version;
mod words;

pub use payload::{
    ApprovalAsked, ApprovalDecided, AssistantChunk, AssistantMessage, CallRef, Header, InboxAdded,
    InboxClaimed, InboxReleased, InboxRemoved, InboxReturned, RequestAttempt, RequestContext, RequestFailed,
    RequestHeader, RequestRetry, SeamChanged, StepEnd, StepStart, SurfaceReplaced, ToolCall, ToolError,
    ToolResult, ToolSpec, TurnCancel, TurnEnd, TurnStart, UserMessage, WriterIdle, WriterOpened,
};
pub use version::{Upcast, Versions};
pub use words::{CallMode, Cause, EffectClass, EndReason, HeaderReason, Lane, Next, Outcome, Rel, Removal};

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

            /// The class of a core type.
            fn class_of(kind: &str) -> Option<Class> {
                match kind {
                    $( $name => Some(Class::$class), )*
                    _ => None,
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

impl Class {
    /// The class of a type on disk; `None`: neither a core type nor a plugin's.
    pub fn of(kind: &str) -> Option<Class> {
        if kind.starts_with("x/") { Some(Class::Plain) } else { Fact::class_of(kind) }
    }
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
    /// Written when provider, model, window or prices differ from the last one. Absence: as before.
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

impl PluginEvent {
    /// The plugin that wrote it.
    pub fn plugin(&self) -> &str {
        self.kind.split('/').nth(1).unwrap_or_default()
    }
}
