//! The loop: what one thing that happened outside implies, and what the outside owes next.
//!
//! The table this implements is `docs/reference/loop.md`. Facts of one [`Machine::handle`] belong together:
//! they are written by one write, in this order.

mod answers;
mod closers;
mod mail;
mod recovery;

use crate::decided::{Decided, Fill};
use crate::effect::{Effect, Question};
use crate::fact::{
    CallMode, EndReason, Fact, InboxClaimed, StepEnd, ToolResult, TurnEnd, TurnStart, WriterIdle,
};
use crate::id::CallId;
use crate::input::{Input, Settled};
use crate::limits::MAX_PARALLEL_CALLS;
use crate::state::{CallState, CallStatus, Stage, State, Turn, Verdict};

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It was taken in.
    Yes,
    /// It answers a question that is no longer asked: nothing changed.
    Late,
    /// It may not be recorded now: nothing changed.
    Refused,
}

/// The loop of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Machine {
    state: State,
    suspended: bool,
    /// The disk was full: no turn starts until somebody posts again.
    full: bool,
    /// The driver is being put away: no turn starts.
    resting: bool,
}

impl Machine {
    /// A machine over the fold of a log. Hand it [`Input::Opened`] before anything else.
    pub fn new(state: State) -> Self {
        Machine { state, suspended: false, full: false, resting: false }
    }

    /// The fold so far, decided facts included.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether an open turn of a dead writer waits for a recovery input.
    pub fn suspended(&self) -> bool {
        self.suspended
    }

    /// Takes one input in; appends the facts it implies, already folded, to `out`.
    pub fn handle(&mut self, input: Input, out: &mut Vec<Decided>) -> Handled {
        let handled = match input {
            Input::Send(send) => {
                self.full &= !send.wake;
                self.send(send, out)
            }
            Input::Remove { msgs, why } => self.remove(msgs, why, out),
            Input::Release { msgs } => self.release(msgs, out),
            Input::Cancel { cause } => self.cancel(cause, out),
            Input::Record(record) => self.record(record, out),
            Input::Opened(opened) => {
                self.put(Fact::WriterOpened(opened), out);
                self.suspended = self.state.turn().is_some();
                Handled::Yes
            }
            Input::Recover(recovery) => self.recover(recovery, out),
            Input::StoreFull { failure, reported } => self.store_full(failure, &reported, out),
            Input::Idle => {
                self.put(Fact::WriterIdle(WriterIdle {}), out);
                Handled::Yes
            }
            Input::Rest => {
                self.resting = true;
                Handled::Yes
            }
            Input::Answer(question, answer) => self.answer(question, answer, out),
        };
        self.run_on(out);
        handled
    }

    /// What the outside owes now.
    pub fn effects(&self, out: &mut Vec<Effect>) {
        let Some(t) = self.state.turn() else { return };
        self.questions(|question| out.push(effect(t, question)));
    }

    /// Whether this question is asked now.
    pub fn asks(&self, question: Question) -> bool {
        let mut asked = false;
        self.questions(|q| asked |= q == question);
        asked
    }

    /// What is asked now.
    fn questions(&self, mut ask: impl FnMut(Question)) {
        let Some(t) = self.state.turn().filter(|_| !self.suspended) else {
            return;
        };
        let (turn, step) = (t.number(), t.step());
        for call in t.calls().iter().filter(|call| call.status == CallStatus::Running) {
            ask(Question::Run(call.id, call.runs));
        }
        let cancelled = t.cancelled().is_some();
        if cancelled {
            return;
        }
        match *t.stage() {
            Stage::PreStep => ask(Question::PreStep(turn, step.saturating_add(1))),
            Stage::Preparing { attempt, .. } => ask(Question::Prepare(turn, step, attempt)),
            Stage::Streaming { attempt, .. } => ask(Question::Stream(turn, step, attempt)),
            Stage::Recovering { attempt } => ask(Question::Recover(turn, step, attempt)),
            Stage::Tools(ref calls) => {
                if let Some((call, run)) = next_admission(calls) {
                    ask(Question::Admit(call, run));
                }
            }
            Stage::Stopping => ask(Question::Stopping(turn, step)),
            Stage::Claiming | Stage::Entering { .. } | Stage::Emptied | Stage::StepDone | Stage::Closing => {}
        }
    }

