//! The seams: every place where policy meets the loop. Typed fields of one struct, so that this file is the
//! list of them.
//!
//! A waterfall listener gets the question and `next`; `next` is consumed by value, so it cannot be called
//! twice. Plugins stand at a seam in their declared [`Order`], the first outermost.

mod chain;
mod consent;
mod notice;
mod order;
mod registry;
mod waterfall;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use terret_core::chunk::Failure;
use terret_core::id::Digest;
use terret_core::line::Event;
use terret_core::message::Message;
use tokio::sync::watch;

use crate::call::{Call, Done, Started};
use crate::mail::{Handle, Status};
use crate::request::{ChunkStream, Outgoing, Proposal};

pub use chain::{Chain, Emit};
pub use consent::{Admission, Approver, Ask, Choice, Decision};
pub use notice::{InboxNotice, Settled, TurnError};
pub(crate) use order::sorted;
pub use order::{Order, Phase};
pub use registry::Installed;
pub(crate) use registry::Registry;
pub use waterfall::{Listener, Next, Print, Trace, Waterfall};

/// Something that changes what an agent does, through the seams only.
pub trait Plugin: Send + Sync {
    /// Its name, as records give it; one of a kind in an agent.
    fn name(&self) -> &str;

    /// Where it wants to stand among others.
    fn order(&self) -> Order {
        Order::default()
    }

    /// Refuses settings that cannot work, with the reason.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Puts its listeners in place. Asked once, when the plugin is installed.
    fn install(&self, seams: &mut Seams);
}

