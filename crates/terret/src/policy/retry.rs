//! Retries: failures that may pass by themselves are asked again, after a while.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, code};
use terret_core::id::Digest;
use uuid::Uuid;

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
    /// Of what delays are varied with, so that many clients do not come back at once: equal seeds wait equally.
    pub seed: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            max: 5,
            base_ms: 500,
            cap_ms: 10_000,
            hint_cap_ms: 60_000,
            seed: Uuid::new_v4().as_u128() as u64,
        }
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
        match self.delay_ms(&question) {
            Some(delay_ms) => {
                std::future::ready(Ok(Recovery::Retry { by: self.name().to_owned(), delay_ms })).boxed()
            }
            None => next.run(question),
        }
    }
}

impl Retry {
    /// How long to wait before asking again; `None`: do not.
    fn delay_ms(&self, failed: &FailedAttempt) -> Option<u64> {
        let FailedAttempt { attempt, ref failure, .. } = *failed;
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
                Some(self.varied(doubled.min(self.cap_ms), failed))
            }
        }
    }

    /// Within a tenth either way.
    fn varied(&self, delay_ms: u64, failed: &FailedAttempt) -> u64 {
        let place = [self.seed, failed.turn.into(), failed.step.into(), failed.attempt.into()];
        let digest = Digest::of(place.map(u64::to_le_bytes).as_flattened());
        let varied = digest.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        delay_ms - delay_ms / 10 + varied % (delay_ms / 5 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_varied_by_a_tenth_and_equally_for_equal_seeds() {
        let failed = |step, attempt| {
            let agent = crate::mail::Handle(tokio::sync::mpsc::channel(1).0);
            FailedAttempt { agent, turn: 1, step, attempt, failure: Failure::new(code::SERVER, "down") }
        };
        let retry = |seed| Retry { seed, ..Retry::default() };
        let delays = |seed| -> Vec<u64> {
            (1..20).filter_map(|step| retry(seed).delay_ms(&failed(step, 2))).collect()
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
        assert!(delays(1).iter().all(|delay| (900..=1100).contains(delay)), "{:?}", delays(1));
        let apart: std::collections::BTreeSet<u64> = delays(1).into_iter().collect();
        assert!(apart.len() > 10, "{apart:?}");
        assert_ne!(Retry::default().seed, Retry::default().seed);
    }
}
