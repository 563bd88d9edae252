//! The open turn: where it stands, and how each fact moves it.

use super::{CallState, CallStatus, CauseKind, Pending, Stage, Verdict};
use crate::chunk::{Chunk, FinishKind, code};
use crate::fact::{AssistantMessage, Next, Outcome, RequestFailed, ToolCall, ToolResult};
use crate::id::{CallId, MsgId};
use crate::message::Block;

/// An open turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    number: u32,
    step: u32,
    step_open: bool,
    entered: bool,
    stage: Stage,
    verdict: Option<Verdict>,
    sticky_max_tokens: bool,
    batch: Vec<Pending>,
    gave_back: bool,
    cancel: Option<CauseKind>,
    latch: bool,
    failed: bool,
}

impl Turn {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Number of the last step that started; 0 before the first.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// Whether that step is open.
    pub fn step_open(&self) -> bool {
        self.step_open
    }

    /// Whether a step of it was wholly admitted. One that was torn before that never reached a model.
    pub fn entered(&self) -> bool {
        self.entered
    }

    /// Where it stands.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// How it would end; the sticky reason included.
    pub fn verdict(&self) -> Option<Verdict> {
        match self.verdict {
            Some(Verdict::Completed) if self.sticky_max_tokens => Some(Verdict::MaxTokens),
            verdict => verdict,
        }
    }

    /// What was claimed and is not wholly admitted.
    pub fn batch(&self) -> &[Pending] {
        &self.batch
    }

    /// Who cancelled it.
    pub fn cancelled(&self) -> Option<CauseKind> {
        self.cancel
    }

    /// Whether a failure already decided its end.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// The calls of the open step.
    pub fn calls(&self) -> &[CallState] {
        match &self.stage {
            Stage::Tools(calls) => calls,
            Stage::Claiming
            | Stage::PreStep
            | Stage::Entering { .. }
            | Stage::Emptied
            | Stage::Preparing { .. }
            | Stage::Streaming { .. }
            | Stage::Recovering { .. }
            | Stage::StepDone
            | Stage::Stopping
            | Stage::Closing => &[],
        }
    }

    pub(super) fn new(number: u32) -> Self {
        Turn {
            number,
            step: 0,
            step_open: false,
            entered: false,
            stage: Stage::Claiming,
            verdict: None,
            sticky_max_tokens: false,
            batch: Vec::new(),
            gave_back: false,
            cancel: None,
            latch: false,
            failed: false,
        }
    }

    pub(super) fn latch(&mut self) {
        self.latch = true;
    }

    pub(super) fn latched(&self) -> bool {
        self.latch
    }

    pub(super) fn gave_back(&self) -> bool {
        self.gave_back
    }

    pub(super) fn cancel(&mut self, cause: CauseKind) {
        self.cancel.get_or_insert(cause);
    }

    pub(super) fn claim(&mut self, batch: Vec<Pending>) {
        self.batch = batch;
        self.gave_back = false;
        self.stage = Stage::PreStep;
    }

    pub(super) fn give_back(&mut self, ids: &[MsgId]) -> Vec<Pending> {
        let (given, kept) = std::mem::take(&mut self.batch).into_iter().partition(|p| ids.contains(&p.id));
        self.batch = kept;
        self.gave_back = true;
        // Closers may give back in two groups: what is left between them is still claimed.
        if self.batch.is_empty() {
            self.stage = if self.step_open { Stage::Emptied } else { Stage::Claiming };
        }
        given
    }

    pub(super) fn start_step(&mut self, step: u32, admits: u32) {
        self.step = step;
        self.step_open = true;
        self.enter(admits);
    }

    pub(super) fn admit_one(&mut self) {
        if let Stage::Entering { left } = self.stage {
            self.enter(left.saturating_sub(1));
        }
    }

    fn enter(&mut self, left: u32) {
        if left == 0 {
            self.batch.clear();
            self.entered = true;
            self.verdict = None;
            self.stage = Stage::Preparing { attempt: 1, delay_ms: 0 };
        } else {
            self.stage = Stage::Entering { left };
        }
    }

    pub(super) fn attempt(&mut self, attempt: u32) {
        self.stage = Stage::Streaming { attempt, visible: false };
    }

