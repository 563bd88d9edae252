//! Repeats: a model that asks for the same calls again and again is reminded; if they fail each time, it is
//! stopped in the end. Calls that succeed may be a poll: those are never stopped.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use terret_core::chunk::Failure;
use terret_core::fact::{Cause, Fact, Outcome};
use terret_core::message::{Block, Form, Message, Role, Source};

use super::cancel;
use crate::hook::{Listener, Next, Plugin, PreStep, Seams, Verdict};

/// How many steps with equal calls are too many.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// Equal steps in a row after which the model is told; again after twice as many, and so on.
    pub remind_at: u32,
    /// Equal steps in a row, of which every call failed, after which the turn is stopped.
    pub stop_at: u32,
}

impl Default for Repeat {
    fn default() -> Self {
        Repeat { remind_at: 3, stop_at: 12 }
    }
}

impl Plugin for Repeat {
    fn name(&self) -> &str {
        "repeat"
    }

    fn install(&self, seams: &mut Seams) {
        let row = Arc::new(Mutex::new(Row::default()));
        let seen = row.clone();
        seams.events.add(Arc::new(move |event| {
            let mut row = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Fact::AssistantMessage(answer) = &event.fact {
                row.take(&answer.message.content);
            }
            if matches!(&event.fact, Fact::ToolResult(result) if result.outcome == Outcome::Ok) {
                row.failed = 0;
            }
        }));
        seams.pre_step.add(Arc::new(Watch { limits: *self, row }));
    }
}

/// The calls of the last step, and for how many steps they have been these.
#[derive(Default)]
struct Row {
    calls: Vec<(String, String)>,
    length: u32,
    /// For how many of these steps nothing succeeded, the last one included.
    failed: u32,
}

impl Row {
    fn take(&mut self, content: &[Block]) {
        let call = |block: &Block| match block {
            Block::ToolCall { name, arguments, .. } => Some((name.clone(), arguments.clone())),
            Block::Text { .. }
            | Block::Refusal { .. }
            | Block::Reasoning { .. }
            | Block::ToolResult { .. }
            | Block::Json { .. }
            | Block::Image { .. }
            | Block::File { .. }
            | Block::Provider { .. } => None,
        };
        let calls: Vec<_> = content.iter().filter_map(call).collect();
        let again = calls == self.calls && !calls.is_empty();
        self.length = if again { self.length + 1 } else { 1 };
        // Until one of its calls succeeds.
        self.failed = if again { self.failed + 1 } else { 1 };
        self.calls = calls;
    }
}

struct Watch {
    limits: Repeat,
    row: Arc<Mutex<Row>>,
}

impl Listener<PreStep, Result<Verdict, Failure>> for Watch {
    fn call<'a>(
        &'a self,
        mut question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let (length, failed) = {
            let row = self.row.lock().unwrap_or_else(PoisonError::into_inner);
            (row.length, row.failed)
        };
        if question.step == 1 {
            *self.row.lock().unwrap_or_else(PoisonError::into_inner) = Row::default();
            return next.run(question);
        }
        if failed >= self.limits.stop_at {
            let reason = format!("the same calls failed {failed} times in a row");
            return cancel(&question.agent, Cause::Hook { plugin: "repeat".into(), reason });
        }
        if length.is_multiple_of(self.limits.remind_at) && (length / self.limits.remind_at).is_power_of_two()
        {
            question.messages.push(reminder(question.turn, question.step, length));
        }
        next.run(question)
    }
}

fn reminder(turn: u32, step: u32, length: u32) -> Message {
    let text = format!(
        "You have asked for the same tool calls {length} times in a row, with the same arguments. Their results \
         are above. Read them, then do something else, or say what keeps you from it."
    );
    Message {
        id: format!("repeat-{turn}.{step}").as_str().into(),
        role: Role::User,
        content: vec![Block::text(text)],
        source: Source::Plugin { plugin: "repeat".into(), form: Form::Notice },
    }
}