    /// Decides and folds.
    fn put(&mut self, decided: impl Into<Decided>, out: &mut Vec<Decided>) {
        let decided = decided.into();
        self.state.apply(&decided.fact);
        out.push(decided);
    }

    /// What follows without anybody being asked.
    fn run_on(&mut self, out: &mut Vec<Decided>) {
        while !self.suspended {
            let Some(t) = self.state.turn() else {
                if self.full || self.resting || !(self.state.armed() && self.state.inbox().wakes()) {
                    return;
                }
                self.put(Fact::TurnStart(TurnStart { turn: self.state.last_turn().saturating_add(1) }), out);
                continue;
            };
            let (turn, step) = (t.number(), t.step());
            if t.cancelled().is_some() {
                if t.calls().iter().any(|call| call.status == CallStatus::Running) {
                    return;
                }
                self.close_cancelled(out);
                continue;
            }
            match t.stage() {
                Stage::Claiming => self.claim(turn, !t.entered(), out),
                Stage::StepDone | Stage::Emptied => self.put(Fact::StepEnd(StepEnd { turn, step }), out),
                Stage::PreStep
                | Stage::Entering { .. }
                | Stage::Preparing { .. }
                | Stage::Streaming { .. }
                | Stage::Recovering { .. }
                | Stage::Tools(_)
                | Stage::Stopping
                | Stage::Closing => return,
            }
        }
    }

    fn claim(&mut self, turn: u32, first_step: bool, out: &mut Vec<Decided>) {
        let msgs = self.state.inbox().claimable(first_step);
        self.put(Fact::InboxClaimed(InboxClaimed { turn, msgs }), out);
    }

    fn end_turn(&mut self, turn: u32, reason: EndReason, out: &mut Vec<Decided>) {
        self.put(Fact::TurnEnd(TurnEnd { turn, reason }), out);
        self.suspended = false;
    }

    fn end_step(&mut self, turn: u32, step: u32, out: &mut Vec<Decided>) {
        self.put(Fact::StepEnd(StepEnd { turn, step }), out);
    }

    fn settle(&mut self, call: CallId, settled: Settled, out: &mut Vec<Decided>) {
        let Settled { outcome, content, data, error, concludes } = settled;
        let (turn, step) = (call.turn, call.step);
        let result = ToolResult { turn, step, call, outcome, content, data, error, concludes };
        self.put(Fact::ToolResult(result), out);
    }
}

/// A question with what may change while it is open.
fn effect(t: &Turn, question: Question) -> Effect {
    match question {
        Question::PreStep(turn, step) => {
            Effect::PreStep { turn, step, batch: t.batch().iter().map(|p| p.id.clone()).collect() }
        }
        Question::Prepare(turn, step, attempt) => {
            let delay_ms = if let Stage::Preparing { delay_ms, .. } = t.stage() { *delay_ms } else { 0 };
            Effect::Prepare { turn, step, attempt, delay_ms }
        }
        Question::Stream(turn, step, attempt) => Effect::Stream { turn, step, attempt },
        Question::Recover(turn, step, attempt) => Effect::Recover { turn, step, attempt },
        Question::Admit(call, run) => Effect::Admit { call, run },
        Question::Run(call, run) => Effect::Run { call, run, stop: t.cancelled().is_some() },
        Question::Stopping(turn, step) => Effect::Stopping { turn, step },
    }
}

/// The next call to be judged: the first one not started, if it may run beside what runs.
fn next_admission(calls: &[CallState]) -> Option<(CallId, u32)> {
    let running = || calls.iter().filter(|call| call.status == CallStatus::Running);
    let next = calls.iter().find(|call| matches!(call.status, CallStatus::Waiting | CallStatus::Orphaned))?;
    let room = match next.mode {
        CallMode::Exclusive => running().count() == 0,
        CallMode::Parallel => {
            running().count() < MAX_PARALLEL_CALLS && running().all(|call| call.mode == CallMode::Parallel)
        }
    };
    room.then_some((next.id, next.runs.saturating_add(1)))
}

/// The reason a verdict gives a turn.
fn reason_of(verdict: Verdict) -> EndReason {
    match verdict {
        Verdict::Completed => EndReason::Completed,
        Verdict::MaxTokens => EndReason::MaxTokens,
    }
}

/// Whether a turn only closes from here on.
fn closing(turn: &Turn) -> bool {
    turn.cancelled().is_some() || turn.failed() || *turn.stage() == Stage::Closing
}
