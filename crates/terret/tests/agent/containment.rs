//! What breaks down costs its own question and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use terret::agent::Agent;
use terret::core::chunk::{Chunk, Failure, FinishKind, code};
use terret::core::fact::{Cause, EndReason, Fact, Lane};
use terret::core::message::{BlockKind, Message};
use terret::hook::{Listener, Next, RequestPoint, Stopping, Vote};
use terret::model::script::ScriptAdapter;
use terret::model::{Adapter, ChunkStream, Outgoing, Prepared, Proposal, Providers};
use terret::policy::{Budget, Retry};
use terret::store::MemoryStore;
use terret::tool::tool;

use crate::support::{builder, endings, events, types};

/// Says something, then breaks down.
struct Breaks;

impl Adapter for Breaks {
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure> {
        ScriptAdapter::new().with("test", "say x")?.prepare(proposal)
    }
    fn stream(&self, _request: Outgoing) -> ChunkStream {
        let said =
            futures_util::stream::iter([Ok(vec![Chunk::ResponseStart { response_id: None, model: None }])]);
        said.chain(futures_util::stream::once(async { panic!("the adapter broke") })).boxed()
    }
}

fn ending(log: &[terret::core::line::Event]) -> (String, String) {
    let failure = log.iter().find_map(|e| match &e.fact {
        Fact::TurnEnd(end) => match &end.reason {
            EndReason::Error { failure } => Some(failure.clone()),
            other => panic!("{other:?}"),
        },
        _ => None,
    });
    failure.map(|f| (f.code, f.message)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_breaks_down_in_its_stream_ends_the_turn_and_is_not_asked_again() {
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", Breaks);
    let store = MemoryStore::default();
    let retry = Retry { max: 3, base_ms: 1, ..Retry::default() };
    let agent = Agent::builder(Arc::new(models)).model("script:test").unwrap().plugin(retry);
    let agent = agent.store(store.clone()).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.prompt("still there?").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let (code, message) = ending(&log);
    assert_eq!(code, code::HOOK);
    assert!(message.contains("the adapter broke"), "{message}");
    assert_eq!(endings(&log), ["error", "error"]);
    assert!(log.iter().any(|e| matches!(e.fact, Fact::AssistantChunk(_))), "what it had said stays");
    assert!(!types(&log).contains(&"request/retry") && !types(&log).contains(&"assistant/message"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_nobody_serves_ends_the_step_before_there_is_a_request() {
    let store = MemoryStore::default();
    let agent = builder("say hi").model("nobody/m").unwrap().store(store.clone()).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(ending(&log).0, code::NO_ADAPTER);
    let behind = types(&log).into_iter().skip_while(|kind| *kind != "user/message").collect::<Vec<_>>();
    assert_eq!(behind, ["user/message", "user/message", "step/end", "turn/end", "writer/idle"]);
}

/// Serves a route that no adapter knows.
struct Serves;

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Serves {
    fn call<'a>(
        &'a self,
        request: Outgoing,
        _next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        assert!(request.body().is_empty(), "nobody here knows its wire");
        let chunks = vec![
            Chunk::BlockStart { index: 0, block_type: BlockKind::Text, id: None, name: None },
            Chunk::TextDelta { index: 0, text: "served".into() },
            Chunk::BlockEnd { index: 0, block: None },
            Chunk::Finish { reason: FinishKind::Stop, raw: "stop".into() },
        ];
        std::future::ready(Ok(futures_util::stream::iter([Ok(chunks)]).boxed())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_may_serve_a_provider_by_itself() {
    let store = MemoryStore::default();
    let agent = builder("say hi").model("mine/m").unwrap().store(store.clone()).seams(|s| {
        s.served.push("mine".into());
        s.stream.add(Arc::new(Serves));
    });
    let agent = agent.create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", "served"));
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    for event in &log {
        match &event.fact {
            Fact::RequestHeader(h) => assert_eq!((h.header.wire.as_str(), h.header.defaults.len()), ("", 0)),
            Fact::RequestAttempt(attempt) => assert_eq!((attempt.wire_digest, attempt.bytes), (None, None)),
            _ => {}
        }
    }
}

/// Fails before a request, with a failure that would be retried had the provider given it.
struct Refuses;

impl Listener<RequestPoint, Result<Proposal, Failure>> for Refuses {
    fn call<'a>(
        &'a self,
        _question: RequestPoint,
        _next: Next<'a, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'a, Result<Proposal, Failure>> {
        std::future::ready(Err(Failure::new(code::RATE_LIMIT, "too many by our own count"))).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_ours_before_the_request_keeps_its_code_and_is_not_offered_to_retries() {
    let store = MemoryStore::default();
    let agent = builder("say hi").store(store.clone()).seams(|s| s.request.add(Arc::new(Refuses)));
    let agent = agent.create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(ending(&log), (code::RATE_LIMIT.to_owned(), "too many by our own count".to_owned()));
    assert!(!types(&log).contains(&"request/failed") && !types(&log).contains(&"request/retry"));
}

/// An error that cannot even be told.
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words")
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::test(start_paused = true)]
async fn an_error_that_breaks_down_when_it_is_told_is_that_calls_error() {
    let speechless = tool("t", "Fails.", |_: Nothing| async { Err::<String, _>(Unspeakable) });
    let agent = builder("call t\n---\nsay done").tool(speechless).create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", "done"));
}

/// Votes to go on each time, and counts how often it was asked.
struct Endless(Arc<AtomicU32>);

impl Vote for Endless {
    fn vote<'a>(&'a self, question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            let asked = self.0.fetch_add(1, Ordering::SeqCst);
            let more = Message::user(format!("more-{asked}").as_str(), "more");
            question.agent.send(more, Lane::NextStep, true).await.map(drop).unwrap();
            Ok(())
        }
        .boxed()
    }
}

/// Only counts.
struct Counts(Arc<AtomicU32>);

impl Vote for Counts {
    fn vote<'a>(&'a self, _question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn everybody_votes_and_a_budget_ends_a_turn_that_is_always_kept_going() {
    let (endless, counted) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    let (first, second) = (endless.clone(), counted.clone());
    let agent = builder("say on").plugin(Budget { steps: Some(5), ..Budget::default() }).seams(|s| {
        s.stopping.add(Arc::new(Endless(first)));
        s.stopping.add(Arc::new(Counts(second)));
    });
    let agent = agent.create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    let limit = Cause::Budget { which: "steps".into(), limit: 5 };
    assert_eq!((outcome.ending, outcome.steps), (EndReason::Aborted { cause: limit }, 5));
    // A vote to go on hides nobody else's.
    assert_eq!((endless.load(Ordering::SeqCst), counted.load(Ordering::SeqCst)), (5, 5));
}

/// Breaks down.
struct Speechless;

impl Vote for Speechless {
    fn vote<'a>(&'a self, _: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        async { panic!("no vote") }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_breaks_down_hides_nobody_elses() {
    let counted = Arc::<AtomicU32>::default();
    let behind = counted.clone();
    let builder = builder("say hi").seams(|s| {
        s.stopping.add(Arc::new(Speechless));
        s.stopping.add(Arc::new(Counts(behind)));
    });
    let outcome = builder.create(None).await.unwrap().prompt("go").await.unwrap();
    let EndReason::Error { failure } = outcome.ending else { panic!("{:?}", outcome.ending) };
    assert!(failure.message.contains("no vote"), "{}", failure.message);
    assert_eq!(counted.load(Ordering::SeqCst), 1);
}
