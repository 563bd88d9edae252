//! Crashes: a finished log, cut behind every line, is opened, closed and continued.

use terret::agent::Status;
use terret::core::fact::{CallMode, Fact};
use terret::core::input::Recovery;
use terret::store::MemoryStore;

use crate::support::{Notes, builder, endings, events, nap};

const SCRIPT: &str = r#"
say let me
call nap {"note": "a", "ms": 20}
call nap {"note": "b", "ms": 10}
---
fail SERVER once
call nap {"note": "c"}
---
say done
---
say again
"#;

async fn whole_log() -> Vec<u8> {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let tool = nap(&notes, CallMode::Parallel);
    let agent = builder(SCRIPT).store(store.clone()).tool(tool).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    store.bytes(agent.id().as_str()).unwrap()
}

/// The log up to and with its nth line.
fn cut(log: &[u8], lines: usize) -> Vec<u8> {
    log.split_inclusive(|b| *b == b'\n').take(lines).flatten().copied().collect()
}

async fn recovered(log: Vec<u8>, recovery: Recovery) -> (Vec<String>, Vec<u8>) {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let before = log.clone();
    store.put("cut", log);
    let tool = nap(&notes, CallMode::Parallel);
    let agent = builder(SCRIPT).store(store.clone()).tool(tool).resume("cut").await.unwrap();
    if agent.look().await.unwrap().suspended {
        assert_eq!(agent.status(), Status::Suspended);
        assert_eq!(store.bytes("cut").unwrap(), before, "opening alone changes nothing");
        agent.recover(recovery).await.unwrap();
        agent.when_idle().await.unwrap();
    }
    let outcome = agent.prompt("go on").await.unwrap();
    assert_eq!(outcome.ending.word(), "completed");
    agent.shutdown().await.unwrap();
    let after = store.bytes("cut").unwrap();
    assert!(after.starts_with(&before), "what was there stays");
    (notes.lock().unwrap().clone(), after)
}

#[tokio::test(start_paused = true)]
async fn closed_at_every_line_no_tool_runs_and_the_session_goes_on() {
    let log = whole_log().await;
    let lines = log.iter().filter(|b| **b == b'\n').count();
    for keep in 2..=lines {
        let (_, after) = recovered(cut(&log, keep), Recovery::Close).await;
        let events = events(after);
        let started = |name: &str| {
            let of = |e: &&terret::core::line::Event| matches!(&e.fact, Fact::ToolCall(c) if c.arguments.contains(name));
            events.iter().filter(of).count()
        };
        for name in ["\"a\"", "\"b\""] {
            assert!(started(name) <= 1, "cut behind line {keep}: {name} started twice");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_inside_the_turn_at_every_line_unsafe_calls_do_not_run_again() {
    let log = whole_log().await;
    let lines = log.iter().filter(|b| **b == b'\n').count();
    for keep in 2..=lines {
        let before = events(cut(&log, keep));
        let (notes, after) = recovered(cut(&log, keep), Recovery::ResumeTurn { keyed: Vec::new() }).await;
        for event in &before {
            if let Fact::ToolCall(call) = &event.fact {
                let note = ["a", "b", "c"].into_iter().find(|n| call.arguments.contains(&format!("\"{n}\"")));
                let again = format!("+{}", note.unwrap());
                assert!(!notes.contains(&again), "cut behind line {keep}: {again} ran again");
            }
        }
        let ended = endings(&events(after));
        assert!(ended.iter().all(|word| *word == "completed"), "cut behind line {keep}: {ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn recovering_twice_adds_nothing_the_second_time() {
    let log = whole_log().await;
    let store = MemoryStore::default();
    store.put("cut", cut(&log, 14));
    for round in 0..2 {
        let before = store.bytes("cut").unwrap();
        let agent = builder(SCRIPT).store(store.clone()).resume("cut").await.unwrap();
        agent.recover(Recovery::Close).await.unwrap();
        agent.shutdown().await.unwrap();
        drop(agent);
        let same = store.bytes("cut").unwrap() == before;
        assert_eq!(same, round == 1, "round {round}");
    }
}
