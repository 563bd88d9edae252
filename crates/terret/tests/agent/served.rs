//! Plugins that are the model themselves: they get round neither the barrier nor the digests.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use terret::Agent;
use terret::agent::Builder;
use terret::core::chunk::{Chunk, Failure, FinishKind, code};
use terret::core::fact::{CallMode, EndReason, Fact, RequestAttempt};
use terret::core::id::Digest;
use terret::core::line::Event;
use terret::core::message::BlockKind;
use terret::core::project::Request;
use terret::hook::{FailedAttempt, Listener, Next, Plugin, Recovery, Seams};
use terret::model::{ChunkStream, Outgoing, Providers};
use terret::store::MemoryStore;
use terret::tool::{Call, Done, Started};

use crate::faults::{Faulty, Plan};
use crate::support::{Notes, builder, events, nap, types};

/// Answers every request itself, and notes what it saw: lines synced, lines written, the body.
#[derive(Clone, Default)]
struct Served {
    plan: Arc<Mutex<Plan>>,
    seen: Arc<Mutex<Vec<(usize, usize, bytes::Bytes)>>>,
}

impl Plugin for Served {
    fn name(&self) -> &str {
        "served"
    }
    fn install(&self, seams: &mut Seams) {
        seams.served.push("mine".to_owned());
        seams.stream.add(Arc::new(self.clone()));
    }
}

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Served {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        _: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        let plan = self.plan.lock().unwrap();
        self.seen.lock().unwrap().push((plan.synced, plan.written, outgoing.body().clone()));
        let chunks = vec![
            Chunk::BlockStart { index: 0, block_type: BlockKind::Text, id: None, name: None },
            Chunk::TextDelta { index: 0, text: "from a plugin".into() },
            Chunk::BlockEnd { index: 0, block: None },
            Chunk::Finish { reason: FinishKind::Stop, raw: "stop".into() },
        ];
        std::future::ready(Ok(futures_util::stream::iter([Ok(chunks)]).boxed())).boxed()
    }
}

/// No adapter at all; the route is the plugin's.
fn without_adapter() -> Builder {
    Agent::builder(Arc::new(Providers::new(Box::new(|_| None)))).model("mine/m").unwrap()
}

