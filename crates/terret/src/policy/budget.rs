//! Budgets: a turn that would go over one is cancelled, and its ending names which.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::Failure;
use terret_core::fact::Cause;

use crate::hook::{Listener, Next, Plugin, PreStep, Seams, Verdict};

/// Limits of one run. Absent: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// Steps a turn may take.
    pub steps: Option<u32>,
    /// Wall time, from the installation on.
    pub wall_time: Option<Duration>,
}

impl Plugin for Budget {
    fn name(&self) -> &str {
        "budget"
    }

    fn install(&self, seams: &mut Seams) {
        if let Some(limit) = self.steps {
            seams.pre_step.add(Arc::new(Steps { limit }));
        }
        // A limit that no clock can reach is none.
        if let Some(limit) = self.wall_time
            && let Some(deadline) = deadline(limit)
        {
            seams.pre_step.add(Arc::new(WallTime { limit, deadline, armed: std::sync::Once::new() }));
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
            return over(&question, cause);
        }
        next.run(question)
    }
}

struct WallTime {
    limit: Duration,
    deadline: tokio::time::Instant,
    armed: std::sync::Once,
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
            return over(&question, cause);
        }
        // The time also runs out in the middle of a stream or a tool.
        let (agent, deadline) = (question.agent.clone(), self.deadline);
        self.armed.call_once(|| {
            let agent = agent.downgrade();
            tokio::spawn(async move {
                tokio::time::sleep_until(deadline).await;
                // An agent that is gone has nothing left to stop.
                let _ = agent.get().cancel_now(cause);
            });
        });
        next.run(question)
    }
}

/// Posts the cancel and waits for it: mail is read before answers, so it comes first.
fn over(question: &PreStep, cause: Cause) -> BoxFuture<'static, Result<Verdict, Failure>> {
    let posted = question.agent.cancel_now(cause);
    async move {
        match posted {
            Ok(()) => std::future::pending().await,
            Err(e) => Err(Failure::new(terret_core::chunk::code::HOOK, e.to_string())),
        }
    }
    .boxed()
}