    pub(super) fn chunk(&mut self, chunk: &Chunk) {
        if let Stage::Streaming { visible, .. } = &mut self.stage
            && !*visible
        {
            *visible = match chunk {
                Chunk::TextDelta { text, .. } | Chunk::RefusalDelta { text, .. } => !text.trim().is_empty(),
                Chunk::BlockEnd {
                    block: Some(Block::Text { text, .. } | Block::Refusal { text, .. }),
                    ..
                } => !text.trim().is_empty(),
                Chunk::ResponseStart { .. }
                | Chunk::BlockStart { .. }
                | Chunk::ReasoningDelta { .. }
                | Chunk::ToolCallDelta { .. }
                | Chunk::ProviderDelta { .. }
                | Chunk::BlockEnd { .. }
                | Chunk::Usage { .. }
                | Chunk::Warning { .. }
                | Chunk::Finish { .. } => false,
            };
        }
    }

    pub(super) fn answer(&mut self, answer: &AssistantMessage) {
        if answer.interrupted {
            self.stage = Stage::Closing;
            return;
        }
        if !answer.calls.is_empty() {
            let waiting = |call: &crate::fact::CallRef| CallState {
                id: call.call,
                mode: call.mode,
                effect: None,
                runs: 0,
                status: CallStatus::Waiting,
            };
            self.stage = Stage::Tools(answer.calls.iter().map(waiting).collect());
            return;
        }
        self.verdict = match answer.finish.kind {
            FinishKind::MaxTokens => Some(Verdict::MaxTokens),
            FinishKind::Pause => None,
            FinishKind::Stop
            | FinishKind::ToolCalls
            | FinishKind::ContextWindow
            | FinishKind::Refusal
            | FinishKind::ContentFilter
            | FinishKind::Other => Some(Verdict::Completed),
        };
        self.sticky_max_tokens |= self.verdict == Some(Verdict::MaxTokens);
        self.stage = Stage::StepDone;
    }

    pub(super) fn fail(&mut self, failed: &RequestFailed) {
        let attempt = failed.attempt;
        self.stage = match failed.next {
            Next::Recover => Stage::Recovering { attempt },
            Next::Retry => Stage::Preparing { attempt: attempt.saturating_add(1), delay_ms: 0 },
            Next::End => {
                // The closers of a crash write this one; the turn they end is interrupted, not failed.
                self.failed |= failed.failure.code != code::INTERRUPTED;
                Stage::Closing
            }
        };
    }

    pub(super) fn retry(&mut self, attempt: u32, delay_ms: u64) {
        self.stage = Stage::Preparing { attempt: attempt.saturating_add(1), delay_ms };
    }

    pub(super) fn start_call(&mut self, started: &ToolCall) {
        if let Some(call) = self.call(started.call) {
            call.effect = Some(started.effect);
            call.runs = started.run;
            call.status = CallStatus::Running;
        }
    }

    pub(super) fn finish_call(&mut self, result: &ToolResult) {
        if let Some(call) = self.call(result.call) {
            call.status = CallStatus::Done { concludes: result.concludes && result.outcome == Outcome::Ok };
        }
        let done = |call: &CallState| matches!(call.status, CallStatus::Done { .. });
        let concludes = |call: &CallState| call.status == CallStatus::Done { concludes: true };
        if let Stage::Tools(calls) = &self.stage
            && calls.iter().all(done)
        {
            self.verdict = calls.iter().any(concludes).then_some(Verdict::Completed);
            self.stage = Stage::StepDone;
        }
    }

    fn call(&mut self, id: CallId) -> Option<&mut CallState> {
        match &mut self.stage {
            Stage::Tools(calls) => calls.iter_mut().find(|call| call.id == id),
            Stage::Claiming
            | Stage::PreStep
            | Stage::Entering { .. }
            | Stage::Emptied
            | Stage::Preparing { .. }
            | Stage::Streaming { .. }
            | Stage::Recovering { .. }
            | Stage::StepDone
            | Stage::Stopping
            | Stage::Closing => None,
        }
    }

    /// `more`: whether next-step input waits.
    pub(super) fn end_step(&mut self, more: bool) {
        self.step_open = false;
        self.stage = match self.stage {
            Stage::Emptied => Stage::Claiming,
            Stage::StepDone if more || self.verdict.is_none() => Stage::Claiming,
            Stage::StepDone => Stage::Stopping,
            Stage::Claiming
            | Stage::PreStep
            | Stage::Entering { .. }
            | Stage::Preparing { .. }
            | Stage::Streaming { .. }
            | Stage::Recovering { .. }
            | Stage::Tools(_)
            | Stage::Stopping
            | Stage::Closing => Stage::Closing,
        };
    }

    /// The writer that ran the calls is gone, and nothing starts on what was asked of it.
    pub(super) fn orphan(&mut self) {
        self.latch = false;
        if let Stage::Tools(calls) = &mut self.stage {
            for call in calls.iter_mut().filter(|call| call.status == CallStatus::Running) {
                call.status = CallStatus::Orphaned;
            }
        }
    }
}
