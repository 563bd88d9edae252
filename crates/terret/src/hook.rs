//! The seams: every place where policy meets the loop. Typed fields of one struct, so that this file is the
//! list of them.
//!
//! A waterfall listener gets the question and `next`; `next` is consumed by value, so it cannot be called
//! twice. Plugins stand at a seam in their declared [`Order`], the first outermost.

mod order;
mod waterfall;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use terret_core::chunk::Failure;
use terret_core::id::Digest;
use terret_core::line::Event;
use terret_core::message::Message;

use crate::call::{Call, Done, Started};
use crate::mail::Handle;
use crate::request::{ChunkStream, Outgoing, Proposal};

pub(crate) use order::sorted;
pub use order::{Order, Phase};
pub use waterfall::{Listener, Next, Print, Trace, Waterfall};

/// Something that changes what an agent does, through the seams only.
pub trait Plugin: Send + Sync {
    /// Its name, as records give it; one of a kind in an agent.
    fn name(&self) -> &str;

    /// Where it wants to stand among others.
    fn order(&self) -> Order {
        Order::default()
    }

    /// Puts its listeners in place.
    fn install(&self, seams: &mut Seams);
}

/// Every seam.
#[derive(Default)]
pub struct Seams {
    /// `agent/pre-step`: what of a batch the model may see.
    pub pre_step: Waterfall<PreStep, Result<Verdict, Failure>>,
    /// `system-prompt/assemble`: the sections of the system text.
    pub prompt: Waterfall<Vec<Section>, Result<Vec<Section>, Failure>>,
    /// `agent/request`: the configuration of the next request.
    pub request: Waterfall<RequestPoint, Result<Proposal, Failure>>,
    /// `agent/request-error`: what to do about a failed attempt.
    pub request_error: Waterfall<FailedAttempt, Result<Recovery, Failure>>,
    /// `llm/stream`: around the adapter.
    pub stream: Waterfall<Outgoing, Result<ChunkStream, Failure>>,
    /// `tools/pre-execute`: whether a call may start.
    pub pre_execute: Waterfall<Call, Result<(), Done>>,
    /// Providers a plugin serves at `llm/stream` by itself, without an adapter.
    pub served: Vec<String>,
    /// Guards: deny only, after everything else, and cannot be undone.
    pub guards: Vec<Guard>,
    /// `tools/execute`: around the tool.
    pub execute: Waterfall<Started, Done>,
    /// `tools/post-execute`: accept, replace, add context.
    pub post_execute: Waterfall<Executed, Executed>,
    /// `agent/turn-stopping`: every listener votes; a vote to go on is a message steered in.
    pub stopping: Vec<Arc<dyn Vote>>,
    /// `session/event`: every event, once it is written.
    pub events: Vec<Observer>,
}

/// Sees an event.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// Denies a call, with a reason, or says nothing.
pub type Guard = Arc<dyn Fn(&Call) -> Option<String> + Send + Sync>;

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

/// Has a say when a turn would end.
pub trait Vote: Send + Sync {
    /// Looks, and steers a message in to keep the turn going.
    fn vote<'a>(&'a self, agent: &'a Handle, turn: u32) -> BoxFuture<'a, Result<(), Failure>>;
}

impl Seams {
    /// Puts a plugin's listeners in place, under its name.
    pub(crate) fn install(&mut self, plugin: &dyn Plugin) {
        plugin.install(self);
        let name = plugin.name();
        self.pre_step.name_new(name);
        self.prompt.name_new(name);
        self.request.name_new(name);
        self.request_error.name_new(name);
        self.stream.name_new(name);
        self.pre_execute.name_new(name);
        self.execute.name_new(name);
        self.post_execute.name_new(name);
    }

    /// Every waterfall with the plugins that listen there, outermost first.
    pub fn chains(&self) -> [(&'static str, Vec<String>); 8] {
        [
            (PRE_STEP, self.pre_step.plugins()),
            (PROMPT, self.prompt.plugins()),
            (REQUEST, self.request.plugins()),
            (REQUEST_ERROR, self.request_error.plugins()),
            (STREAM, self.stream.plugins()),
            (PRE_EXECUTE, self.pre_execute.plugins()),
            (EXECUTE, self.execute.plugins()),
            (POST_EXECUTE, self.post_execute.plugins()),
        ]
    }
}

pub(crate) const PRE_STEP: &str = "agent/pre-step";
pub(crate) const PROMPT: &str = "system-prompt/assemble";
pub(crate) const REQUEST: &str = "agent/request";
const REQUEST_ERROR: &str = "agent/request-error";
const STREAM: &str = "llm/stream";
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
    Result<(), Done>: a => a;
    // A stream cannot be looked at without being used up.
    Result<ChunkStream, Failure>: a => a.as_ref().err();
}
