//! Messages that come while a turn ends: none is lost, told twice or overtaken.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::agent::{Agent, Settlement, Status};
use terret::core::chunk::{Failure, code};
use terret::core::fact::{CallMode, EndReason, Lane};
use terret::core::input::Recovery;
use terret::core::message::Message;
use terret::hook::{Listener, Next, PreStep, Verdict};
use terret::store::MemoryStore;
use tokio::sync::mpsc;

use super::stored::said;
use crate::support::{Notes, builder, endings, events, nap};

/// Numbers that follow from a seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// An agent whose events wake those who wait for one.
struct Live {
    agent: Agent,
    store: MemoryStore,
    written: mpsc::UnboundedReceiver<String>,
}

impl Live {
    async fn new(script: &str) -> Live {
        let store = MemoryStore::default();
        let (write, written) = mpsc::unbounded_channel();
        let agent = builder(script)
            .store(store.clone())
            .tool(nap(&Notes::default(), CallMode::Parallel))
            .observe(move |event| drop(write.send(event.fact.type_name().to_owned())))
            .create(None)
            .await
            .unwrap();
        Live { agent, store, written }
    }

    /// Waits for the next event of this type, or until nothing happens any more; then gives way this often.
    async fn moment(&mut self, kind: &str, yields: u64) {
        let written = &mut self.written;
        let seen = async { while written.recv().await.is_some_and(|event| event != kind) {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), seen).await;
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
    }

    /// Sends, and finds the message in the log when it is told that it was taken.
    async fn send(&self, text: &str, lane: Lane) -> terret::agent::Receipt {
        let message = Message::user(text, text);
        let receipt = self.agent.handle().send(message, lane, true).await.unwrap();
        let log = String::from_utf8(self.store.bytes(self.agent.id().as_str()).unwrap()).unwrap();
        let line =
            log.lines().find(|l| l.contains("inbox/added") && l.contains(&format!("\"id\":\"{text}\"")));
        assert!(line.is_some(), "{text} was acknowledged before it was in the log");
        receipt
    }
}

const WORK: &str = "call nap {\"note\": \"a\", \"ms\": 20}\n---\nsay done\n---\nsay more\n---\nsay more";

/// Two steers and a followup while a tool runs, and one more followup at the very moment at which the turn ends: under
/// a thousand orders of events each is read once, in the order in which they came.
#[test]
fn case_021_no_message_overtakes_an_earlier_one() {
    let mut in_another_turn = 0;
    for seed in 0..1000 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        in_another_turn += runtime.unwrap().block_on(played(seed));
    }
    // The seeds do what they are for: some messages make it into the turn that ends, others do not.
    assert!((200..=3_800).contains(&in_another_turn), "{in_another_turn} of 4000 were read in a later turn");
}

/// How many of the four messages were read in a later turn than the first.
async fn played(seed: u64) -> usize {
    let mut random = Seeded(seed);
    random.below(2);
    let mut live = Live::new(WORK).await;
    let mut receipts = vec![live.send("go", Lane::NextTurn).await];
    live.moment("tool/call", random.below(4)).await;
    // The first three come somewhere in the turn, the last one where it ends.
    let places = ["tool/result", "step/end", "inbox/claimed", "assistant/message"];
    for (text, lane) in [("A", Lane::NextStep), ("B", Lane::NextStep), ("C", Lane::NextTurn)] {
        if random.below(4) == 0 {
            live.moment(places[random.below(4) as usize], random.below(12)).await;
        }
        receipts.push(live.send(text, lane).await);
    }
    live.moment("step/end", random.below(16)).await;
    receipts.push(live.send("D", Lane::NextTurn).await);
    let mut later = 0;
    for receipt in receipts {
        let Settlement::Ended(outcome) = receipt.settled().await.unwrap() else {
            panic!("seed {seed}: a message was not read")
        };
        assert_eq!(outcome.ending, EndReason::Completed, "seed {seed}");
        later += usize::from(outcome.turn > 1);
    }
    live.agent.shutdown().await.unwrap();
    let log = events(live.store.bytes(live.agent.id().as_str()).unwrap());
    assert_eq!(said(&log), ["go", "A", "B", "C", "D"], "seed {seed}");
    later
}

