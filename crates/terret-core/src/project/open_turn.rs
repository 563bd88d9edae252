//! What the open turn has said so far: the words the machine's state does not hold.

use crate::assemble::{Assembler, Route};
use crate::chunk::{Failure, Finish, Usage};
use crate::decided::{Decided, Fill};
use crate::fact::{CallMode, CallRef, Cause, EndReason, Fact};
use crate::id::{CallId, MsgId, Seq};
use crate::input::Finished;
use crate::line::Event;
use crate::message::{Block, Message, Role, Source};

/// Folds the open turn's stream, failure and cancel.
#[derive(Clone, Debug, Default)]
pub struct OpenTurn {
    route: Route,
    wire: Option<String>,
    attempt: (u32, u32, u32),
    stream: Assembler,
    sources: Vec<[Seq; 2]>,
    failure: Option<Failure>,
    cause: Option<Cause>,
    answer: Option<Message>,
}

impl OpenTurn {
    /// Takes one event in.
    pub fn fold(&mut self, event: &Event) {
        match &event.fact {
            Fact::TurnStart(_) => {
                self.failure = None;
                self.cause = None;
                self.answer = None;
            }
            Fact::TurnCancel(cancel) => {
                self.cause.get_or_insert_with(|| cancel.cause.clone());
            }
            Fact::RequestHeader(header) => {
                let header = &header.header;
                let protocol = header.wire.split('@').next().unwrap_or_default().to_owned();
                self.wire = (!header.wire.is_empty()).then(|| header.wire.clone());
                self.route =
                    Route { protocol, provider: header.provider.clone(), model: header.model.clone() };
            }
            Fact::RequestAttempt(attempt) => {
                self.attempt = (attempt.turn, attempt.step, attempt.attempt);
                self.stream = Assembler::new(self.route.clone());
                self.sources.clear();
            }
            Fact::AssistantChunk(chunk) => {
                self.stream.push(&chunk.chunk);
                match self.sources.last_mut() {
                    Some([_, last]) if *last + 1 == event.seq => *last = event.seq,
                    Some(_) | None => self.sources.push([event.seq, event.seq]),
                }
            }
            Fact::RequestFailed(failed) => {
                self.failure = Some(failed.failure.clone());
                self.close();
            }
            Fact::AssistantMessage(answer) => {
                self.answer = Some(answer.message.clone());
                self.close();
            }
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnEnd(_)
            | Fact::StepStart(_)
            | Fact::StepEnd(_)
            | Fact::UserMessage(_)
            | Fact::RequestContext(_)
            | Fact::RequestRetry(_)
            | Fact::ToolCall(_)
            | Fact::ToolResult(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
    }

    /// What the attempt said is in a message now, or went with the failure.
    fn close(&mut self) {
        self.stream = Assembler::default();
        self.sources.clear();
    }

    /// The open attempt's stream, as far as it came.
    pub fn stream(&self) -> &Assembler {
        &self.stream
    }

    /// Name and raw arguments of a call of the turn's last answer.
    pub fn call(&self, id: CallId) -> Option<(&str, &str)> {
        self.answer.iter().flat_map(|message| &message.content).find_map(|block| match block {
            Block::ToolCall { call: Some(call), name, arguments, .. } if *call == id => {
                Some((name.as_str(), arguments.as_str()))
            }
            Block::ToolCall { .. }
            | Block::Text { .. }
            | Block::Refusal { .. }
            | Block::Reasoning { .. }
            | Block::ToolResult { .. }
            | Block::Json { .. }
            | Block::Image { .. }
            | Block::File { .. }
            | Block::Provider { .. } => None,
        })
    }

    /// The last failure of a request in the turn.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Tokens counted so far in the open attempt.
    pub fn usage(&self) -> Option<&Usage> {
        self.stream.usage()
    }

    /// The open attempt's stream as a whole answer; `None` while its finish has not come. Calls get their
    /// ids here; `mode` classifies them, once.
    pub fn finished(&self, mode: impl Fn(&str, &str) -> CallMode) -> Option<Finished> {
        let finish: Finish = self.stream.finish()?.clone();
        let (turn, step, _) = self.attempt;
        let mut content = self.stream.content();
        let mut calls = Vec::new();
        for block in &mut content {
            if let Block::ToolCall { call, name, arguments, .. } = block {
                let id = CallId { turn, step, ordinal: calls.len() as u32 };
                *call = Some(id);
                calls.push(CallRef { call: id, name: name.clone(), mode: mode(name, arguments) });
            }
        }
        let (usage, sources) = (self.usage().cloned(), self.sources.clone());
        Some(Finished { message: self.message(content), calls, finish, usage, sources })
    }

    /// Fills in what the log says and the state does not.
    pub fn complete(&self, decided: Decided) -> Fact {
        let mut fact = decided.fact;
        match (decided.fill, &mut fact) {
            (Fill::Partial, Fact::AssistantMessage(answer)) => {
                answer.message = self.message(self.stream.partial());
                answer.usage = self.usage().cloned();
                answer.sources.clone_from(&self.sources);
            }
            (Fill::Usage, Fact::RequestFailed(failed)) => failed.usage = self.usage().cloned(),
            (Fill::Failure, Fact::TurnEnd(end)) => {
                if let (EndReason::Error { failure }, Some(known)) = (&mut end.reason, &self.failure) {
                    failure.clone_from(known);
                }
            }
            (Fill::Cause, Fact::TurnEnd(end)) => {
                if let (EndReason::Aborted { cause }, Some(known)) = (&mut end.reason, &self.cause) {
                    cause.clone_from(known);
                }
            }
            (Fill::None | Fill::Partial | Fill::Usage | Fill::Failure | Fill::Cause, _) => {}
        }
        fact
    }

    fn message(&self, content: Vec<Block>) -> Message {
        let (turn, step, attempt) = self.attempt;
        Message {
            id: MsgId(format!("answer-{turn}.{step}.{attempt}").into()),
            role: Role::Assistant,
            content,
            source: Source::Model {
                provider: self.route.provider.clone(),
                model: self.route.model.clone(),
                wire: self.wire.clone(),
                response_id: self.stream.response_id().map(str::to_owned),
            },
        }
    }
}
