//! Retries: failures that may pass by themselves are asked again, after a while.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, code};

use crate::hook::{FailedAttempt, Listener, Next, Plugin, Recovery, Seams};

/// How failed requests are asked again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Retries a step may use.
    pub max: u32,
    /// First delay; doubles with each.
    pub base_ms: u64,
    /// Longest delay of ours.
    pub cap_ms: u64,
    /// Longest wait a provider may ask for; a longer one is not waited out.
    pub hint_cap_ms: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { max: 5, base_ms: 500, cap_ms: 10_000, hint_cap_ms: 60_000 }
    }
}

impl Plugin for Retry {
    fn name(&self) -> &str {
        "retry"
    }

    fn install(&self, seams: &mut Seams) {
        seams.request_error.add(Arc::new(*self));
    }
}

impl Listener<FailedAttempt, Result<Recovery, Failure>> for Retry {
    fn call<'a>(
        &'a self,
        question: FailedAttempt,
        next: Next<'a, FailedAttempt, Result<Recovery, Failure>>,
    ) -> BoxFuture<'a, Result<Recovery, Failure>> {
        match self.delay_ms(question.attempt, &question.failure) {
            Some(delay_ms) => {
                std::future::ready(Ok(Recovery::Retry { by: self.name().to_owned(), delay_ms })).boxed()
            }
            None => next.run(question),
        }
    }
}

impl Retry {
    /// How long to wait before asking again; `None`: do not.
    fn delay_ms(&self, attempt: u32, failure: &Failure) -> Option<u64> {
        let limit = match failure.code.as_str() {
            // The same bytes would most likely bring the same answer.
            code::MALFORMED_RESPONSE | code::EMPTY_RESPONSE => self.max.min(2),
            code::RATE_LIMIT
            | code::OVERLOADED
            | code::SERVER
            | code::TIMEOUT
            | code::TRANSPORT
            | code::STREAM_CLOSED => self.max,
            _ => 0,
        };
        if attempt > limit {
            return None;
        }
        match failure.retry_after_ms {
            Some(hint) if hint > self.hint_cap_ms => None,
            Some(hint) => Some(hint),
            None => {
                let doubled = self.base_ms.saturating_mul(1 << (attempt - 1).min(20));
                Some(jittered(doubled.min(self.cap_ms)))
            }
        }
    }
}

/// Within a tenth either way, so that many clients do not come back at once.
fn jittered(delay_ms: u64) -> u64 {
    let random = uuid::Uuid::new_v4().as_u128() as u64;
    delay_ms - delay_ms / 10 + random % (delay_ms / 5 + 1)
}
