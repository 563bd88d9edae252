//! Hard moments: cancels between a fact and its start, parts that break down, agents put away, records refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use terret::agent::{Handle, Settlement, Status};
use terret::core::fact::{ApprovalDecided, CallMode, Cause, Fact, Outcome, PluginEvent, Rel};
use terret::core::input::{Record, Recovery};
use terret::core::line::Event;
use terret::core::raw::Raw;
use terret::error::Error;
use terret::store::{FileStore, MemoryStore, Store};

use crate::support::{Notes, builder, endings, events, nap, types};

const TOOL: &str = "call nap {\"note\": \"a\", \"ms\": 200}\n---\nsay done";

fn outcomes(events: &[Event]) -> Vec<Outcome> {
    let of = |event: &Event| match &event.fact {
        Fact::ToolResult(result) => Some(result.outcome),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// Runs `TOOL`, cancelled the moment an event of this type is shown.
async fn cancelled_at(kind: &'static str) -> (Notes, Vec<Event>) {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let handle: Arc<Mutex<Option<Handle>>> = Arc::default();
    let late = handle.clone();
    let agent = builder(TOOL)
        .store(store.clone())
        .tool(nap(&notes, CallMode::Parallel))
        .observe(move |event| {
            if event.fact.type_name() == kind {
                let handle = late.lock().unwrap();
                handle.as_ref().unwrap().cancel_now(Cause::User { text: None }).unwrap();
            }
        })
        .create(None)
        .await
        .unwrap();
    *handle.lock().unwrap() = Some(agent.handle().clone());
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "aborted");
    agent.shutdown().await.unwrap();
    (notes, events(store.bytes(agent.id().as_str()).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_between_its_fact_and_its_start_never_starts() {
    let (notes, events) = cancelled_at("tool/call").await;
    assert_eq!(*notes.lock().unwrap(), [""; 0]);
    assert_eq!(outcomes(&events), [Outcome::NotStarted]);
}

#[tokio::test(start_paused = true)]
async fn a_request_cancelled_between_its_fact_and_its_sending_is_not_sent() {
    let (_, events) = cancelled_at("request/attempt").await;
    assert!(!events.iter().any(|e| matches!(e.fact, Fact::AssistantChunk(_))), "{:?}", types(&events));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_breaks_down_denies_its_call_and_the_turn_goes_on() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let agent = builder(TOOL)
        .store(store.clone())
        .tool(nap(&notes, CallMode::Parallel))
        .seams(|seams| seams.guards.add(Arc::new(|_| panic!("guard broke"))))
        .observe(|_| panic!("observer broke"))
        .create(None)
        .await
        .unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(outcomes(&events), [Outcome::Error]);
    assert_eq!(*notes.lock().unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_put_away_starts_no_turn_and_keeps_its_queue() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let tool = nap(&notes, CallMode::Parallel);
    let agent = builder(TOOL).store(store.clone()).tool(tool).create(None).await.unwrap();
    let first = agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    agent.cancel(Cause::User { text: None }).await.unwrap();
    agent.followup(agent.user("two")).await.unwrap();
    let (one, two) = tokio::join!(agent.shutdown(), agent.shutdown());
    one.unwrap();
    two.unwrap();
    assert!(matches!(first.settled().await, Ok(Settlement::Ended(_))));
    let log = store.bytes(agent.id().as_str()).unwrap();
    assert_eq!(endings(&events(log)), ["aborted"]);
    let mut state = terret::core::state::State::default();
    store.open(agent.id().as_str(), &mut |event| state.apply(&event.fact)).unwrap();
    assert_eq!(state.inbox().iter().count(), 1, "the second message waits");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_may_not_be_made_is_refused_in_words() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let tool = nap(&notes, CallMode::Parallel);
    let agent = builder(TOOL).store(store.clone()).tool(tool).create(None).await.unwrap();
    agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    agent.cancel(Cause::User { text: None }).await.unwrap();
    let call = "1.1.0".parse().unwrap();
    let yes = ApprovalDecided { call, decision: "yes".into(), by: "me".into() };
    assert!(matches!(agent.record(Record::Decided(yes)).await, Err(Error::Refused(_))));
    agent.when_idle().await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert!(!types(&log).contains(&"approval/decided"));
}

#[tokio::test(start_paused = true)]
async fn what_no_line_could_hold_is_refused_and_nothing_is_poisoned() {
    let agent = builder("say hi").identity("x".repeat(9 << 20)).create(None).await.unwrap();
    let data = Raw::parse(format!("{{\"a\":\"{}\"}}", "x".repeat(9 << 20))).unwrap();
    let event = PluginEvent { kind: "x/p/k".into(), rel: Rel::View, v: 1, data };
    assert!(matches!(agent.record(Record::Plugin(event)).await, Err(Error::TooLarge { .. })));
    let long = agent.user("y".repeat(9 << 20));
    assert!(matches!(agent.followup(long).await, Err(Error::TooLarge { .. })));
    // A header no line could hold ends its turn, not the session.
    let outcome = agent.prompt("hi").await.unwrap();
    assert_eq!(outcome.ending.word(), "error");
    assert_ne!(agent.status(), Status::Poisoned);
    agent.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_sent_again_after_its_turn_is_told_so() {
    let agent = builder("say hi").create(None).await.unwrap();
    let message = agent.user("one");
    agent.followup(message.clone()).await.unwrap().settled().await.unwrap();
    let again = agent.followup(message).await.unwrap().settled().await.unwrap();
    assert_eq!(again, Settlement::Earlier);
}

#[tokio::test(start_paused = true)]
async fn context_of_a_step_that_was_torn_is_told_again() {
    let store = MemoryStore::default();
    let agent = builder("say hi").store(store.clone()).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    // Cut behind the first message of the step: the environment, without the prompt.
    let log = store.bytes(agent.id().as_str()).unwrap();
    let lines = log.split_inclusive(|b| *b == b'\n');
    let at = lines.clone().position(|l| l.windows(12).any(|w| w == b"user/message")).unwrap();
    store.put("cut", lines.take(at + 1).flatten().copied().collect());
    let agent = builder("say hi").store(store.clone()).resume("cut").await.unwrap();
    agent.recover(Recovery::ResumeTurn { keyed: Vec::new() }).await.unwrap();
    agent.when_idle().await.unwrap();
    agent.shutdown().await.unwrap();
    let mut request = terret::core::project::Request::default();
    events(store.bytes("cut").unwrap()).iter().for_each(|event| request.fold(event));
    let first = request.messages().list()[0].message.text();
    assert!(first.contains("<environment>"), "{first}");
}

#[tokio::test]
async fn a_session_let_go_of_can_be_opened_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::new(dir.path());
    let agent = builder("say hi").store(store.clone()).create(None).await.unwrap();
    agent.prompt("x").await.unwrap();
    let id = agent.id().to_string();
    agent.shutdown().await.unwrap();
    for _ in 0..20 {
        let agent = builder("say hi").store(store.clone()).resume(&id).await.unwrap();
        agent.prompt("y").await.unwrap();
        agent.shutdown().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pending_message_can_be_edited_and_a_read_one_cannot() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let tool = nap(&notes, CallMode::Parallel);
    let agent = builder(TOOL).store(store.clone()).tool(tool).create(None).await.unwrap();
    let first = agent.user("one");
    agent.followup(first.clone()).await.unwrap();
    let second = agent.user("two");
    let old = agent.followup(second.clone()).await.unwrap();
    let new = agent.edit(second.id.clone(), agent.user("better")).await.unwrap();
    assert!(matches!(agent.edit(first.id, agent.user("late")).await, Err(Error::Refused(_))));
    agent.followup(agent.user("three")).await.unwrap();
    agent.when_idle().await.unwrap();
    assert!(matches!(new.settled().await, Ok(Settlement::Ended(_))));
    assert!(matches!(old.settled().await, Ok(Settlement::Removed(_))));
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let said = |event: &Event| match &event.fact {
        Fact::UserMessage(user) if user.message.source == terret::core::message::Source::User => {
            Some(user.message.text())
        }
        _ => None,
    };
    assert_eq!(log.iter().filter_map(said).collect::<Vec<_>>(), ["one", "better", "three"]);
}

#[tokio::test(start_paused = true)]
async fn clearing_the_queue_stops_nothing() {
    let notes = Notes::default();
    let agent = builder(TOOL).tool(nap(&notes, CallMode::Parallel)).create(None).await.unwrap();
    let first = agent.followup(agent.user("one")).await.unwrap();
    let second = agent.followup(agent.user("two")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    agent.clear().await.unwrap();
    assert!(matches!(second.settled().await, Ok(Settlement::Removed(_))));
    let Settlement::Ended(outcome) = first.settled().await.unwrap() else { panic!("not ended") };
    assert_eq!(outcome.ending.word(), "completed");
}
