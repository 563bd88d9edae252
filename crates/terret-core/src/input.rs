//! What can happen outside: mail, answers, and the store's own events.

use crate::chunk::{Chunk, Failure, Finish, Usage};
use crate::effect::Question;
use crate::fact::{
    ApprovalAsked, ApprovalDecided, CallRef, Cause, EffectClass, Header, Lane, Outcome, PluginEvent, Removal,
    RequestAttempt, RequestContext, SeamChanged, SurfaceReplaced, ToolError, WriterOpened,
};
use crate::id::{CallId, MsgId, Seq};
use crate::message::{Block, Message};
use crate::raw::Raw;

/// One thing that happened outside.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody sends a message.
    Send(Send),
    /// Somebody withdraws pending messages.
    Remove {
        /// Which; those not pending are passed over.
        msgs: Vec<MsgId>,
        /// Why.
        why: Removal,
    },
    /// Somebody lets pending messages go: held ones are claimable again, and the queue drains.
    Release {
        /// Which; those not pending are passed over.
        msgs: Vec<MsgId>,
    },
    /// Somebody asks the open turn to stop.
    Cancel {
        /// Who.
        cause: Cause,
    },
    /// A plugin records something.
    Record(Record),
    /// A writer opened the log: folded first, written with the first append.
    Opened(WriterOpened),
    /// What to do with a turn a dead writer left open.
    Recover(Recovery),
    /// A write could not be made (a full disk, a fact too long for a line); the machine was folded again from
    /// the file.
    StoreFull {
        /// Why.
        failure: Failure,
        /// Calls that had reported, and how.
        reported: Vec<(CallId, Outcome)>,
    },
    /// The driver rests: everything so far is synced.
    Idle,
    /// The driver is being put away: no turn starts any more, the queue is kept.
    Rest,
    /// An answer to a question. One that is no longer asked changes nothing.
    Answer(Question, Answer),
}

/// A message on its way in.
#[derive(Clone, Debug)]
pub struct Send {
    /// The message.
    pub message: Message,
    /// Where it should wait.
    pub lane: Lane,
    /// Whether it may start a turn.
    pub wake: bool,
    /// The pending message it takes the place of.
    pub replaces: Option<MsgId>,
}

/// What a plugin may record.
#[derive(Clone, Debug)]
pub enum Record {
    /// Its own event.
    Plugin(PluginEvent),
    /// It replaced a range of messages.
    Surface(SurfaceReplaced),
    /// A call needs consent.
    Asked(ApprovalAsked),
    /// Somebody answered.
    Decided(ApprovalDecided),
    /// It changed something at a seam.
    Seam(SeamChanged),
}

/// What to do with a turn a dead writer left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Close it; nothing runs.
    Close,
    /// Go on inside it.
    ResumeTurn {
        /// Orphaned calls of class `keyed` whose tool agreed to be given the same key again.
        keyed: Vec<CallId>,
    },
}

/// What came back.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Pre-step: these messages enter; none is an answer too.
    Enter(Vec<Message>),
    /// Pre-step: a plugin refuses the batch.
    Reject {
        /// Plugin.
        by: String,
        /// Its reason.
        reason: String,
        /// Give the batch back instead of consuming it.
        keep: bool,
    },
    /// Prepare: ready to be sent.
    Prepared(Box<Ready>),
    /// Stream: pieces, as one network read brought them.
    Chunks(Vec<Chunk>),
    /// Stream: whole.
    Finished(Box<Finished>),
    /// Stream: the provider or the transport failed.
    Failed {
        /// How.
        failure: Failure,
        /// Tokens counted before.
        usage: Option<Usage>,
    },
    /// A hook, the assembly or our own check failed.
    Broken(Failure),
    /// Recover: try again.
    Retry {
        /// Plugin.
        by: String,
        /// After this long.
        delay_ms: u64,
    },
    /// Recover: nobody takes it over.
    GiveUp,
    /// Admit: it may start.
    Admitted {
        /// Tool.
        name: String,
        /// The raw argument string.
        arguments: String,
        /// Effect class.
        effect: EffectClass,
        /// Key for receivers.
        key: String,
    },
    /// Admit: it may not start, or could not be judged; this is its result.
    Refused(Settled),
    /// Run: it settled.
    Settled {
        /// How.
        settled: Settled,
        /// What it adds for the next step.
        contexts: Vec<Message>,
    },
    /// Stopping: everybody voted.
    Voted,
}

/// A request ready to be sent.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Its header.
    pub header: Header,
    /// Its context.
    pub context: RequestContext,
    /// Its digests; turn, step and attempt as asked.
    pub attempt: RequestAttempt,
}

/// A stream that is whole.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What the model said, call ids minted.
    pub message: Message,
    /// The calls in it.
    pub calls: Vec<CallRef>,
    /// How it ended.
    pub finish: Finish,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Ranges of chunk seqs it was made of.
    pub sources: Vec<[Seq; 2]>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// In one word.
    pub outcome: Outcome,
    /// What the model reads.
    pub content: Vec<Block>,
    /// What programs read.
    pub data: Option<Raw>,
    /// Which error.
    pub error: Option<ToolError>,
    /// The turn's work is done.
    pub concludes: bool,
}

impl Settled {
    /// Success, with text for the model.
    pub fn ok(text: impl Into<String>) -> Self {
        Settled::notice(Outcome::Ok, text)
    }

    /// An outcome with a sentence and nothing else.
    pub fn notice(outcome: Outcome, text: impl Into<String>) -> Self {
        Settled { outcome, content: vec![Block::text(text)], data: None, error: None, concludes: false }
    }

    /// Failure: who failed, a stable code, and what the model should read and can act on.
    pub fn error(name: &str, code: &str, text: impl Into<String>) -> Self {
        let error = Some(ToolError { name: name.to_owned(), code: code.to_owned() });
        Settled { error, ..Settled::notice(Outcome::Error, text) }
    }

    /// The same with another outcome.
    pub fn with_outcome(self, outcome: Outcome) -> Self {
        Settled { outcome, ..self }
    }

    /// The same with a structured part for programs.
    pub fn with_data(self, data: Raw) -> Self {
        Settled { data: Some(data), ..self }
    }
}
