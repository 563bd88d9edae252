//! Retries: failures that may pass by themselves are asked again, after a while.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, code};
use terret_core::fact::SeamChanged;
use terret_core::id::Digest;
use terret_core::input::Record;
use uuid::Uuid;

use crate::hook::{FailedAttempt, Listener, Next, Plugin, REQUEST_ERROR, Recovery, Seams};
use crate::limits::{MAX_RETRY_DELAY_MS, MAX_RETRY_HINT_MS};

/// How failed requests are asked again. Retries are counted in a step, for one provider, and only our own: what
/// another plugin takes over uses nothing up.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Which failures, and how often.
    pub mode: Mode,
    /// Retries a step may use, in normal mode; 0: none.
    pub max: u32,
    /// First delay; doubles with each.
    pub base_ms: u64,
    /// Longest delay of ours.
    pub cap_ms: u64,
    /// How far a delay of ours is varied either way, in percent, so that many clients do not come back at once.
    pub jitter_percent: u32,
    /// Longest wait a provider may ask for. A longer one ends the turn in normal mode, and is not heeded in the other.
    pub hint_cap_ms: u64,
    /// Of what delays are varied with, so that many clients do not come back at once: equal seeds wait equally.
    pub seed: u64,
}

/// Which failures are asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Those that may pass by themselves, before anybody behind is asked.
    #[default]
    Normal,
    /// Every one that nobody behind takes over, without end: for a batch that must go on once the world is mended.
    Always,
}

impl Default for Retry {
    fn default() -> Self {
        let (base_ms, cap_ms, hint_cap_ms) = (500, 10_000, MAX_RETRY_HINT_MS);
        let seed = Uuid::new_v4().as_u128() as u64;
        Retry { mode: Mode::Normal, max: 5, base_ms, cap_ms, jitter_percent: 10, hint_cap_ms, seed }
    }
}

impl Plugin for Retry {
    fn name(&self) -> &str {
        NAME
    }

    fn check(&self) -> Result<(), String> {
        let Retry { base_ms, cap_ms, hint_cap_ms, jitter_percent, .. } = *self;
        let longest = cap_ms.max(hint_cap_ms);
        if base_ms == 0 {
            return Err("a first delay of 0 ms would never grow: give it at least 1".into());
        }
        if base_ms > cap_ms {
            return Err(format!("the first delay ({base_ms} ms) is longer than the longest ({cap_ms} ms)"));
        }
        if longest > MAX_RETRY_DELAY_MS {
            return Err(format!("no delay may be longer than {MAX_RETRY_DELAY_MS} ms, not {longest}"));
        }
        if jitter_percent > 100 {
            return Err(format!("a delay can be varied by 100 percent at most, not by {jitter_percent}"));
        }
        Ok(())
    }

    fn install(&self, seams: &mut Seams) {
        seams.request_error.add(Arc::new(*self));
    }
}

const NAME: &str = "retry";

impl Listener<FailedAttempt, Result<Recovery, Failure>> for Retry {
    fn call<'a>(
        &'a self,
        question: FailedAttempt,
        next: Next<'a, FailedAttempt, Result<Recovery, Failure>>,
    ) -> BoxFuture<'a, Result<Recovery, Failure>> {
        match (self.mode, self.delay_ms(&question)) {
            (Mode::Normal, None) => next.run(question),
            (Mode::Normal, Some(delay_ms)) => std::future::ready(Ok(again(delay_ms))).boxed(),
            (Mode::Always, delay_ms) => async move {
                let agent = question.agent.clone();
                match next.run(question).await {
                    Ok(taken @ Recovery::Retry { .. }) => return Ok(taken),
                    Ok(Recovery::GiveUp) => {}
                    Err(failure) => {
                        let what = format!("went on though a plugin behind it failed: {failure}");
                        let note = SeamChanged { seam: REQUEST_ERROR.into(), plugin: NAME.into(), what };
                        // Where nothing can be recorded any more, nothing is asked again either.
                        let _ = agent.record(Record::Seam(note)).await;
                    }
                }
                Ok(delay_ms.map_or(Recovery::GiveUp, again))
            }
            .boxed(),
        }
    }
}

fn again(delay_ms: u64) -> Recovery {
    Recovery::Retry { by: NAME.to_owned(), delay_ms }
}

impl Retry {
    /// How long to wait before asking again; `None`: do not.
    fn delay_ms(&self, failed: &FailedAttempt) -> Option<u64> {
        let ours = failed.retried.iter().filter(|by| *by == NAME).count();
        let nth = u32::try_from(ours).unwrap_or(u32::MAX).saturating_add(1);
        if self.mode == Mode::Normal && nth > self.limit(&failed.failure) {
            return None;
        }
        match failed.failure.retry_after_ms.filter(|hint| *hint > 0) {
            Some(hint) if hint <= self.hint_cap_ms => Some(hint),
            Some(_) if self.mode == Mode::Normal => None,
            Some(_) | None => {
                let doubled = self.base_ms.saturating_mul(1 << (nth - 1).min(MAX_DOUBLINGS));
                Some(self.varied(doubled.min(self.cap_ms), failed).min(self.cap_ms))
            }
        }
    }

    /// How often a failure of this class is asked again in normal mode.
    fn limit(&self, failure: &Failure) -> u32 {
        match failure.code.as_str() {
            // The same bytes would most likely bring the same answer.
            code::MALFORMED_RESPONSE | code::EMPTY_RESPONSE => self.max.min(2),
            code::RATE_LIMIT
            | code::OVERLOADED
            | code::SERVER
            | code::TIMEOUT
            | code::TRANSPORT
            | code::STREAM_CLOSED => self.max,
            _ => 0,
        }
    }

    /// Within its reach either way, the same for the same seed and place.
    fn varied(&self, delay_ms: u64, failed: &FailedAttempt) -> u64 {
        let place = [self.seed, failed.turn.into(), failed.step.into(), failed.attempt.into()];
        let digest = Digest::of(place.map(u64::to_le_bytes).as_flattened());
        let varied = digest.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        let reach = delay_ms * u64::from(self.jitter_percent) / 100;
        delay_ms - reach + varied % (2 * reach + 1)
    }
}

/// Past it the longest delay is reached from any first one, and the shift stays in range.
const MAX_DOUBLINGS: u32 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_varied_by_a_tenth_and_equally_for_equal_seeds() {
        let failed = |step| {
            let agent = crate::mail::Handle(tokio::sync::mpsc::channel(1).0);
            let (attempt, failure, retried) = (2, Failure::new(code::SERVER, "down"), vec![NAME.to_owned()]);
            FailedAttempt {
                agent,
                turn: 1,
                step,
                attempt,
                failure,
                retried,
                stop: tokio::sync::watch::channel(false).1,
            }
        };
        let retry = |seed| Retry { seed, ..Retry::default() };
        let delays =
            |seed| -> Vec<u64> { (1..20).filter_map(|step| retry(seed).delay_ms(&failed(step))).collect() };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
        assert!(delays(1).iter().all(|delay| (900..=1100).contains(delay)), "{:?}", delays(1));
        let apart: std::collections::BTreeSet<u64> = delays(1).into_iter().collect();
        assert!(apart.len() > 10, "{apart:?}");
        assert_ne!(Retry::default().seed, Retry::default().seed);
    }
}
