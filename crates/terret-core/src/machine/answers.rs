//! Answers: each row of the table *stage × answer → facts*.

use super::{Decided, Fill, Handled, Machine, reason_of};
use crate::chunk::{Failure, FinishKind, Usage, code};
use crate::effect::Question;
use crate::fact::{
    AssistantChunk, AssistantMessage, Cause, EndReason, Fact, HeaderReason, InboxAdded, InboxReturned, Lane,
    Next, Outcome, RequestAttempt, RequestFailed, RequestHeader, RequestRetry, SeamChanged, StepStart,
    ToolCall, UserMessage,
};
use crate::id::{CallId, MsgId};
use crate::input::{Answer, Finished, Ready, Settled};
use crate::message::{Block, Message};
use crate::state::CallStatus;

/// What a lost call reads as when it may not, or cannot, be run again.
pub(super) const UNKNOWN_TEXT: &str = "The process stopped while this call ran, and what the call started may \
still run. Nobody knows whether it took effect: look before you do it again.";

/// The seam a late rejection is recorded at.
const PRE_STEP: &str = "agent/pre-step";

impl Machine {
    pub(super) fn answer(&mut self, question: Question, answer: Answer, out: &mut Vec<Decided>) -> Handled {
        if !self.asks(question) {
            return Handled::Late;
        }
        match (question, answer) {
            (Question::PreStep(turn, step), Answer::Enter(messages)) => {
                self.entered(turn, step, messages, out)
            }
            (Question::PreStep(turn, _), Answer::Reject { by, reason, keep }) => {
                self.rejected(turn, by, reason, keep, out)
            }
            (Question::PreStep(..), Answer::Broken(failure)) => self.close_broken(failure, out),
            (Question::Prepare(turn, step, attempt), Answer::Prepared(ready)) => {
                self.prepared((turn, step, attempt), *ready, out)
            }
            (Question::Prepare(turn, step, _), Answer::Broken(failure)) => {
                self.break_off(turn, step, failure, out)
            }
            (Question::Stream(turn, step, attempt), Answer::Chunks(chunks)) => {
                for chunk in chunks {
                    self.put(Fact::AssistantChunk(AssistantChunk { turn, step, attempt, chunk }), out);
                }
            }
            (Question::Stream(turn, step, attempt), Answer::Finished(done)) => {
                self.finished((turn, step, attempt), *done, out)
            }
            (Question::Stream(turn, step, attempt), Answer::Failed { failure, usage }) => {
                self.failed((turn, step, attempt), failure, Next::Recover, usage, out)
            }
            (Question::Stream(turn, step, attempt), Answer::Broken(failure)) => {
                self.failed((turn, step, attempt), failure.clone(), Next::End, None, out);
                self.break_off(turn, step, failure, out);
            }
            (Question::Recover(turn, step, attempt), Answer::Retry { by, delay_ms }) => {
                self.put(Fact::RequestRetry(RequestRetry { turn, step, attempt, by, delay_ms }), out);
            }
            (Question::Recover(turn, step, _), Answer::GiveUp) => {
                self.end_step(turn, step, out);
                // The words of the failure are the log's to give.
                let reason = EndReason::Error { failure: Failure::new(code::UNKNOWN, "") };
                let fact = Fact::TurnEnd(crate::fact::TurnEnd { turn, reason });
                self.put(Decided { fact, fill: Fill::Failure }, out);
            }
            (Question::Recover(turn, step, _), Answer::Broken(failure)) => {
                self.break_off(turn, step, failure, out)
            }
            (Question::Admit(call, run), Answer::Admitted { name, arguments, effect, key }) => {
                let (turn, step) = (call.turn, call.step);
                self.put(
                    Fact::ToolCall(ToolCall { turn, step, call, run, name, arguments, effect, key }),
                    out,
                );
            }
            (Question::Admit(call, _), Answer::Refused(settled)) => self.refused(call, settled, out),
            (Question::Run(call, _), Answer::Settled { settled, contexts }) => {
                self.settle(call, settled, out);
                for message in contexts {
                    let added = InboxAdded { message, lane: Lane::NextStep, wake: false, replaces: None };
                    self.put(Fact::InboxAdded(added), out);
                }
            }
            (Question::Stopping(turn, _), Answer::Voted) => self.stop(turn, out),
            (Question::Stopping(turn, _), Answer::Broken(failure)) => {
                self.end_turn(turn, EndReason::Error { failure }, out)
            }
            // An answer of another question's kind: a driver's mistake, not the log's.
            (
                Question::PreStep(..)
                | Question::Prepare(..)
                | Question::Stream(..)
                | Question::Recover(..)
                | Question::Admit(..)
                | Question::Run(..)
                | Question::Stopping(..),
                _,
            ) => return Handled::Refused,
        }
        Handled::Yes
    }

    fn entered(&mut self, turn: u32, step: u32, messages: Vec<Message>, out: &mut Vec<Decided>) {
        let ran = self.state.turn().is_some_and(|t| t.entered());
        match self.state.turn().and_then(|t| t.verdict()) {
            _ if !messages.is_empty() => self.start_step(turn, step, messages, out),
            _ if !ran => self.end_turn(turn, EndReason::Completed, out),
            Some(verdict) => self.end_turn(turn, reason_of(verdict), out),
            None => self.start_step(turn, step, messages, out),
        }
    }

