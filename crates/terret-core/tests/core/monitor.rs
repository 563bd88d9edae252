//! The rules of the log, checked on the log alone: a fold with a memory of its own that panics where a rule
//! is broken. It never looks at the machine's state.

use terret_core::fact::{CallMode, EndReason, Fact, Next, Outcome};
use terret_core::id::{CallId, MsgId};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Monitor {
    /// Accepted and not claimed: id, whether it wakes, whether it is held.
    pending: Vec<(MsgId, bool, bool)>,
    /// Claimed, with the step that takes it not wholly admitted.
    claimed: Vec<(MsgId, bool)>,
    /// A wake, a release or a wake after a cancel: what a turn starts on.
    licence: bool,
    turn: Option<TurnLog>,
    turns: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct TurnLog {
    steps: u32,
    /// Open step: how many messages are still to come.
    step: Option<u32>,
    asked_model: bool,
    attempts: u32,
    attempt_open: bool,
    calls: Vec<CallLog>,
    /// Results no request has carried yet, none of which ends the work.
    unread: bool,
    cancelled: bool,
    latch: bool,
    closing: bool,
    max_tokens: bool,
    returned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallLog {
    id: CallId,
    mode: CallMode,
    runs: u32,
    running: bool,
    result: bool,
    concludes: bool,
}

impl Monitor {
    pub(crate) fn assert_closed(&self) {
        assert_eq!(self.turn, None, "the turn is closed");
        assert_eq!(self.claimed, [], "no claim is left");
    }

    pub(crate) fn fold(&mut self, fact: &Fact) {
        self.only_closers_after_an_end_is_certain(fact);
        match fact {
            Fact::WriterOpened(_) => {
                self.licence = false;
                if let Some(turn) = &mut self.turn {
                    turn.latch = false;
                    turn.calls.iter_mut().for_each(|call| call.running = false);
                }
            }
            Fact::InboxAdded(added) => {
                let entry = (added.message.id.clone(), added.wake, false);
                match added.replaces.as_ref().and_then(|old| self.pending.iter().position(|p| p.0 == *old)) {
                    Some(at) => self.pending[at] = entry,
                    None => self.pending.push(entry),
                }
                if added.wake {
                    self.wake();
                }
            }
            Fact::InboxRemoved(removed) => self.pending.retain(|p| !removed.msgs.contains(&p.0)),
            Fact::InboxReleased(released) => {
                let named = |p: &&mut (MsgId, bool, bool)| released.msgs.contains(&p.0);
                self.pending.iter_mut().filter(named).for_each(|p| p.2 = false);
                self.wake();
            }
            Fact::InboxClaimed(claimed) => {
                assert_eq!(self.claimed, [], "a claim is settled before the next one");
                for id in &claimed.msgs {
                    let at = self.pending.iter().position(|p| p.0 == *id).expect("claimed was pending");
                    let (id, wake, held) = self.pending.remove(at);
                    assert!(!held, "a held message is passed over");
                    self.claimed.push((id, wake));
                }
                let turn = self.turn.as_mut().expect("a claim belongs to a turn");
                assert_eq!(turn.step, None, "a claim lies between steps");
                turn.returned = false;
            }
            Fact::InboxReturned(returned) => {
                for id in &returned.msgs {
                    let at = self.claimed.iter().position(|p| p.0 == *id).expect("returned was claimed");
                    let (id, wake) = self.claimed.remove(at);
                    self.pending.insert(0, (id, wake, returned.held));
                }
                self.turn.as_mut().expect("a turn returns").returned = true;
            }
            Fact::TurnStart(start) => {
                assert_eq!(self.turn, None, "turns do not nest");
                assert!(self.licence, "a turn starts on a wake");
                assert!(self.pending.iter().any(|p| p.1 && !p.2), "a turn starts for a waking message");
                self.turns += 1;
                assert_eq!(start.turn, self.turns);
                self.turn = Some(TurnLog::default());
            }
            Fact::TurnCancel(_) => {
                let turn = self.open();
                assert!(!turn.cancelled, "the first cancel wins");
                turn.cancelled = true;
            }
            Fact::TurnEnd(end) => self.end(&end.reason),
            Fact::StepStart(start) => {
                let turn = self.open();
                assert_eq!((turn.step, start.step), (None, turn.steps + 1), "steps do not nest");
                turn.steps += 1;
                turn.step = Some(start.admits);
                turn.attempts = 0;
                turn.calls.clear();
                if start.admits == 0 {
                    self.claimed.clear();
                }
            }
            Fact::StepEnd(end) => {
                let turn = self.open();
                assert_eq!(turn.steps, end.step);
                assert!(turn.step.take().is_some(), "a step ends once");
                assert!(!turn.attempt_open, "a step ends after its attempts");
                assert!(turn.calls.iter().all(|call| call.result), "every call has its result");
                turn.unread = !turn.calls.is_empty() && !turn.calls.iter().any(|call| call.concludes);
            }
            Fact::UserMessage(_) => {
                let left = self.open().step.as_mut().expect("a message enters an open step");
                *left = left.checked_sub(1).expect("no more than were announced");
                if *left == 0 {
                    self.claimed.clear();
                }
            }
            Fact::RequestHeader(_) | Fact::RequestContext(_) => {
                assert!(!self.open().attempt_open);
            }
            Fact::RequestAttempt(attempt) => {
                let turn = self.open();
                assert_eq!(turn.step, Some(0), "a request needs a step that was wholly admitted");
                assert!(!turn.attempt_open && turn.calls.is_empty());
                assert_eq!((attempt.step, attempt.attempt), (turn.steps, turn.attempts + 1));
                turn.attempts += 1;
                turn.attempt_open = true;
                turn.asked_model = true;
                turn.unread = false;
            }
            Fact::AssistantChunk(chunk) => {
                let turn = self.open();
                assert!(turn.attempt_open && chunk.attempt == turn.attempts);
            }
            Fact::RequestFailed(failed) => {
                let turn = self.open();
                assert!(std::mem::take(&mut turn.attempt_open), "an attempt is closed once");
                assert_eq!(failed.attempt, turn.attempts);
                turn.closing |= failed.next == Next::End;
            }
            Fact::AssistantMessage(answer) => {
                let turn = self.open();
                assert!(std::mem::take(&mut turn.attempt_open), "an attempt is closed once");
                assert_eq!(answer.attempt, turn.attempts);
                turn.closing |= answer.interrupted;
                turn.max_tokens |= answer.finish.kind == terret_core::chunk::FinishKind::MaxTokens;
                let call = |call: &terret_core::fact::CallRef| CallLog {
                    id: call.call,
                    mode: call.mode,
                    runs: 0,
                    running: false,
                    result: false,
                    concludes: false,
                };
                turn.calls = answer.calls.iter().map(call).collect();
            }
            Fact::RequestRetry(retry) => {
                let turn = self.open();
                assert!(!turn.attempt_open && retry.attempt == turn.attempts);
            }
            Fact::ToolCall(started) => {
                let calls = &mut self.open().calls;
                let at = calls.iter().position(|call| call.id == started.call).expect("a call of the step");
                let beside = calls.iter().any(|call| {
                    call.running
                        && (calls[at].mode == CallMode::Exclusive || call.mode == CallMode::Exclusive)
                });
                assert!(!beside, "an exclusive call runs alone");
                let call = &mut calls[at];
                assert!(!call.running && !call.result);
                assert_eq!(started.run, call.runs + 1);
                (call.runs, call.running) = (started.run, true);
            }
            Fact::ToolResult(result) => {
                let calls = &mut self.open().calls;
                let call = calls.iter_mut().find(|call| call.id == result.call).expect("a call of the step");
                assert!(!std::mem::replace(&mut call.result, true), "one result a call");
                let ran = call.runs > 0;
                assert!(
                    !(ran && matches!(result.outcome, Outcome::NotStarted | Outcome::Denied)),
                    "it did start"
                );
                assert!(ran || result.outcome != Outcome::Ok, "it never started");
                call.running = false;
                call.concludes = result.concludes && result.outcome == Outcome::Ok;
            }
            Fact::WriterIdle(_) => self.assert_closed(),
            Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
    }

    fn open(&mut self) -> &mut TurnLog {
        self.turn.as_mut().expect("inside a turn")
    }

    fn wake(&mut self) {
        match &mut self.turn {
            Some(turn) if turn.cancelled => turn.latch = true,
            Some(_) | None => self.licence = true,
        }
    }

    fn end(&mut self, reason: &EndReason) {
        let turn = self.turn.take().expect("a turn ends once");
        assert_eq!(turn.step, None, "a turn ends after its steps");
        assert!(!turn.calls.iter().any(|call| !call.result));
        let claim_is_back = self.claimed.is_empty();
        let goes_on = match reason {
            EndReason::Completed | EndReason::MaxTokens => {
                assert!(!turn.unread, "a turn that is done has read its results");
                assert!(!turn.cancelled && !turn.closing);
                assert_eq!(
                    *reason == EndReason::MaxTokens,
                    turn.max_tokens,
                    "the output limit is remembered"
                );
                true
            }
            EndReason::Blocked { .. } => {
                assert!(!turn.asked_model && !turn.cancelled && !turn.closing);
                !turn.returned
            }
            EndReason::Aborted { cause } => {
                let by_hook = matches!(cause, terret_core::fact::Cause::Hook { .. });
                assert!(turn.cancelled || (by_hook && turn.steps > 0));
                assert!(claim_is_back || !turn.cancelled);
                false
            }
            EndReason::Error { .. } | EndReason::Interrupted => {
                assert!(claim_is_back, "a claim goes back");
                false
            }
        };
        self.claimed.clear();
        if !goes_on {
            self.licence = turn.latch;
        }
    }

    fn only_closers_after_an_end_is_certain(&self, fact: &Fact) {
        let Some(turn) = &self.turn else { return };
        if turn.cancelled || turn.closing {
            let allowed = match fact {
                Fact::WriterOpened(_)
                | Fact::InboxAdded(_)
                | Fact::InboxRemoved(_)
                | Fact::InboxReturned(_)
                | Fact::InboxReleased(_)
                | Fact::ToolResult(_)
                | Fact::StepEnd(_)
                | Fact::TurnEnd(_) => true,
                Fact::RequestFailed(failed) => failed.next == Next::End,
                Fact::AssistantMessage(answer) => answer.interrupted,
                Fact::WriterIdle(_)
                | Fact::InboxClaimed(_)
                | Fact::TurnStart(_)
                | Fact::TurnCancel(_)
                | Fact::StepStart(_)
                | Fact::UserMessage(_)
                | Fact::RequestHeader(_)
                | Fact::RequestContext(_)
                | Fact::RequestAttempt(_)
                | Fact::RequestRetry(_)
                | Fact::AssistantChunk(_)
                | Fact::ToolCall(_)
                | Fact::ApprovalAsked(_)
                | Fact::ApprovalDecided(_)
                | Fact::SurfaceReplaced(_)
                | Fact::SeamChanged(_)
                | Fact::Plugin(_) => false,
            };
            assert!(allowed, "only closers may follow: {fact:?}");
        }
    }
}
