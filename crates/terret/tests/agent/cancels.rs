//! Cancels from inside a hook, in the same breath as a send, of nothing, and while an agent is put away.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::agent::{Settlement, Status};
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Cause, EndReason, Fact, Lane, Outcome};
use terret::core::message::Message;
use terret::hook::{Listener, Next, PreStep, Verdict};
use terret::store::MemoryStore;
use terret::tool::{Done, Started};

use crate::support::{Notes, builder, endings, events, nap, types};

const BY_USER: Cause = Cause::User { text: None };

/// Cancels, and answers all the same.
struct CancelAnd(fn(PreStep) -> Verdict);

impl Listener<PreStep, Result<Verdict, Failure>> for CancelAnd {
    fn call<'a>(
        &'a self,
        question: PreStep,
        _next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        question.agent.cancel_now(BY_USER).unwrap();
        std::future::ready(Ok((self.0)(question))).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_cancels_and_answers_in_one_breath_has_cancelled() {
    let enter: fn(PreStep) -> Verdict = |question| Verdict::Enter(question.messages);
    let reject: fn(PreStep) -> Verdict =
        |_| Verdict::Reject { by: "x".into(), reason: "y".into(), keep: false };
    for answer in [enter, reject] {
        let store = MemoryStore::default();
        let agent =
            builder("say never").store(store.clone()).seams(|s| s.pre_step.add(Arc::new(CancelAnd(answer))));
        let agent = agent.create(None).await.unwrap();
        let receipt = agent.followup(agent.user("go")).await.unwrap();
        let Settlement::Held(outcome) = receipt.settled().await.unwrap() else { panic!("not held") };
        assert_eq!(outcome.ending, EndReason::Aborted { cause: BY_USER });
        agent.shutdown().await.unwrap();
        let log = events(store.bytes(agent.id().as_str()).unwrap());
        assert!(!types(&log).contains(&"step/start"), "{:?}", types(&log));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_same_breath_as_the_prompt_comes_before_anything_is_asked() {
    let store = MemoryStore::default();
    let agent = builder("say never").store(store.clone()).create(None).await.unwrap();
    let (handle, other) = (agent.handle().clone(), agent.handle().clone());
    let send = handle.send(Message::user("m", "go"), Lane::NextTurn, true);
    let (receipt, cancelled) = tokio::join!(send, async { other.cancel_now(BY_USER) });
    cancelled.unwrap();
    assert!(matches!(receipt.unwrap().settled().await.unwrap(), Settlement::Held(_)));
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let told = ["inbox/added", "turn/start", "inbox/claimed", "turn/cancel", "inbox/returned", "turn/end"];
    assert_eq!(types(&log)[1..7], told);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_nothing_leaves_no_trace_and_takes_nothing_off() {
    let store = MemoryStore::default();
    let agent = builder("say hi").store(store.clone()).create(None).await.unwrap();
    agent.prompt("one").await.unwrap();
    let before = store.bytes(agent.id().as_str()).unwrap();
    agent.cancel(BY_USER).await.unwrap();
    assert_eq!(store.bytes(agent.id().as_str()).unwrap(), before);
    agent.inject(agent.user("context")).await.unwrap();
    agent.cancel(BY_USER).await.unwrap();
    assert_eq!(agent.look().await.unwrap().pending.len(), 1, "what waits stays");
    assert_eq!(agent.prompt("two").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert!(!types(&log).contains(&"turn/cancel"));
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_while_an_agent_is_put_away_waits_and_starts_nothing() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let script = "call nap {\"note\": \"a\", \"ms\": 1000}\n---\nsay done";
    let agent = builder(script).store(store.clone()).tool(nap(&notes, CallMode::Parallel));
    let agent = agent.create(None).await.unwrap();
    agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        agent.followup(agent.user("two")).await
    };
    let (gone, late) = tokio::join!(agent.shutdown(), late);
    gone.unwrap();
    late.unwrap();
    let log = store.bytes(agent.id().as_str()).unwrap();
    assert_eq!(endings(&events(log)), ["aborted"]);
    let again = builder("say hi").store(store).resume(agent.id().as_str()).await.unwrap();
    assert_eq!(again.status(), Status::Parked);
    assert_eq!(again.look().await.unwrap().pending.len(), 1);
}

/// Takes its time around a tool.
struct Slow;

impl Listener<Started, Done> for Slow {
    fn call<'a>(&'a self, started: Started, next: Next<'a, Started, Done>) -> BoxFuture<'a, Done> {
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            next.run(started).await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_does_not_begin_behind_a_cancel_though_a_hook_hands_it_on() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let builder = builder("call nap {\"note\": \"a\"}").seams(|s| s.execute.add(Arc::new(Slow)));
    let tool = nap(&notes, CallMode::Parallel);
    let agent = builder.store(store.clone()).tool(tool).create(None).await.unwrap();
    agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    agent.cancel(BY_USER).await.unwrap();
    agent.when_idle().await.unwrap();
    assert!(notes.lock().unwrap().is_empty());
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let outcome = log.iter().find_map(|event| match &event.fact {
        Fact::ToolResult(result) => Some(result.outcome),
        _ => None,
    });
    assert_eq!(outcome, Some(Outcome::NotStarted));
}
