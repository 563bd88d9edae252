//! When failed requests are asked again, how often, and after how long.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::Agent;
use terret::agent::{Builder, Outcome, Settlement};
use terret::core::chunk::{Failure, code};
use terret::core::fact::{Cause, EndReason, Fact};
use terret::core::line::Event;
use terret::hook::{FailedAttempt, Listener, Next, Order, Phase, Plugin, Recovery, RequestPoint, Seams};
use terret::model::script::ScriptAdapter;
use terret::model::{Proposal, Providers};
use terret::policy::{Mode, Retry};
use terret::store::MemoryStore;

use crate::support::{events, types};

/// Delays that are not varied.
const PLAIN: Retry = Retry {
    mode: Mode::Normal,
    max: 2,
    base_ms: 100,
    cap_ms: 400,
    jitter_percent: 0,
    hint_cap_ms: 1000,
    seed: 0,
};

fn agent(script: &str) -> Builder {
    let player = |name| ScriptAdapter::new().with(name, script).unwrap();
    let models = Providers::new(Box::new(|_| None));
    let models = models.with_adapter("script", player("test")).with_adapter("other", player("test"));
    Agent::builder(Arc::new(models)).model("script:test").unwrap()
}

/// Sends one prompt: how its turn ended, and the log.
async fn played(builder: Builder) -> (Outcome, Vec<Event>) {
    let store = MemoryStore::default();
    let agent = builder.store(store.clone()).create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    (outcome, events(store.bytes(agent.id().as_str()).unwrap()))
}

/// Who asked again, after how long.
fn retries(events: &[Event]) -> Vec<(&str, u64)> {
    fn of(event: &Event) -> Option<(&str, u64)> {
        match &event.fact {
            Fact::RequestRetry(retry) => Some((&retry.by, retry.delay_ms)),
            _ => None,
        }
    }
    events.iter().filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn delays_double_up_to_the_longest() {
    let (outcome, log) = played(agent("fail SERVER times=5\nsay ok").plugin(Retry { max: 5, ..PLAIN })).await;
    assert_eq!(outcome.text, "ok");
    assert_eq!(retries(&log).iter().map(|(_, ms)| *ms).collect::<Vec<_>>(), [100, 200, 400, 400, 400]);
}

#[tokio::test(start_paused = true)]
async fn a_step_uses_its_retries_up_and_ends_with_the_last_failure() {
    let (outcome, log) = played(agent("fail SERVER times=3\nsay ok").plugin(PLAIN)).await;
    assert_eq!((outcome.ending.word(), retries(&log).len()), ("error", 2));
    let (outcome, log) =
        played(agent("fail EMPTY_RESPONSE times=3\nsay ok").plugin(Retry { max: 5, ..PLAIN })).await;
    assert_eq!((outcome.ending.word(), retries(&log).len()), ("error", 2), "empty twice is empty for good");
    let (outcome, log) = played(agent("fail AUTH times=1\nsay ok").plugin(PLAIN)).await;
    assert_eq!((outcome.ending.word(), retries(&log).len()), ("error", 0));
    let (outcome, log) = played(agent("fail SERVER times=1\nsay ok").plugin(Retry { max: 0, ..PLAIN })).await;
    assert_eq!((outcome.ending.word(), retries(&log).len()), ("error", 0));
}

#[tokio::test(start_paused = true)]
async fn a_providers_delay_is_kept_to_the_millisecond_or_not_at_all() {
    let loose = Retry { jitter_percent: 100, ..PLAIN };
    let (_, log) = played(agent("fail RATE_LIMIT times=1 retry_after_ms=777\nsay ok").plugin(loose)).await;
    assert_eq!(retries(&log), [("retry", 777)]);
    let (outcome, log) =
        played(agent("fail RATE_LIMIT times=1 retry_after_ms=1001\nsay ok").plugin(PLAIN)).await;
    assert_eq!((outcome.ending.word(), retries(&log).len()), ("error", 0), "longer than anybody waits");
    let always = Retry { mode: Mode::Always, ..PLAIN };
    let (outcome, log) =
        played(agent("fail RATE_LIMIT times=1 retry_after_ms=1001\nsay ok").plugin(always)).await;
    assert_eq!((outcome.ending.word(), retries(&log)), ("completed", vec![("retry", 100)]));
}

#[tokio::test(start_paused = true)]
async fn delays_are_varied_within_their_bounds() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let varied = Retry { max: 4, jitter_percent: 20, seed, ..PLAIN };
        let (_, log) = played(agent("fail SERVER times=4\nsay ok").plugin(varied)).await;
        let delays: Vec<u64> = retries(&log).iter().map(|(_, ms)| *ms).collect();
        assert!((80..=120).contains(&delays[0]) && (160..=240).contains(&delays[1]), "{delays:?}");
        assert!(
            (320..=400).contains(&delays[3]),
            "what is varied is never longer than the longest: {delays:?}"
        );
        seen.insert(delays[0]);
    }
    assert!(seen.len() > 5, "{seen:?}");
}

