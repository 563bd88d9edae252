//! A session in memory: every input is checked against a second fold and against the log's own rules.

use terret_core::chunk::{Chunk, Failure, Finish, FinishKind};
use terret_core::decided::Decided;
use terret_core::effect::{Effect, Question};
use terret_core::fact::{
    CallMode, CallRef, Cause, EffectClass, EndReason, Fact, Header, Lane, RequestAttempt, ToolResult,
};
use terret_core::id::CallId;
use terret_core::input::{Answer, Finished, Input, Ready, Recovery, Send, Settled};
use terret_core::line::Event;
use terret_core::machine::{Handled, Machine};
use terret_core::message::{Block, Message, Role, Source};
use terret_core::project::OpenTurn;
use terret_core::state::State;

use crate::monitor::Monitor;
use crate::samples::{attempt, context, header, opened};

/// A running session.
#[derive(Clone, Default)]
pub(crate) struct Session {
    pub(crate) machine: Machine,
    pub(crate) log: Vec<Event>,
    fold: State,
    words: OpenTurn,
    monitor: Monitor,
}

impl Session {
    /// A new session with its first writer.
    pub(crate) fn new() -> Self {
        let mut session = Session::default();
        assert_eq!(session.feed(Input::Opened(opened(1))), ["opened"]);
        session
    }

    /// The same log under a new writer.
    pub(crate) fn reopened(log: &[Event]) -> Self {
        let mut session = Session::default();
        for event in log {
            session.take(event.fact.clone());
        }
        session.machine = Machine::new(session.fold.clone());
        let epoch = session.fold.epoch() + 1;
        session.feed(Input::Opened(opened(epoch)));
        session
    }

    /// Folded again from its file by the same writer, as after a full disk.
    pub(crate) fn refolded(log: &[Event]) -> Self {
        let mut session = Session::default();
        for event in log {
            session.take(event.fact.clone());
        }
        session.machine = Machine::new(session.fold.clone());
        session
    }

    fn take(&mut self, fact: Fact) {
        let seq = self.log.len() as u64;
        let event = Event { seq, time: seq, fact };
        self.fold.apply(&event.fact);
        self.words.fold(&event);
        self.monitor.fold(&event.fact);
        self.log.push(event);
    }

    /// Feeds one input; gives what became of it and the facts in short.
    pub(crate) fn try_feed(&mut self, input: Input) -> (Handled, Vec<String>) {
        let from = self.log.len();
        let mut out: Vec<Decided> = Vec::new();
        let handled = self.machine.handle(input, &mut out);
        for decided in out {
            let fact = self.words.complete(decided);
            self.take(fact);
        }
        assert_eq!(self.machine.state(), &self.fold, "the live state is the fold of the log");
        (handled, self.log[from..].iter().map(|event| short(&event.fact)).collect())
    }

    pub(crate) fn feed(&mut self, input: Input) -> Vec<String> {
        let (handled, facts) = self.try_feed(input);
        assert_eq!(handled, Handled::Yes);
        facts
    }

    pub(crate) fn effects(&self) -> Vec<Effect> {
        let mut out = Vec::new();
        self.machine.effects(&mut out);
        out
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.effects().iter().map(Effect::question).collect()
    }

    /// Answers the only question there is.
    pub(crate) fn answer(&mut self, answer: Answer) -> Vec<String> {
        let questions = self.questions();
        assert_eq!(questions.len(), 1, "{questions:?}");
        self.feed(Input::Answer(questions[0], answer))
    }

    pub(crate) fn send(&mut self, id: &str) -> Vec<String> {
        self.feed(send(id, Lane::NextTurn, true))
    }

    pub(crate) fn cancel(&mut self, cause: Cause) -> Vec<String> {
        self.feed(Input::Cancel { cause })
    }

    /// Runs until a question of this kind is asked.
    pub(crate) fn until(&mut self, at: impl Fn(&Question) -> bool) -> &mut Self {
        while !self.questions().iter().any(&at) {
            let effect = self.effects().into_iter().next().expect("something is owed");
            self.default_answer(&effect);
        }
        self
    }

    /// Runs the open turn to its end with the plainest answers.
    pub(crate) fn finish(&mut self) -> &mut Self {
        for _ in 0..100 {
            match self.effects().into_iter().next() {
                Some(effect) => self.default_answer(&effect),
                None => return self,
            }
        }
        panic!("the turn does not end");
    }