/// What the gate of a pre-step does with the first batch.
#[derive(Clone, Copy)]
enum Gate {
    Reject,
    Throw,
}

impl Listener<PreStep, Result<Verdict, Failure>> for Gate {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        if question.turn > 1 {
            return next.run(question);
        }
        let answer = match self {
            Gate::Reject => Ok(Verdict::Reject { by: "gate".into(), reason: "no".into(), keep: false }),
            Gate::Throw => Err(Failure::new(code::HOOK, "gate broke")),
        };
        std::future::ready(answer).boxed()
    }
}

/// A claimed message that a plugin rejects, or whose hook breaks down: its sender is told which turn that was, and one
/// that no model saw because something broke is read later.
#[tokio::test(start_paused = true)]
async fn case_023_a_claimed_message_is_accounted_for_when_its_hook_refuses_or_breaks() {
    for (gate, ending, read) in
        [(Gate::Reject, "blocked", &["two"][..]), (Gate::Throw, "error", &["one", "two"])]
    {
        let store = MemoryStore::default();
        let agent = builder("say hi").store(store.clone()).seams(|s| s.pre_step.add(Arc::new(gate)));
        let agent = agent.create(None).await.unwrap();
        let first = agent.followup(agent.user("one")).await.unwrap().settled().await.unwrap();
        match (gate, first) {
            (Gate::Reject, Settlement::Ended(o)) | (Gate::Throw, Settlement::Parked(o)) => {
                assert_eq!((o.turn, o.ending.word()), (1, ending));
            }
            (_, other) => panic!("{other:?}"),
        }
        assert_eq!(agent.prompt("two").await.unwrap().ending.word(), "completed");
        agent.shutdown().await.unwrap();
        let log = events(store.bytes(agent.id().as_str()).unwrap());
        assert_eq!(endings(&log)[0], ending);
        assert_eq!(said(&log), read);
    }
}

/// Killed between the claim and the message's entrance, at every line: after the restart the message is in the
/// history or waits, and never both or neither.
#[tokio::test(start_paused = true)]
async fn case_023_a_claimed_message_survives_a_kill() {
    let store = MemoryStore::default();
    let agent = builder("say hi").store(store.clone()).create(None).await.unwrap();
    agent.prompt("one").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = store.bytes(agent.id().as_str()).unwrap();
    let lines: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
    let claimed = lines.iter().position(|l| l.windows(13).any(|w| w == b"inbox/claimed")).unwrap();
    for keep in claimed + 1..=lines.len() {
        store.put("cut", lines[..keep].concat());
        let agent = builder("say hi").store(store.clone()).resume("cut").await.unwrap();
        if agent.status() == Status::Suspended {
            agent.recover(Recovery::Close).await.unwrap();
        }
        let waits = agent.look().await.unwrap().pending.len();
        let entered = said(&events(store.bytes("cut").unwrap())).len();
        assert_eq!(waits + entered, 1, "cut behind line {keep}");
        agent.prompt("two").await.unwrap();
        agent.shutdown().await.unwrap();
        assert_eq!(said(&events(store.bytes("cut").unwrap())), ["one", "two"], "cut behind line {keep}");
    }
}

/// A message that comes between the last look at the queue and the rest: its wake is not lost, whatever comes first.
#[test]
fn case_023_a_message_at_the_edge_of_idle_wakes_the_loop() {
    for yields in 0..200 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut live = Live::new("say hi").await;
            live.send("one", Lane::NextTurn).await;
            let edge = if yields % 2 == 0 { "turn/end" } else { "writer/idle" };
            live.moment(edge, yields / 2).await;
            let receipt = live.send("two", Lane::NextTurn).await;
            let Settlement::Ended(outcome) = receipt.settled().await.unwrap() else { panic!("not read") };
            assert_eq!((outcome.turn, outcome.ending.word()), (2, "completed"), "{yields} yields");
        });
    }
}