/// Takes over what it is made for.
struct Other {
    code: &'static str,
    answer: Result<Recovery, Failure>,
}

impl Plugin for Other {
    fn name(&self) -> &str {
        "other"
    }
    fn order(&self) -> Order {
        Order { phase: Phase::Late, ..Order::default() }
    }
    fn install(&self, seams: &mut Seams) {
        seams.request_error.add(Arc::new(Other { code: self.code, answer: self.answer.clone() }));
    }
}

impl Listener<FailedAttempt, Result<Recovery, Failure>> for Other {
    fn call<'a>(
        &'a self,
        question: FailedAttempt,
        next: Next<'a, FailedAttempt, Result<Recovery, Failure>>,
    ) -> BoxFuture<'a, Result<Recovery, Failure>> {
        match question.failure.code == self.code {
            true => std::future::ready(self.answer.clone()).boxed(),
            false => next.run(question),
        }
    }
}

fn other(code: &'static str) -> Other {
    Other { code, answer: Ok(Recovery::Retry { by: "other".into(), delay_ms: 5 }) }
}

#[tokio::test(start_paused = true)]
async fn what_others_take_over_uses_none_of_our_retries() {
    let script = "fail CONTEXT_WINDOW_EXCEEDED times=3\nfail SERVER times=2\nsay ok";
    let (outcome, log) =
        played(agent(script).plugin(PLAIN).plugin(other(code::CONTEXT_WINDOW_EXCEEDED))).await;
    assert_eq!(outcome.ending.word(), "completed");
    let expected = [("other", 5), ("other", 5), ("other", 5), ("retry", 100), ("retry", 200)];
    assert_eq!(retries(&log), expected);
}

/// Goes to another provider from this attempt on.
struct Elsewhere(u32);

impl Listener<RequestPoint, Result<Proposal, Failure>> for Elsewhere {
    fn call<'a>(
        &'a self,
        mut question: RequestPoint,
        next: Next<'a, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'a, Result<Proposal, Failure>> {
        if question.attempt >= self.0 {
            question.proposal.provider = "other".into();
        }
        next.run(question)
    }
}

