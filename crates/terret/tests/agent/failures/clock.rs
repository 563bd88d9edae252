//! A clock that jumps: order, waits and ids do not depend on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terret::clock::Clock;
use terret::core::fact::{CallMode, Fact};
use terret::store::MemoryStore;

use super::stored::{self, ID, said};
use crate::support::{Notes, builder, endings, events, nap};

const NOON: u64 = 1_700_000_000_000;
const HOUR: u64 = 3_600_000;

/// A stored log whose clock dropped by an hour, then said 0, then 2^53: it opens, both turns stand in their places,
/// and it goes on.
#[tokio::test(start_paused = true)]
async fn case_090_a_log_whose_clock_jumped_keeps_its_order() {
    let store = MemoryStore::default();
    store.put(ID, stored::log(include_str!("090.facts")));
    let before = events(store.bytes(ID).unwrap());
    assert_eq!(said(&before), ["one", "two"]);
    let agent = builder("say 3").store(store.clone()).resume(ID).await.unwrap();
    let outcome = agent.prompt("four").await.unwrap();
    assert_eq!((outcome.turn, outcome.ending.word()), (4, "completed"));
    agent.shutdown().await.unwrap();
    let after = events(store.bytes(ID).unwrap());
    assert_eq!(said(&after), ["one", "two", "four"]);
    assert_eq!(endings(&after), ["completed", "completed", "blocked", "completed"]);
    // A fork is cut by seq: behind the first turn, whose clock reads later than that of the second.
    let first = before.iter().find(|e| matches!(e.fact, Fact::TurnEnd(_))).unwrap().seq;
    let child = builder("say 5").store(store.clone()).fork(ID, Some(first), Some("child".parse().unwrap()));
    let child = child.await.unwrap();
    assert_eq!(child.prompt("five").await.unwrap().ending.word(), "completed");
    child.shutdown().await.unwrap();
    assert_eq!(said(&events(store.bytes("child").unwrap())), ["one", "five"]);
}

/// A clock that a test sets.
#[derive(Clone, Default)]
struct Jumping(Arc<AtomicU64>);

impl Clock for Jumping {
    fn epoch_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The clock drops by an hour while a tool runs, and again while a retry waits: no wait gets longer or shorter, and
/// the events stand in the order in which they happened.
#[tokio::test(start_paused = true)]
async fn case_090_a_jump_stretches_no_wait() {
    let (store, clock) = (MemoryStore::default(), Jumping::default());
    clock.0.store(NOON, Ordering::SeqCst);
    let script =
        "call nap {\"note\": \"a\", \"ms\": 1000}\n---\nfail RATE_LIMIT retry_after_ms=7000 slow\nsay done";
    let tool = nap(&Notes::default(), CallMode::Parallel);
    let agent = builder(script).store(store.clone()).clock(clock.clone()).tool(tool);
    let agent = agent.create(None).await.unwrap();
    let began = tokio::time::Instant::now();
    let receipt = agent.followup(agent.user("go")).await.unwrap();
    for _ in 0..2 {
        // In the tool, then in the wait before the retry.
        tokio::time::sleep(Duration::from_millis(600)).await;
        clock.0.fetch_sub(HOUR, Ordering::SeqCst);
    }
    receipt.settled().await.unwrap();
    let took = began.elapsed();
    assert!((8_000..8_100).contains(&took.as_millis()), "{took:?}");
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let mut times: Vec<u64> = log.iter().map(|e| e.time).collect();
    times.dedup();
    assert_eq!(times, [NOON, NOON - HOUR, NOON - 2 * HOUR], "times are what the clock said");
    assert_eq!(endings(&log), ["completed"]);
}

/// A clock that stands still makes no two equal ids.
#[tokio::test(start_paused = true)]
async fn case_090_ids_do_not_come_from_the_clock_alone() {
    let (mut sessions, mut messages) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..1_000 {
        let agent = builder("say hi").clock(Jumping::default()).create(None).await.unwrap();
        messages.insert(agent.user("x").id);
        sessions.insert(agent.id().clone());
    }
    assert_eq!((sessions.len(), messages.len()), (1_000, 1_000));
}