    fn default_answer(&mut self, effect: &Effect) {
        let answer = match effect {
            Effect::PreStep { batch, .. } => enter(&batch.iter().map(|id| &*id.0).collect::<Vec<_>>()),
            Effect::Prepare { .. } => prepared(),
            Effect::Stream { .. } => text("done"),
            Effect::Recover { .. } => Answer::GiveUp,
            Effect::Admit { .. } => admitted(EffectClass::Read),
            Effect::Run { .. } => ran(),
            Effect::Stopping { .. } => Answer::Voted,
        };
        self.feed(Input::Answer(effect.question(), answer));
    }

    /// The words of the last `turn/end`.
    pub(crate) fn end(&self) -> String {
        let end = self.log.iter().rev().find(|e| matches!(e.fact, Fact::TurnEnd(_)));
        end.map(|e| short(&e.fact)).unwrap_or_default()
    }

    pub(crate) fn results(&self) -> Vec<&ToolResult> {
        let result = |event: &'_ Event| matches!(event.fact, Fact::ToolResult(_));
        self.log
            .iter()
            .filter(|e| result(e))
            .map(|e| match &e.fact {
                Fact::ToolResult(result) => result,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Nothing is open and nothing is owed.
    pub(crate) fn assert_at_rest(&self) {
        assert!(self.machine.state().turn().is_none(), "{:?}", self.machine.state().turn());
        assert_eq!(self.effects(), []);
        self.monitor.assert_closed();
    }

    pub(crate) fn pending(&self) -> Vec<String> {
        let text = |p: &terret_core::state::Pending| format!("{}{}", p.id, if p.held { " held" } else { "" });
        self.machine.state().inbox().iter().map(text).collect()
    }
}

pub(crate) fn send(id: &str, lane: Lane, wake: bool) -> Input {
    Input::Send(Send { message: Message::user(id, format!("text of {id}")), lane, wake, replaces: None })
}

pub(crate) fn enter(ids: &[&str]) -> Answer {
    Answer::Enter(ids.iter().map(|id| Message::user(*id, format!("text of {id}"))).collect())
}

pub(crate) fn reject(keep: bool) -> Answer {
    Answer::Reject { by: "gate".into(), reason: "no".into(), keep }
}

pub(crate) fn broken(code: &str) -> Answer {
    Answer::Broken(Failure::new(code, "it broke"))
}

pub(crate) fn failed(code: &str) -> Answer {
    Answer::Failed { failure: Failure::new(code, "it failed"), usage: None }
}

pub(crate) fn prepared() -> Answer {
    prepared_with(header())
}

pub(crate) fn prepared_with(header: Header) -> Answer {
    // The machine knows which attempt it asked for.
    let attempt = RequestAttempt { turn: 0, step: 0, ..attempt(0) };
    Answer::Prepared(Box::new(Ready { header, context: context(), attempt }))
}

pub(crate) fn said(text: &str) -> Answer {
    let chunks = vec![
        Chunk::BlockStart {
            index: 0,
            block_type: terret_core::message::BlockKind::Text,
            id: None,
            name: None,
        },
        Chunk::TextDelta { index: 0, text: text.into() },
    ];
    Answer::Chunks(chunks)
}

pub(crate) fn text(text: &str) -> Answer {
    finished(FinishKind::Stop, vec![Block::text(text)], &[])
}

/// An answer of this kind with calls `turn.step.0…` of these modes.
pub(crate) fn calls(at: (u32, u32), kind: FinishKind, modes: &[CallMode]) -> Answer {
    let id = |ordinal: usize| CallId { turn: at.0, step: at.1, ordinal: ordinal as u32 };
    let refs: Vec<CallRef> = modes
        .iter()
        .enumerate()
        .map(|(i, mode)| CallRef { call: id(i), name: "t".into(), mode: *mode })
        .collect();
    let blocks = refs.iter().map(|call| Block::ToolCall {
        call: Some(call.call),
        id: format!("p{}", call.call.ordinal),
        name: "t".into(),
        arguments: "{}".into(),
        kind: terret_core::message::CallKind::Json,
        provider: None,
    });
    finished(kind, blocks.collect(), &refs)
}

pub(crate) fn finished(kind: FinishKind, content: Vec<Block>, calls: &[CallRef]) -> Answer {
    let source = Source::Model { provider: "mock".into(), model: "m".into(), wire: None, response_id: None };
    let message = Message { id: "answer".into(), role: Role::Assistant, content, source };
    let finish = Finish { kind, raw: "raw".into() };
    Answer::Finished(Box::new(Finished {
        message,
        calls: calls.to_vec(),
        finish,
        usage: None,
        sources: vec![],
    }))
}

pub(crate) fn admitted(effect: EffectClass) -> Answer {
    Answer::Admitted { name: "t".into(), arguments: "{}".into(), effect, key: "k".into() }
}

pub(crate) fn ran() -> Answer {
    settled(Settled::ok("ran"))
}

pub(crate) fn settled(settled: Settled) -> Answer {
    Answer::Settled { settled, contexts: vec![] }
}

pub(crate) fn close() -> Input {
    Input::Recover(Recovery::Close)
}

pub(crate) fn resume() -> Input {
    Input::Recover(Recovery::ResumeTurn { keyed: vec![] })
}

pub(crate) fn user() -> Cause {
    Cause::User { text: Some("stop".into()) }
}

/// A fact in a few words.
pub(crate) fn short(fact: &Fact) -> String {
    let ids =
        |msgs: &[terret_core::id::MsgId]| msgs.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
    match fact {
        Fact::WriterOpened(_) => "opened".into(),
        Fact::WriterIdle(_) => "idle".into(),
        Fact::InboxAdded(f) => format!("added {}", f.message.id),
        Fact::InboxRemoved(f) => format!("removed {}", ids(&f.msgs)),
        Fact::InboxClaimed(f) => format!("claimed [{}]", ids(&f.msgs)),
        Fact::InboxReturned(f) => {
            format!("returned [{}]{}", ids(&f.msgs), if f.held { " held" } else { "" })
        }
        Fact::InboxReleased(f) => format!("released {}", ids(&f.msgs)),
        Fact::TurnStart(f) => format!("turn {}", f.turn),
        Fact::TurnCancel(f) => format!("cancel {}", cause(&f.cause)),
        Fact::TurnEnd(f) => match &f.reason {
            EndReason::Error { failure } => format!("end error {}", failure.code),
            EndReason::Aborted { cause: by } => format!("end aborted {}", cause(by)),
            EndReason::Blocked { by, .. } => format!("end blocked {by}"),
            reason @ (EndReason::Completed | EndReason::MaxTokens | EndReason::Interrupted) => {
                format!("end {}", reason.word())
            }
        },
        Fact::StepStart(f) => format!("step {} admits {}", f.step, f.admits),
        Fact::StepEnd(f) => format!("step {} end", f.step),
        Fact::UserMessage(f) => format!("user {}", f.message.id),
        Fact::RequestHeader(f) => format!("header {:?}", f.reason).to_lowercase(),
        Fact::RequestContext(_) => "context".into(),
        Fact::RequestAttempt(f) => format!("attempt {}.{}.{}", f.turn, f.step, f.attempt),
        Fact::RequestFailed(f) => format!("failed {} {:?}", f.failure.code, f.next),
        Fact::RequestRetry(f) => format!("retry after {} in {}", f.attempt, f.delay_ms),
        Fact::AssistantChunk(_) => "chunk".into(),
        Fact::AssistantMessage(f) if f.interrupted => format!("cut `{}`", f.message.text()),
        Fact::AssistantMessage(f) => format!("answer `{}` {}", f.message.text(), f.calls.len()),
        Fact::ToolCall(f) => format!("call {} run {}", f.call, f.run),
        Fact::ToolResult(f) => format!("result {} {:?}", f.call, f.outcome).to_lowercase(),
        Fact::ApprovalAsked(f) => format!("asked {}", f.call),
        Fact::ApprovalDecided(f) => format!("decided {}", f.call),
        Fact::SurfaceReplaced(_) => "replaced".into(),
        Fact::SeamChanged(f) => format!("seam {} {}", f.plugin, f.what),
        Fact::Plugin(f) => f.kind.clone(),
    }
}

fn cause(cause: &Cause) -> &'static str {
    match cause {
        Cause::User { .. } => "user",
        Cause::Parent => "parent",
        Cause::Hook { .. } => "hook",
        Cause::Disposed => "disposed",
        Cause::Budget { .. } => "budget",
    }
}