macro_rules! seams {
    ($( $(#[$doc:meta])* $field:ident: $ty:ty => $name:expr; )*) => {
        /// Every seam.
        #[derive(Clone, Default)]
        pub struct Seams {
            $( $(#[$doc])* pub $field: $ty, )*
            /// Providers a plugin serves at `llm/stream` by itself, without an adapter.
            pub served: Vec<String>,
        }

        impl Seams {
            /// Adds another part's listeners inside those already there.
            fn append(&mut self, part: &Seams, plugin: &Arc<str>) {
                $( self.$field.append(&part.$field, plugin); )*
                self.served.extend(part.served.iter().cloned());
            }

            /// Every seam with the plugins that listen there, outermost first.
            pub fn chains(&self) -> Vec<(&'static str, Vec<String>)> {
                vec![$( ($name, self.$field.plugins()) ),*]
            }
        }
    };
}

seams! {
    /// `agent/pre-step`: what of a batch the model may see.
    pre_step: Waterfall<PreStep, Result<Verdict, Failure>> => PRE_STEP;
    /// `system-prompt/assemble`: the sections of the system text.
    prompt: Waterfall<Vec<Section>, Result<Vec<Section>, Failure>> => PROMPT;
    /// `agent/request`: the configuration of the next request.
    request: Waterfall<RequestPoint, Result<Proposal, Failure>> => REQUEST;
    /// `agent/request-error`: what to do about a failed attempt.
    request_error: Waterfall<FailedAttempt, Result<Recovery, Failure>> => REQUEST_ERROR;
    /// `llm/stream`: around the adapter.
    stream: Waterfall<Outgoing, Result<ChunkStream, Failure>> => STREAM;
    /// `tools/pre-execute`: whether a call may start, may not, or needs somebody's consent.
    pre_execute: Waterfall<Call, Admission> => PRE_EXECUTE;
    /// Guards: asked last, consent included, and can only deny; nothing overrules them.
    guards: Chain<Guard> => "guards";
    /// `tools/execute`: around the tool.
    execute: Waterfall<Started, Done> => EXECUTE;
    /// `tools/post-execute`: accept, replace, add context.
    post_execute: Waterfall<Executed, Executed> => POST_EXECUTE;
    /// `agent/turn-stopping`: every listener votes; a vote to go on is a message steered in.
    stopping: Chain<dyn Vote> => "agent/turn-stopping";
    /// `session/event`: every event, once it is written.
    events: Emit<Event> => "session/event";
    /// `tools/result`: every result of a call.
    results: Emit<Settled> => "tools/result";
    /// `agent/status`: where the agent stands, whenever that changes. It runs before its turn starts, and is idle or
    /// parked once the turn's end is synced.
    status: Emit<Status> => "agent/status";
    /// `agent/error`: every turn that ends with an error.
    errors: Emit<TurnError> => "agent/error";
    /// `agent/inbox`: every message that is accepted, taken by a turn, or taken off.
    inbox: Emit<InboxNotice> => "agent/inbox";
}

/// Denies a call, with a reason, or says nothing.
pub type Guard = dyn Fn(&Call) -> Option<String> + Send + Sync;

/// The question of `agent/pre-step`.
#[derive(Clone)]
pub struct PreStep {
    /// The agent, for mail.
    pub agent: Handle,
    /// Turn.
    pub turn: u32,
    /// Number the step would have.
    pub step: u32,
    /// What would enter: context that is due, then the batch.
    pub messages: Vec<Message>,
    /// Turns true when the turn is cancelled: for what a listener started and does not wait for.
    pub stop: Stop,
}

/// The answer of `agent/pre-step`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These enter; none is an answer too.
    Enter(Vec<Message>),
    /// The batch does not enter.
    Reject {
        /// Plugin.
        by: String,
        /// Its reason.
        reason: String,
        /// Give the batch back, held.
        keep: bool,
    },
}

/// A section of the system text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name, for plugins that replace it: `identity`, `tools`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The question of `agent/request`.
#[derive(Clone)]
pub struct RequestPoint {
    /// The agent, for mail.
    pub agent: Handle,
    /// Turn.
    pub turn: u32,
    /// Step.
    pub step: u32,
    /// Attempt.
    pub attempt: u32,
    /// What would be asked for.
    pub proposal: Proposal,
    /// Turns true when the turn is cancelled.
    pub stop: Stop,
}

/// The question of `agent/request-error`.
#[derive(Clone)]
pub struct FailedAttempt {
    /// The agent, for mail.
    pub agent: Handle,
    /// Turn.
    pub turn: u32,
    /// Step.
    pub step: u32,
    /// The attempt that failed.
    pub attempt: u32,
    /// How.
    pub failure: Failure,
    /// Who had the step's request sent to this provider again so far: a name for each time.
    pub retried: Vec<String>,
    /// Turns true when the turn is cancelled.
    pub stop: Stop,
}

/// The answer of `agent/request-error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Ask again.
    Retry {
        /// Plugin.
        by: String,
        /// After this long.
        delay_ms: u64,
    },
    /// Nobody takes it over: the turn ends with the failure.
    GiveUp,
}

/// A call that ran.
#[derive(Clone)]
pub struct Executed {
    /// The call.
    pub call: Call,
    /// How it ended.
    pub done: Done,
    /// What it adds for the next step.
    pub contexts: Vec<Message>,
}

/// The question of `agent/turn-stopping`.
#[derive(Clone)]
pub struct Stopping {
    /// The agent, for mail.
    pub agent: Handle,
    /// Turn.
    pub turn: u32,
    /// Turns true when the turn is cancelled.
    pub stop: Stop,
}

/// Has a say when a turn would end.
pub trait Vote: Send + Sync {
    /// Looks, and steers a message in to keep the turn going.
    fn vote<'a>(&'a self, question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>>;
}

/// The one sign of a turn that it is cancelled: its hooks and its tools see the same.
pub type Stop = watch::Receiver<bool>;

impl Seams {
    /// Those of tools alone. Calls may take hours: what is uninstalled meanwhile is not kept for them.
    pub(crate) fn of_tools(&self) -> Seams {
        let (pre_execute, guards) = (self.pre_execute.clone(), self.guards.clone());
        let (execute, post_execute) = (self.execute.clone(), self.post_execute.clone());
        Seams { pre_execute, guards, execute, post_execute, ..Seams::default() }
    }
}

pub(crate) const PRE_STEP: &str = "agent/pre-step";
pub(crate) const PROMPT: &str = "system-prompt/assemble";
pub(crate) const REQUEST: &str = "agent/request";
pub(crate) const REQUEST_ERROR: &str = "agent/request-error";
pub(crate) const STREAM: &str = "llm/stream";
pub(crate) const PRE_EXECUTE: &str = "tools/pre-execute";
pub(crate) const EXECUTE: &str = "tools/execute";
pub(crate) const POST_EXECUTE: &str = "tools/post-execute";

macro_rules! prints {
    ($( $ty:ty: $value:ident => $content:expr; )*) => { $(
        impl Print for $ty {
            fn print(&self) -> Digest {
                let $value = self;
                Digest::of(format!("{:?}", $content).as_bytes())
            }
        }
    )* };
}

prints! {
    PreStep: q => &q.messages;
    Vec<Section>: q => q;
    RequestPoint: q => &q.proposal;
    FailedAttempt: q => &q.failure;
    // It cannot be changed on the way, only replaced by another.
    Outgoing: q => (&q.header().provider, &q.header().model, q.body().len());
    Call: q => (&q.name, &q.arguments, &q.cwd, q.permissions);
    Started: q => (&q.name, &q.arguments, &q.cwd, q.permissions);
    Executed: q => (&q.done, &q.contexts);
    Done: a => a;
    Result<Verdict, Failure>: a => a;
    Result<Vec<Section>, Failure>: a => a;
    Result<Proposal, Failure>: a => a;
    Result<Recovery, Failure>: a => a;
    Admission: a => a;
    // A stream cannot be looked at without being used up.
    Result<ChunkStream, Failure>: a => a.as_ref().err();
}
