//! Before the first turn and between turns: there is no seam for it, what runs there is the program's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use terret::agent::Status;
use terret::core::fact::{Cause, Fact, PluginEvent, Rel};
use terret::core::input::{Record, Recovery};
use terret::core::raw::Raw;
use terret::error::Error;
use terret::hook::{Plugin, Seams};
use terret::store::{MemoryStore, Store};

use crate::support::{builder, endings, events, types};

fn note() -> Record {
    let data = Raw::parse("{}".to_owned()).unwrap();
    Record::Plugin(PluginEvent { kind: "x/page/tidied".into(), rel: Rel::View, v: 1, data })
}

#[tokio::test(start_paused = true)]
async fn work_between_turns_is_the_programs_and_holds_nobody_up() {
    let store = MemoryStore::default();
    let agent = builder("wait 1000\nsay hi").store(store.clone()).create(None).await.unwrap();
    let one = agent.followup(agent.user("one")).await.unwrap();
    assert_eq!(agent.status(), Status::Running);
    let work = async {
        // Behind the turn that runs now, whenever that was.
        let rest = agent.when_idle().await.unwrap();
        assert_eq!((rest.status, rest.last.unwrap().turn), (Status::Idle, 1));
        tokio::time::sleep(Duration::from_millis(500)).await;
        agent.record(note()).await.unwrap();
        Err::<(), _>("nothing to tidy")
    };
    let sender = async {
        one.settled().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The work has begun. A cancel does not end it, and takes nothing off.
        let context = agent.inject(agent.user("context")).await.unwrap();
        agent.cancel(Cause::User { text: None }).await.unwrap();
        assert_eq!((agent.status(), agent.look().await.unwrap().pending.len()), (Status::Parked, 1));
        let two = agent.followup(agent.user("two")).await.unwrap();
        assert_eq!(agent.status(), Status::Running, "a message does not wait for the work");
        two.settled().await.unwrap();
        context.settled().await.unwrap();
    };
    let (worked, ()) = tokio::join!(work, sender);
    assert_eq!(worked, Err("nothing to tidy"), "that is between the program and its work");
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(endings(&log), ["completed", "completed"]);
    let at = |kind| types(&log).iter().rposition(|k| *k == kind).unwrap();
    assert!(at("turn/start") < at("x/page/tidied") && at("x/page/tidied") < at("turn/end"));
}

#[tokio::test(start_paused = true)]
async fn a_program_knows_what_it_began_and_what_it_took_up() {
    let store = MemoryStore::default();
    let id = Some("s".parse().unwrap());
    let first = builder("wait 1000\nsay hi").store(store.clone()).create(id).await.unwrap();
    assert!(first.left_open().is_none());
    first.followup(first.user("one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    store.put("cut", store.bytes("s").unwrap());
    first.shutdown().await.unwrap();
    for (id, open) in [("s", None), ("cut", Some(1))] {
        let again = builder("say hi").store(store.clone()).resume(id).await.unwrap();
        assert_eq!(again.left_open().map(|turn| turn.turn), open, "{id}");
        if open.is_some() {
            again.recover(Recovery::Close).await.unwrap();
            assert_eq!(again.left_open().map(|turn| turn.turn), open, "what was found stays told");
        }
        again.prompt("two").await.unwrap();
        again.shutdown().await.unwrap();
        let log = events(store.bytes(id).unwrap());
        let reason = log.iter().rev().find_map(|e| match &e.fact {
            Fact::RequestHeader(header) => Some(format!("{:?}", header.reason)),
            _ => None,
        });
        assert_eq!(reason.as_deref(), Some("Resume"), "and so does the log");
    }
}

/// Breaks down as it is put in place.
struct Breaks;

impl Plugin for Breaks {
    fn name(&self) -> &str {
        "breaks"
    }
    fn install(&self, _: &mut Seams) {
        panic!("no room");
    }
}

#[tokio::test(start_paused = true)]
async fn what_breaks_down_as_it_is_installed_is_not_installed_and_the_agent_is_as_it_was() {
    let agent = builder("say hi").create(None).await.unwrap();
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| agent.install(Breaks))).is_err(), "its name is not taken");
        assert_eq!(agent.prompt("go").await.unwrap().text, "hi");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_nobody_holds_ends_its_turn_and_lets_go_of_its_session() {
    let store = MemoryStore::default();
    let agent = builder("wait 1000\nsay hi").store(store.clone()).create(Some("s".parse().unwrap()));
    let agent = agent.await.unwrap();
    agent.followup(agent.user("one")).await.unwrap();
    drop(agent);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(matches!(store.open("s", &mut |_| {}), Err(Error::Busy { .. })), "its turn runs");
    tokio::time::sleep(Duration::from_millis(1000)).await;
    store.open("s", &mut |_| {}).unwrap();
    assert_eq!(endings(&events(store.bytes("s").unwrap())), ["completed"]);
}