    fn rejected(&mut self, turn: u32, by: String, reason: String, keep: bool, out: &mut Vec<Decided>) {
        let ran = self.state.turn().is_some_and(|t| t.entered());
        let verdict = self.state.turn().and_then(|t| t.verdict());
        if ran {
            let (seam, plugin, what) = (PRE_STEP.to_owned(), by.clone(), format!("reject: {reason}"));
            self.put(Fact::SeamChanged(SeamChanged { seam, plugin, what }), out);
        }
        if keep {
            let msgs = self.batch_ids();
            self.put(Fact::InboxReturned(InboxReturned { turn, msgs, held: true }), out);
        }
        let reason = match verdict {
            _ if !ran => EndReason::Blocked { by, reason },
            Some(verdict) => reason_of(verdict),
            None => EndReason::Aborted { cause: Cause::Hook { plugin: by, reason } },
        };
        self.end_turn(turn, reason, out);
    }

    fn batch_ids(&self) -> Vec<MsgId> {
        self.state.turn().map(|t| t.batch().iter().map(|p| p.id.clone()).collect()).unwrap_or_default()
    }

    fn start_step(&mut self, turn: u32, step: u32, messages: Vec<Message>, out: &mut Vec<Decided>) {
        let admits = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        self.put(Fact::StepStart(StepStart { turn, step, admits }), out);
        for message in messages {
            self.put(Fact::UserMessage(UserMessage { turn, step, message }), out);
        }
    }

    fn prepared(&mut self, at: (u32, u32, u32), ready: Ready, out: &mut Vec<Decided>) {
        let (turn, step, attempt) = at;
        let before = self.state.header();
        let changed = before != Some(crate::digest::header_digest(&ready.header));
        if changed || self.state.resumed() {
            let reason = match before {
                None => HeaderReason::Initial,
                Some(_) if self.state.resumed() => HeaderReason::Resume,
                Some(_) => HeaderReason::Change,
            };
            let header = ready.header;
            self.put(Fact::RequestHeader(RequestHeader { turn, step, header, reason }), out);
        }
        if self.state.context() != Some(crate::digest::context_digest(&ready.context)) {
            self.put(Fact::RequestContext(ready.context), out);
        }
        self.put(Fact::RequestAttempt(RequestAttempt { turn, step, attempt, ..ready.attempt }), out);
    }

    fn finished(&mut self, at: (u32, u32, u32), done: Finished, out: &mut Vec<Decided>) {
        let (turn, step, attempt) = at;
        let Finished { mut message, mut calls, finish, usage, sources } = done;
        let failure = match finish.kind {
            FinishKind::Stop | FinishKind::ToolCalls => None,
            FinishKind::MaxTokens | FinishKind::Pause => {
                // A call that may be cut is never dispatched, and a call without a result is never sent.
                calls.clear();
                message.content.retain(|block| !matches!(block, Block::ToolCall { .. }));
                None
            }
            FinishKind::ContextWindow => {
                Some((code::CONTEXT_WINDOW_EXCEEDED, "the conversation no longer fits the model"))
            }
            FinishKind::Refusal => Some((code::REFUSAL, "the model declined to answer")),
            FinishKind::ContentFilter => Some((code::CONTENT_FILTER, "a content filter cut the answer")),
            FinishKind::Other => Some((code::OTHER_FINISH, "the answer ended in a way we do not know")),
        };
        match failure {
            None => {
                let fact = AssistantMessage {
                    turn,
                    step,
                    attempt,
                    message,
                    calls,
                    finish,
                    usage,
                    sources,
                    interrupted: false,
                };
                self.put(Fact::AssistantMessage(fact), out);
            }
            Some((class, sentence)) => {
                let failure = Failure { raw: Some(finish.raw), ..Failure::new(class, sentence) };
                self.failed(at, failure, Next::Recover, usage, out);
            }
        }
    }

    fn failed(
        &mut self,
        (turn, step, attempt): (u32, u32, u32),
        failure: Failure,
        next: Next,
        usage: Option<Usage>,
        out: &mut Vec<Decided>,
    ) {
        let fact = Fact::RequestFailed(RequestFailed { turn, step, attempt, failure, next, usage });
        let fill = if next == Next::End { Fill::Usage } else { Fill::None };
        self.put(Decided { fact, fill }, out);
    }

    /// Ends an open step and its turn with an error.
    fn break_off(&mut self, turn: u32, step: u32, failure: Failure, out: &mut Vec<Decided>) {
        self.end_step(turn, step, out);
        self.end_turn(turn, EndReason::Error { failure }, out);
    }

    fn refused(&mut self, call: CallId, settled: Settled, out: &mut Vec<Decided>) {
        let orphaned = self
            .state
            .turn()
            .is_some_and(|t| t.calls().iter().any(|c| c.id == call && c.status == CallStatus::Orphaned));
        // It did start once, so "denied" would be untrue.
        let settled = if orphaned { Settled::notice(Outcome::Unknown, UNKNOWN_TEXT) } else { settled };
        self.settle(call, settled, out);
    }

    fn stop(&mut self, turn: u32, out: &mut Vec<Decided>) {
        if self.state.inbox().has_next_step() {
            return self.claim(turn, false, out);
        }
        match self.state.turn().and_then(|t| t.verdict()) {
            Some(verdict) => self.end_turn(turn, reason_of(verdict), out),
            // Unreachable by the table: only a turn with a verdict is asked to stop.
            None => self.claim(turn, false, out),
        }
    }
}
