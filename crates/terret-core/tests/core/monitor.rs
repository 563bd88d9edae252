//! The rules of the log, checked on the log alone: a fold with a memory of its own that panics where a rule
//! is broken. It never looks at the machine's state.

// From here, whoever includes this file: the simulation does too.
#[path = "monitor/closing.rs"]
mod closing;

use terret_core::chunk::{FinishKind, code};
use terret_core::fact::{
    CallMode, CallRef, Cause, EffectClass, EndReason, Fact, HeaderReason, InboxReturned, Lane, Next, Outcome,
    ToolCall, ToolResult,
};
use terret_core::id::{CallId, MsgId};

use crate::rules::Rule;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Monitor {
    /// Accepted and not claimed, in order.
    pending: Vec<Entry>,
    /// Claimed, with the step that takes it not wholly admitted.
    claimed: Vec<Entry>,
    /// A wake, a release or a wake after a cancel: what a turn starts on.
    licence: bool,
    turn: Option<TurnLog>,
    turns: u32,
    header: bool,
    /// This writer wrote a header.
    own_header: bool,
    /// The tools themselves are watched: a live driver knows of a call that was cancelled between its fact and its
    /// start that it never began.
    pub(crate) tools_are_watched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    id: MsgId,
    lane: Lane,
    wake: bool,
    held: bool,
    returned: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct TurnLog {
    steps: u32,
    /// Open step: how many messages are still to come.
    step: Option<u32>,
    /// A step got all its messages.
    entered: bool,
    asked_model: bool,
    attempts: u32,
    attempt_open: bool,
    calls: Vec<CallLog>,
    /// Results no request has carried yet, none of which ends the work.
    unread: bool,
    /// The last step's answer leaves nothing to do.
    done: bool,
    cancelled: bool,
    by_user: bool,
    latch: bool,
    closing: bool,
    failed: bool,
    max_tokens: bool,
    returned: bool,
    /// A claim since the last step.
    claimed: bool,
    /// Given back free though it should be held, if the turn ends on it.
    too_free: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallLog {
    id: CallId,
    mode: CallMode,
    effect: Option<EffectClass>,
    runs: u32,
    running: bool,
    result: bool,
    concludes: bool,
    asked: bool,
    decided: bool,
}

impl Monitor {
    pub(crate) fn assert_closed(&self) {
        Rule::Turns.demand(self.turn.is_none(), &self.turn);
        Rule::Back.demand(self.claimed.is_empty(), &self.claimed);
    }

    /// Whether a turn should be open by now.
    pub(crate) fn waits(&self) -> bool {
        self.licence && self.turn.is_none() && self.pending.iter().any(|p| p.wake && !p.held)
    }

    /// Whether consent for this call was asked, and whether it was given or denied.
    pub(crate) fn consent(&self, id: CallId) -> (bool, bool) {
        let calls = self.turn.iter().flat_map(|turn| &turn.calls);
        calls.filter(|call| call.id == id).map(|call| (call.asked, call.decided)).next().unwrap_or_default()
    }

    pub(crate) fn fold(&mut self, fact: &Fact) {
        self.only_closers_after_an_end_is_certain(fact);
        match fact {
            Fact::WriterOpened(_) => {
                self.licence = false;
                self.own_header = false;
                if let Some(turn) = &mut self.turn {
                    // It may have been given back for a resumption that was torn, which holds nothing.
                    turn.too_free = false;
                    turn.latch = false;
                    for call in &mut turn.calls {
                        call.running = false;
                        // Who never started is judged again, and somebody else is asked.
                        if call.runs == 0 {
                            (call.asked, call.decided) = (false, false);
                        }
                    }
                }
            }
            Fact::InboxAdded(added) => {
                let (id, lane, wake) = (added.message.id.clone(), added.lane, added.wake);
                let entry = Entry { id, lane, wake, held: false, returned: false };
                match added.replaces.as_ref().and_then(|old| self.pending.iter().position(|p| p.id == *old)) {
                    Some(at) => self.pending[at] = entry,
                    None => self.pending.push(entry),
                }
                if added.wake {
                    self.wake();
                }
            }
            Fact::InboxRemoved(removed) => self.pending.retain(|p| !removed.msgs.contains(&p.id)),
            Fact::InboxReleased(released) => {
                let named = |p: &&mut Entry| released.msgs.contains(&p.id);
                self.pending.iter_mut().filter(named).for_each(|p| p.held = false);
                self.wake();
            }
            Fact::InboxClaimed(claimed) => self.claim(&claimed.msgs, fact),
            Fact::InboxReturned(returned) => self.give_back(returned, fact),
            Fact::TurnStart(start) => {
                Rule::Turns.demand(self.turn.is_none() && start.turn == self.turns + 1, fact);
                let wakes = self.pending.iter().any(|p| p.wake && !p.held);
                Rule::Licence.demand(self.licence && wakes, fact);
                self.turns += 1;
                self.turn = Some(TurnLog::default());
            }
            Fact::TurnCancel(cancel) => {
                let turn = self.open(fact);
                Rule::Cancelled.demand(!turn.cancelled, fact);
                turn.cancelled = true;
                turn.by_user = matches!(cancel.cause, Cause::User { .. });
            }
            Fact::TurnEnd(end) => {
                Rule::Turns.demand(end.turn == self.turns, fact);
                self.end(&end.reason, fact);
            }
            Fact::StepStart(start) => {
                let turn = self.open(fact);
                Rule::Steps.demand(turn.step.is_none() && start.step == turn.steps + 1, fact);
                turn.steps += 1;
                turn.step = Some(start.admits);
                turn.attempts = 0;
                turn.calls.clear();
                if start.admits == 0 {
                    self.admitted(fact);
                }
            }
            Fact::StepEnd(end) => {
                let turn = self.open(fact);
                Rule::Steps.demand(turn.step.take().is_some() && turn.steps == end.step, fact);
                Rule::Attempts.demand(!turn.attempt_open, fact);
                Rule::Results.demand(turn.calls.iter().all(|call| call.result), fact);
                if !turn.calls.is_empty() {
                    turn.unread = !turn.calls.iter().any(|call| call.concludes);
                    turn.done = !turn.unread;
                }
            }
            Fact::UserMessage(_) => {
                let turn = self.open(fact);
                let left = turn.step.and_then(|left| left.checked_sub(1));
                Rule::Admits.demand(left.is_some(), fact);
                turn.step = left;
                if left == Some(0) {
                    self.admitted(fact);
                }
            }
            Fact::RequestHeader(header) => {
                Rule::Attempts.demand(!self.open(fact).attempt_open, fact);
                let expected = match (self.header, self.own_header) {
                    (false, _) => HeaderReason::Initial,
                    (true, false) => HeaderReason::Resume,
                    (true, true) => HeaderReason::Change,
                };
                Rule::Header.demand(header.reason == expected, fact);
                (self.header, self.own_header) = (true, true);
            }
            Fact::RequestContext(_) => Rule::Attempts.demand(!self.open(fact).attempt_open, fact),
            Fact::RequestAttempt(attempt) => {
                Rule::Header.demand(self.own_header, fact);
                let turn = self.open(fact);
                Rule::Admits.demand(turn.step == Some(0) && attempt.step == turn.steps, fact);
                Rule::Results.demand(turn.calls.is_empty(), fact);
                let next = !turn.attempt_open && attempt.attempt == turn.attempts + 1;
                Rule::Attempts.demand(next, fact);
                turn.attempts += 1;
                turn.attempt_open = true;
                turn.asked_model = true;
                turn.unread = false;
                turn.done = false;
            }
            Fact::AssistantChunk(chunk) => {
                let turn = self.open(fact);
                Rule::Attempts.demand(turn.attempt_open && chunk.attempt == turn.attempts, fact);
            }
            Fact::RequestFailed(failed) => {
                let turn = self.open(fact);
                let open = std::mem::take(&mut turn.attempt_open);
                Rule::Attempts.demand(open && failed.attempt == turn.attempts, fact);
                turn.closing |= failed.next == Next::End;
                turn.failed |= failed.next == Next::End && failed.failure.code != code::INTERRUPTED;
            }
            Fact::AssistantMessage(answer) => {
                let turn = self.open(fact);
                let open = std::mem::take(&mut turn.attempt_open);
                Rule::Attempts.demand(open && answer.attempt == turn.attempts, fact);
                turn.closing |= answer.interrupted;
                turn.max_tokens |= answer.finish.kind == FinishKind::MaxTokens;
                turn.calls = answer.calls.iter().map(CallLog::new).collect();
                let pause = answer.finish.kind == FinishKind::Pause;
                turn.done = turn.calls.is_empty() && !pause && !answer.interrupted;
            }
            Fact::RequestRetry(retry) => {
                let turn = self.open(fact);
                Rule::Attempts.demand(!turn.attempt_open && retry.attempt == turn.attempts, fact);
            }
            Fact::ToolCall(started) => self.start(started, fact),
            Fact::ToolResult(result) => self.settle(result, fact),
            Fact::WriterIdle(_) => self.assert_closed(),
            Fact::ApprovalAsked(asked) => {
                let call = self.call(asked.call, fact);
                Rule::Consent.demand(call.runs == 0 && !call.result && !call.asked, fact);
                call.asked = true;
            }
            Fact::ApprovalDecided(decided) => {
                let call = self.call(decided.call, fact);
                Rule::Consent.demand(call.asked && !call.decided && !call.result, fact);
                call.decided = true;
            }
            Fact::SurfaceReplaced(_) | Fact::SeamChanged(_) | Fact::Plugin(_) => {}
        }
    }

    fn open(&mut self, fact: &Fact) -> &mut TurnLog {
        Rule::Turns.demand(self.turn.is_some(), fact);
        self.turn.as_mut().expect("demanded")
    }

    fn call(&mut self, id: CallId, fact: &Fact) -> &mut CallLog {
        let call = self.open(fact).calls.iter_mut().find(|call| call.id == id);
        Rule::Results.demand(call.is_some(), fact);
        call.expect("demanded")
    }

    fn wake(&mut self) {
        match &mut self.turn {
            Some(turn) if turn.cancelled => turn.latch = true,
            Some(_) | None => self.licence = true,
        }
    }

    /// The step has all its messages: what was claimed is read.
    fn admitted(&mut self, fact: &Fact) {
        self.claimed.clear();
        let turn = self.open(fact);
        (turn.entered, turn.done, turn.claimed) = (true, false, false);
    }

    fn claim(&mut self, msgs: &[MsgId], fact: &Fact) {
        Rule::Back.demand(self.claimed.is_empty(), fact);
        let turn = self.open(fact);
        let first = !turn.entered;
        Rule::Claim.demand(turn.step.is_none(), fact);
        (turn.returned, turn.too_free, turn.claimed) = (false, false, true);
        let of = |lane| self.pending.iter().filter(move |p| p.lane == lane && !p.held).map(|p| &p.id);
        let due = of(Lane::NextStep).chain(of(Lane::NextTurn).take(usize::from(first)));
        Rule::Claim.demand(due.eq(msgs), fact);
        let taken: Vec<Entry> =
            msgs.iter().filter_map(|id| self.pending.iter().find(|p| p.id == *id).cloned()).collect();
        self.pending.retain(|p| !msgs.contains(&p.id));
        self.claimed = taken;
    }

    fn give_back(&mut self, returned: &InboxReturned, fact: &Fact) {
        for id in returned.msgs.iter().rev() {
            let at = self.claimed.iter().position(|p| p.id == *id);
            Rule::Back.demand(at.is_some(), fact);
            let entry = self.claimed.remove(at.expect("demanded"));
            let turn = self.open(fact);
            turn.too_free |= !returned.held && (turn.by_user || entry.returned);
            self.pending.insert(0, Entry { held: returned.held, returned: true, ..entry });
        }
        self.open(fact).returned = true;
    }

    fn start(&mut self, started: &ToolCall, fact: &Fact) {
        let calls = &self.open(fact).calls;
        let exclusive = |call: &CallLog| call.mode == CallMode::Exclusive;
        let me = calls.iter().find(|call| call.id == started.call);
        let alone = me.is_some_and(exclusive);
        let beside = calls.iter().any(|call| call.running && (alone || exclusive(call)));
        Rule::Exclusive.demand(!beside, fact);
        let before = calls.iter().take_while(|call| call.id != started.call);
        Rule::Order.demand(before.clone().all(|call| call.running || call.result), fact);
        let call = self.call(started.call, fact);
        Rule::Results.demand(!call.running && !call.result, fact);
        let allowed = match call.effect {
            None | Some(EffectClass::Read | EffectClass::Idempotent | EffectClass::Keyed) => true,
            Some(EffectClass::Unsafe) => false,
        };
        Rule::Again.demand(allowed && started.run == call.runs + 1, fact);
        (call.runs, call.running, call.effect) = (started.run, true, Some(started.effect));
    }

    fn settle(&mut self, result: &ToolResult, fact: &Fact) {
        let watched = self.tools_are_watched;
        let call = self.call(result.call, fact);
        Rule::Results.demand(!std::mem::replace(&mut call.result, true), fact);
        let ran = call.runs > 0;
        let untrue = match result.outcome {
            Outcome::NotStarted => ran && !watched,
            Outcome::Denied => ran,
            Outcome::Ok | Outcome::Unknown => !ran,
            Outcome::Error | Outcome::Aborted | Outcome::Timeout => false,
        };
        Rule::Truth.demand(!untrue, fact);
        call.running = false;
        call.concludes = result.concludes && result.outcome == Outcome::Ok;
    }

    fn end(&mut self, reason: &EndReason, fact: &Fact) {
        let turn = self.open(fact).clone();
        self.turn = None;
        Rule::Steps.demand(turn.step.is_none(), fact);
        // The same without a new writer: a disk that filled up within a resumption.
        let full = matches!(reason, EndReason::Error { failure } if failure.code == code::STORE_FULL);
        Rule::Held.demand(!turn.too_free || full, fact);
        let certain = turn.cancelled || turn.closing;
        let all_back = self.claimed.is_empty();
        let goes_on = match reason {
            EndReason::Completed | EndReason::MaxTokens => {
                Rule::Unread.demand(!turn.unread, fact);
                Rule::Verdict.demand(turn.done || !turn.entered, fact);
                // A claim since the last step: what came after it is the next turn's.
                let waits = self.pending.iter().any(|p| p.lane == Lane::NextStep && !p.held);
                Rule::Steer.demand(turn.claimed || !waits, fact);
                Rule::Closers.demand(!certain, fact);
                Rule::MaxTokens.demand((*reason == EndReason::MaxTokens) == turn.max_tokens, fact);
                true
            }
            EndReason::Blocked { .. } => {
                Rule::Blocked.demand(!turn.asked_model && !certain, fact);
                !turn.returned
            }
            EndReason::Aborted { cause } => {
                let by_hook = matches!(cause, Cause::Hook { .. }) && turn.entered;
                Rule::Cancelled.demand(turn.cancelled || by_hook, fact);
                Rule::Verdict.demand(turn.cancelled || !turn.done, fact);
                Rule::Back.demand(all_back || !turn.cancelled, fact);
                false
            }
            EndReason::Error { .. } => {
                Rule::Back.demand(all_back, fact);
                Rule::Cancelled.demand(!turn.cancelled || full, fact);
                false
            }
            EndReason::Interrupted => {
                Rule::Back.demand(all_back, fact);
                Rule::Cancelled.demand(!turn.cancelled, fact);
                Rule::Failed.demand(!turn.failed, fact);
                false
            }
        };
        self.claimed.clear();
        if !goes_on {
            self.licence = turn.latch;
        }
    }
}

impl CallLog {
    fn new(call: &CallRef) -> Self {
        CallLog {
            id: call.call,
            mode: call.mode,
            effect: None,
            runs: 0,
            running: false,
            result: false,
            concludes: false,
            asked: false,
            decided: false,
        }
    }
}
