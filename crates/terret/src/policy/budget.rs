//! Budgets: a turn that would go over one is cancelled, and its ending names which.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, Usage};
use terret_core::fact::{Cause, Fact, Outcome};
use terret_core::price::Usd;
use tokio::task::AbortHandle;

use super::cancel;
use super::cost::Limit;
use crate::call::{Call, Done};
use crate::hook::{Admission, Listener, Next, Order, Phase, Plugin, PreStep, Seams, Verdict};

/// Limits of one run. Absent: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// Steps a turn may take.
    pub steps: Option<u32>,
    /// Tool calls that may start, from the installation on.
    pub tool_calls: Option<u64>,
    /// Tokens, read and written, from the installation on, as the provider counts them. Failed attempts count.
    pub tokens: Option<u64>,
    /// Money, from the installation on, at the prices the log has. Failed attempts count. No request goes out that
    /// has no price; an answer without its tokens ends the turn.
    pub cost: Option<Usd>,
    /// Wall time, from the installation on.
    pub wall_time: Option<Duration>,
}

impl Budget {
    /// Every budget there is, at limits nobody reaches: to see where they listen.
    pub fn all() -> Self {
        let wall_time = Some(Duration::from_secs(1 << 30));
        let cost = Some(Usd::from_micros(u64::MAX));
        Budget { steps: Some(u32::MAX), tool_calls: Some(u64::MAX), tokens: Some(u64::MAX), cost, wall_time }
    }
}

impl Plugin for Budget {
    fn name(&self) -> &str {
        "budget"
    }

    // A limit must be able to stop what others would do.
    fn order(&self) -> Order {
        Order { phase: Phase::Early, ..Order::default() }
    }

    fn install(&self, seams: &mut Seams) {
        if let Some(limit) = self.steps {
            seams.pre_step.add(Arc::new(Steps { limit }));
        }
        if let Some(limit) = self.tokens {
            let used = Arc::new(AtomicU64::new(0));
            seams.pre_step.add(Arc::new(UsedUp { which: "tokens", limit, at: limit, used: used.clone() }));
            seams.events.add(Arc::new(move |event| {
                used.fetch_add(tokens_of(&event.fact), Ordering::Relaxed);
            }));
        }
        if let Some(limit) = self.cost {
            Limit::install(limit, seams);
        }
        if let Some(limit) = self.tool_calls {
            let used = Arc::new(AtomicU64::new(0));
            // The model may still read what its last call brought; one call more is one too many.
            let at = limit.saturating_add(1);
            seams.pre_step.add(Arc::new(UsedUp { which: "tool-calls", limit, at, used: used.clone() }));
            seams.pre_execute.add(Arc::new(CallsLeft { limit, used }));
        }
        // A limit that no clock can reach is none.
        if let Some(limit) = self.wall_time
            && let Some(deadline) = deadline(limit)
        {
            seams.pre_step.add(Arc::new(WallTime { limit, deadline, armed: OnceLock::new() }));
        }
    }
}

/// When the time is over, with room for a timer to round up.
fn deadline(limit: Duration) -> Option<tokio::time::Instant> {
    let deadline = tokio::time::Instant::now().checked_add(limit)?;
    deadline.checked_add(Duration::from_secs(1)).map(|_| deadline)
}

struct Steps {
    limit: u32,
}

impl Listener<PreStep, Result<Verdict, Failure>> for Steps {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        if question.step > self.limit {
            let cause = Cause::Budget { which: "steps".into(), limit: u64::from(self.limit) };
            return cancel(&question.agent, cause);
        }
        next.run(question)
    }
}

/// Looks, before each step, whether something that is counted elsewhere is used up.
struct UsedUp {
    which: &'static str,
    limit: u64,
    /// How much of it ends the turn.
    at: u64,
    used: Arc<AtomicU64>,
}

impl Listener<PreStep, Result<Verdict, Failure>> for UsedUp {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        match self.used.load(Ordering::Relaxed) >= self.at {
            true => {
                cancel(&question.agent, Cause::Budget { which: self.which.to_owned(), limit: self.limit })
            }
            false => next.run(question),
        }
    }
}

/// Counts calls as they are judged, so that one message cannot ask for more than is left.
struct CallsLeft {
    limit: u64,
    used: Arc<AtomicU64>,
}

impl Listener<Call, Admission> for CallsLeft {
    fn call<'a>(&'a self, call: Call, next: Next<'a, Call, Admission>) -> BoxFuture<'a, Admission> {
        if self.used.fetch_add(1, Ordering::Relaxed) < self.limit {
            return next.run(call);
        }
        let text = format!("The budget of {} tool calls is used up: this call was not started.", self.limit);
        let refused = Done::error(&call.name, "budget", text).with_outcome(Outcome::Denied);
        std::future::ready(Admission::Deny(refused)).boxed()
    }
}

/// Tokens a fact says were used.
fn tokens_of(fact: &Fact) -> u64 {
    let mut usage = None;
    if let Fact::AssistantMessage(answer) = fact {
        usage = answer.usage.as_ref();
    }
    if let Fact::RequestFailed(failed) = fact {
        usage = failed.usage.as_ref();
    }
    usage.map_or(0, Usage::total)
}

struct WallTime {
    limit: Duration,
    deadline: tokio::time::Instant,
    /// The timer, once it runs.
    armed: OnceLock<AbortHandle>,
}

impl Drop for WallTime {
    fn drop(&mut self) {
        // A limit that is no longer installed ends nothing.
        if let Some(timer) = self.armed.get() {
            timer.abort();
        }
    }
}

impl Listener<PreStep, Result<Verdict, Failure>> for WallTime {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let limit = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
        let cause = Cause::Budget { which: "wall-time-ms".into(), limit };
        if tokio::time::Instant::now() >= self.deadline {
            return cancel(&question.agent, cause);
        }
        // The time also runs out in the middle of a stream or a tool.
        let (agent, deadline) = (question.agent.clone(), self.deadline);
        self.armed.get_or_init(|| {
            let timer = tokio::spawn(async move {
                tokio::time::sleep_until(deadline).await;
                // An agent that is gone has nothing left to stop.
                let _ = agent.cancel(cause).await;
            });
            timer.abort_handle()
        });
        next.run(question)
    }
}