#[tokio::test(start_paused = true)]
async fn another_provider_and_another_step_begin_to_count_anew() {
    // Each adapter plays the script's failures for itself.
    let script = "fail SERVER times=2\ncall nap {}\n---\nfail SERVER times=1\nsay ok";
    let elsewhere = |seams: &mut Seams| seams.request.add(Arc::new(Elsewhere(3)));
    let (outcome, log) = played(agent(script).plugin(PLAIN).seams(elsewhere)).await;
    assert_eq!(outcome.ending.word(), "completed");
    let delays: Vec<u64> = retries(&log).iter().map(|(_, ms)| *ms).collect();
    assert_eq!(delays, [100, 200, 100, 200, 100]);
    let (_, log) = played(agent(script).plugin(PLAIN)).await;
    assert_eq!(retries(&log).iter().map(|(_, ms)| *ms).collect::<Vec<_>>(), [100, 200, 100]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_forgets_no_retry() {
    let store = MemoryStore::default();
    let script = "fail SERVER times=9\nsay ok";
    let first =
        agent(script).store(store.clone()).plugin(PLAIN).create(Some("s".parse().unwrap())).await.unwrap();
    first.prompt("go").await.unwrap();
    first.shutdown().await.unwrap();
    let log = store.bytes("s").unwrap();
    let lines: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
    let second = lines.iter().rposition(|l| l.windows(13).any(|w| w == b"request/retry")).unwrap();
    store.put("cut", lines[..=second].concat());
    let again = agent(script).store(store.clone()).plugin(PLAIN).resume("cut").await.unwrap();
    again.recover(terret::core::input::Recovery::ResumeTurn { keyed: vec![] }).await.unwrap();
    again.when_idle().await.unwrap();
    again.shutdown().await.unwrap();
    let log = events(store.bytes("cut").unwrap());
    assert_eq!(retries(&log), [("retry", 100), ("retry", 200)], "both were used before");
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_the_loops_whoever_leaves_meanwhile_and_retries_are_counted_by_name() {
    let other_numbers = Retry { base_ms: 7, ..PLAIN };
    for (next, expected, ending) in [
        // What was decided is done; of the next failure nobody takes care.
        (None, vec![("retry", 100)], "error"),
        // Another policy of that name goes on where the first one stood.
        (Some(other_numbers), vec![("retry", 100), ("retry", 14)], "completed"),
    ] {
        let store = MemoryStore::default();
        let script = "fail SERVER times=2 down\nsay ok";
        let agent = agent(script).store(store.clone()).create(None).await.unwrap();
        let installed = agent.install(PLAIN).unwrap();
        let one = agent.followup(agent.user("go")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(installed);
        let _next = next.map(|retry| agent.install(retry).unwrap());
        let Settlement::Ended(outcome) = one.settled().await.unwrap() else { panic!() };
        agent.shutdown().await.unwrap();
        let log = events(store.bytes(agent.id().as_str()).unwrap());
        assert_eq!((retries(&log), outcome.ending.word()), (expected, ending));
        if let EndReason::Error { failure } = outcome.ending {
            assert_eq!((failure.code.as_str(), failure.message.as_str()), (code::SERVER, "down"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_may_be_varied_to_nothing() {
    let varied = Retry { max: 20, base_ms: 1, cap_ms: 1, jitter_percent: 100, ..PLAIN };
    let (outcome, log) = played(agent("fail SERVER times=20\nsay ok").plugin(varied)).await;
    let delays: Vec<u64> = retries(&log).iter().map(|(_, ms)| *ms).collect();
    assert_eq!(outcome.text, "ok");
    assert!(delays.contains(&0) && delays.contains(&1), "{delays:?}");
}

#[tokio::test(start_paused = true)]
async fn always_means_every_failure_without_end_until_a_cancel() {
    let always = Retry { mode: Mode::Always, max: 1, ..PLAIN };
    let (outcome, log) = played(agent("fail AUTH times=40\nsay ok").plugin(always)).await;
    assert_eq!((outcome.text.as_str(), retries(&log).len()), ("ok", 40));
    let delays: Vec<u64> = retries(&log).iter().map(|(_, ms)| *ms).collect();
    assert!(delays[..3] == [100, 200, 400] && delays[3..].iter().all(|ms| *ms == 400), "{delays:?}");
    let agent = agent("fail AUTH times=100000\nsay ok").plugin(always).create(None).await.unwrap();
    let one = agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    agent.cancel(Cause::User { text: None }).await.unwrap();
    let settled = one.settled().await.unwrap();
    assert!(format!("{settled:?}").contains("Aborted"), "{settled:?}");
}

#[tokio::test(start_paused = true)]
async fn always_lets_others_go_first_and_notes_what_fails_there() {
    let always = Retry { mode: Mode::Always, ..PLAIN };
    let (_, log) =
        played(agent("fail SERVER times=1\nsay ok").plugin(always).plugin(other(code::SERVER))).await;
    assert_eq!(retries(&log), [("other", 5)]);
    let broken = Other { answer: Err(Failure::new(code::HOOK, "broke")), code: code::SERVER };
    let (outcome, log) = played(agent("fail SERVER times=1\nsay ok").plugin(always).plugin(broken)).await;
    assert_eq!((outcome.ending.word(), retries(&log)), ("completed", vec![("retry", 100)]));
    let noted = log.iter().find_map(|event| match &event.fact {
        Fact::SeamChanged(note) if note.seam == "agent/request-error" => Some((&*note.plugin, &*note.what)),
        _ => None,
    });
    let (plugin, what) = noted.unwrap_or_else(|| panic!("{:?}", types(&log)));
    assert_eq!((plugin, what), ("retry", "went on though a plugin behind it failed: broke [HOOK]"));
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_reason() {
    let refused = |retry: Retry| retry.check().unwrap_err();
    assert!(Retry::default().check().is_ok() && PLAIN.check().is_ok());
    assert!(refused(Retry { base_ms: 0, ..PLAIN }).contains("at least 1"));
    assert!(
        refused(Retry { base_ms: 401, ..PLAIN }).contains("(401 ms) is longer than the longest (400 ms)")
    );
    assert!(refused(Retry { cap_ms: 1 << 31, ..PLAIN }).contains("2147483648"));
    assert!(refused(Retry { hint_cap_ms: 1 << 31, ..PLAIN }).contains("2147483648"));
    assert!(refused(Retry { jitter_percent: 101, ..PLAIN }).contains("not by 101"));
}
