//! The conversation as the next request will carry it.

use std::sync::Arc;

use crate::digest::message_digest;
use crate::fact::{CallRef, Fact, Outcome, SurfaceReplaced, ToolResult};
use crate::id::{Digest, MsgId, Seq};
use crate::line::Event;
use crate::message::{Block, Message, Role, Source};

/// A message of the conversation and the event that put it there.
#[derive(Clone, Debug)]
pub struct Projected {
    /// Seq of the event.
    pub seq: Seq,
    /// The message.
    pub message: Arc<Message>,
    /// Its digest.
    pub digest: Digest,
    /// Whether what stands before it was replaced after it was said.
    pub moved: bool,
    /// Hash of the system text it was said under; none where there was none.
    pub system: Option<Digest>,
    /// Count of the step it entered in; of a replacement, the first step it stands for.
    step: u64,
}

/// Folds events into the conversation. Messages of a step that was not wholly admitted stay out; the
/// results of a step come in the order of its calls, whatever the order they were committed in.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    list: Vec<Projected>,
    rewrites: u64,
    /// Steps so far, and whether the last one is open.
    steps: u64,
    open: bool,
    /// Hash of the system text of the last header.
    system: Option<Digest>,
    admits: u32,
    entering: Vec<(Seq, Message)>,
    calls: Vec<CallRef>,
    results: Vec<(Seq, ToolResult)>,
}

impl Messages {
    /// The conversation so far, oldest first.
    pub fn list(&self) -> &[Projected] {
        &self.list
    }

    /// How often the past was replaced. As long as this stays, the list only grows.
    pub fn rewrites(&self) -> u64 {
        self.rewrites
    }

    /// Whether this range may be replaced by this message; an error says why not. Only whole closed steps may, so that
    /// no call loses its results; their replacement calls nothing, and it is not empty.
    pub fn may_replace(&self, replaced: &SurfaceReplaced) -> Result<(), &'static str> {
        let [first, last] = replaced.range;
        let inside = |p: &&Projected| (first..=last).contains(&p.seq);
        let stands = |seq: Seq| self.list.iter().filter(inside).any(|p| p.seq == seq);
        if !stands(first) || !stands(last) {
            return Err("a range to replace begins and ends with the seq of a message of the conversation");
        }
        let steps = || self.list.iter().filter(inside).map(|p| p.step);
        let (from, to) = (steps().min().unwrap_or(0), steps().max().unwrap_or(0));
        if self.list.iter().any(|p| (from..=to).contains(&p.step) && !inside(&p)) {
            return Err("a range to replace holds whole steps: this one cuts a step in two");
        }
        if self.open && to == self.steps {
            return Err("a range to replace holds closed steps: this one reaches into the open step");
        }
        let calls = |b: &Block| matches!(b, Block::ToolCall { .. } | Block::ToolResult { .. });
        if replaced.message.content.iter().any(calls) {
            return Err("a replacement holds neither calls nor results: each would stand alone");
        }
        match replaced.message.content.iter().any(says) {
            true => Ok(()),
            false => Err("a replacement says something: one without a word would only erase the past"),
        }
    }

    /// Takes one event in.
    pub fn fold(&mut self, event: &Event) {
        match &event.fact {
            Fact::StepStart(start) => {
                self.steps += 1;
                self.open = true;
                self.entering.clear();
                self.admits = start.admits;
            }
            Fact::UserMessage(user) => {
                self.entering.push((event.seq, user.message.clone()));
                if self.entering.len() as u64 == u64::from(self.admits) {
                    for (seq, message) in std::mem::take(&mut self.entering) {
                        self.push(seq, message);
                    }
                }
            }
            Fact::AssistantMessage(answer) => {
                self.calls.clone_from(&answer.calls);
                self.results.clear();
                // No wire takes a message that says nothing.
                if !answer.message.content.is_empty() {
                    self.push(event.seq, answer.message.clone());
                }
            }
            Fact::RequestHeader(header) => self.system = header.header.system.as_deref().map(system_hash),
            Fact::ToolResult(result) => self.results.push((event.seq, result.clone())),
            Fact::StepEnd(_) => {
                self.settle();
                self.open = false;
            }
            Fact::SurfaceReplaced(replaced) => {
                let [first, last] = replaced.range;
                let inside = |p: &Projected| (first..=last).contains(&p.seq);
                let Some(at) = self.list.iter().position(inside) else {
                    return;
                };
                let step = self.list[at].step;
                self.list.retain(|p| !inside(p));
                let message = replaced.message.clone();
                let digest = message_digest(&message);
                self.list[at..].iter_mut().for_each(|behind| behind.moved = true);
                let (message, system) = (Arc::new(message), self.system);
                self.list.insert(at, Projected { seq: first, message, digest, moved: false, system, step });
                self.rewrites += 1;
            }
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnStart(_)
            | Fact::TurnCancel(_)
            | Fact::TurnEnd(_)
            | Fact::RequestContext(_)
            | Fact::RequestAttempt(_)
            | Fact::RequestFailed(_)
            | Fact::RequestRetry(_)
            | Fact::AssistantChunk(_)
            | Fact::ToolCall(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
    }

    fn settle(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let results = std::mem::take(&mut self.results);
        for call in &calls {
            if let Some((seq, result)) = results.iter().find(|(_, r)| r.call == call.call) {
                self.push(*seq, result_message(result));
            }
        }
    }

    fn push(&mut self, seq: Seq, message: Message) {
        let digest = message_digest(&message);
        let (message, system) = (Arc::new(message), self.system);
        self.list.push(Projected { seq, message, digest, moved: false, system, step: self.steps });
    }
}

/// Hash of a system text, to tell whether a message was said under this one.
pub fn system_hash(system: &str) -> Digest {
    Digest::of(system.as_bytes())
}

/// Whether a block puts anything before the model. Reasoning does not: most wires leave it out.
fn says(block: &Block) -> bool {
    match block {
        Block::Text { text, .. } | Block::Refusal { text, .. } => !text.trim().is_empty(),
        Block::Reasoning { .. } | Block::ToolCall { .. } | Block::ToolResult { .. } => false,
        Block::Json { .. } | Block::Image { .. } | Block::File { .. } | Block::Provider { .. } => true,
    }
}

/// A tool's result as the model reads it.
fn result_message(result: &ToolResult) -> Message {
    let block = Block::ToolResult {
        call: result.call,
        content: result.content.clone(),
        is_error: result.outcome != Outcome::Ok,
    };
    Message {
        id: MsgId(format!("result-{}", result.call).into()),
        role: Role::User,
        content: vec![block],
        source: Source::Tool { call: result.call },
    }
}