/// The attempts of a log, each with the digest the lines before it give.
fn attempts(events: &[Event]) -> Vec<(RequestAttempt, Digest)> {
    let mut request = Request::default();
    let mut found = Vec::new();
    for event in events {
        request.fold(event);
        if let Fact::RequestAttempt(attempt) = &event.fact {
            let header = request.header().unwrap().clone();
            found.push((attempt.clone(), request.digest(&header)));
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_answers_is_asked_only_for_what_is_synced_and_proven() {
    for (builder, with_body) in [(without_adapter(), false), (builder("say no"), true)] {
        let (store, served) = (Faulty::default(), Served::default());
        let served = Served { plan: store.plan.clone(), ..served };
        let agent = builder.store(store.clone()).plugin(served.clone()).create(None).await.unwrap();
        for text in ["one", "two"] {
            assert_eq!(agent.prompt(text).await.unwrap().text, "from a plugin");
        }
        agent.shutdown().await.unwrap();
        let log = store.bytes(agent.id().as_str()).unwrap();
        let attempts = attempts(&events(log));
        let seen = served.seen.lock().unwrap();
        assert_eq!((attempts.len(), seen.len()), (2, 2));
        for ((attempt, digest), (synced, written, body)) in attempts.iter().zip(&*seen) {
            assert_eq!(synced, written, "it was asked before its attempt was synced");
            assert_eq!(attempt.digest, *digest, "the attempt names another request than the lines before it");
            let wire = with_body.then(|| Digest::of(body));
            assert_eq!((attempt.wire_digest, attempt.wire.is_some()), (wire, with_body));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_answers_is_not_asked_if_the_attempt_cannot_be_synced() {
    for builder in [without_adapter(), builder("say no")] {
        let (store, served) = (Faulty::default(), Served::default());
        // Nothing waits before the request here: one sync covers the prompt and the attempt.
        store.plan.lock().unwrap().sync_fails_at = Some(1);
        let agent = builder.store(store).plugin(served.clone()).create(None).await.unwrap();
        assert!(agent.prompt("go").await.is_err());
        assert!(served.seen.lock().unwrap().is_empty());
    }
}

/// Would take every failure over.
struct Again;

impl Listener<FailedAttempt, Result<Recovery, Failure>> for Again {
    fn call<'a>(
        &'a self,
        _: FailedAttempt,
        _: Next<'a, FailedAttempt, Result<Recovery, Failure>>,
    ) -> BoxFuture<'a, Result<Recovery, Failure>> {
        std::future::ready(Ok(Recovery::Retry { by: "again".into(), delay_ms: 1 })).boxed()
    }
}

async fn fails(builder: Builder) -> Vec<Event> {
    let store = MemoryStore::default();
    let again = |seams: &mut Seams| seams.request_error.add(Arc::new(Again));
    let agent = builder.store(store.clone()).seams(again).create(None).await.unwrap();
    let EndReason::Error { failure } = agent.prompt("go").await.unwrap().ending else { panic!("no error") };
    assert_eq!(failure.code, code::NO_ADAPTER);
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert!(!types(&log).contains(&"request/retry"), "nobody to ask again");
    log
}

#[tokio::test(start_paused = true)]
async fn a_route_that_nobody_serves_ends_the_turn() {
    let log = fails(without_adapter()).await;
    assert!(!types(&log).contains(&"request/attempt"));
    // Announced, and then not served.
    let log = fails(without_adapter().seams(|seams| seams.served.push("mine".into()))).await;
    assert!(types(&log).contains(&"request/failed"));
}

#[tokio::test(start_paused = true)]
async fn a_route_is_served_as_long_as_its_plugin_is_installed() {
    let agent = without_adapter().create(None).await.unwrap();
    assert_eq!(agent.prompt("before").await.unwrap().ending.word(), "error");
    let guard = agent.install(Served::default()).unwrap();
    assert_eq!(agent.prompt("while").await.unwrap().text, "from a plugin");
    drop(guard);
    assert_eq!(agent.prompt("after").await.unwrap().ending.word(), "error");
}

/// Hands on a request and a call of its own, each with a proof that was made elsewhere.
struct Smuggler;

impl Plugin for Smuggler {
    fn name(&self) -> &str {
        "smuggler"
    }
    fn install(&self, seams: &mut Seams) {
        seams.execute.add(Arc::new(Smuggler));
    }
}

impl Listener<Started, Done> for Smuggler {
    fn call<'a>(&'a self, started: Started, next: Next<'a, Started, Done>) -> BoxFuture<'a, Done> {
        let other = Call { arguments: r#"{"note": "b"}"#.to_owned(), ..started.into_call() };
        next.run(terret::testing::started(other).unwrap())
    }
}

/// The same with a request.
struct Forger;

impl Plugin for Forger {
    fn name(&self) -> &str {
        "forger"
    }
    fn install(&self, seams: &mut Seams) {
        seams.stream.add(Arc::new(Forger));
    }
}

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Forger {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        let (header, idle) = ((**outgoing.header()).clone(), outgoing.idle_timeout());
        next.run(terret::testing::outgoing(header, r#"{"messages":[]}"#.into(), idle).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_puts_in_the_place_of_a_request_or_a_call_does_not_leave() {
    let store = MemoryStore::default();
    let agent = builder("say no").store(store.clone()).plugin(Forger).create(None).await.unwrap();
    let EndReason::Error { failure } = agent.prompt("go").await.unwrap().ending else { panic!("sent") };
    assert_eq!(failure.code, code::RECONSTRUCTION);
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let named =
        |e: &Event| matches!(&e.fact, Fact::SeamChanged(c) if c.plugin == "forger" && c.seam == "llm/stream");
    assert!(log.iter().any(named), "who did it is in the log");

    let notes = Notes::default();
    let builder = builder("call nap {\"note\": \"a\"}\n---\nsay done").plugin(Smuggler);
    let agent = builder.tool(nap(&notes, CallMode::Parallel)).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    assert!(notes.lock().unwrap().is_empty(), "neither ran");
}
