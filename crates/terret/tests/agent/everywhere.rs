//! A session of ten steps dies at every step of its disk, and goes on inside its turn. It comes to the same
//! conversation, but for calls of which nobody knows the end; and outside nothing happened twice that must not.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use terret::agent::{Agent, Builder};
use terret::core::fact::{CallMode, EffectClass, Fact, Outcome};
use terret::core::id::CallId;
use terret::core::input::Recovery;
use terret::core::line::Event;
use terret::core::message::Block;
use terret::inspect;
use terret::store::FileStore;
use terret::testing::Watched;
use terret::tool::{Call, Done, FunctionTool, tool_with_call};

use crate::failures::stored::conversation;
use crate::support::{builder, endings, events};

const ID: &str = "s";

/// Ten steps: calls of each class alone, side by side, and across a failed request.
const SCRIPT: &str = r#"
say I look
call look {"note": "1"}
---
call set {"note": "2"}
---
call pay {"note": "3"}
---
call shoot {"note": "4"}
---
say All at once
call look {"note": "5a"}
call set {"note": "5b"}
call pay {"note": "5c"}
call shoot {"note": "5d"}
---
fail SERVER once
call set {"note": "6"}
---
call shoot {"note": "7a"}
call pay {"note": "7b"}
---
call pay {"note": "8a"}
call pay {"note": "8b"}
---
call look {"note": "9a"}
call shoot {"note": "9b"}
---
say done
---
say what comes next
"#;

/// What the world saw. It outlives every process.
#[derive(Default)]
struct World {
    /// How often each note was tried.
    attempts: BTreeMap<String, u32>,
    /// How often it took effect.
    effects: BTreeMap<String, u32>,
    /// Keys whose payment was taken: a second one is dropped.
    paid: BTreeSet<String>,
}

type Outside = Arc<Mutex<World>>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    /// Which one.
    note: String,
}

fn acting(world: &Outside, name: &'static str, effect: EffectClass) -> FunctionTool {
    let world = world.clone();
    let acting = tool_with_call(name, "Acts.", move |Note { note }: Note, call: Call| {
        let world = world.clone();
        async move {
            *world.lock().unwrap().attempts.entry(note.clone()).or_default() += 1;
            // Others run in between.
            tokio::task::yield_now().await;
            let mut world = world.lock().unwrap();
            if effect != EffectClass::Keyed || world.paid.insert(call.key) {
                *world.effects.entry(note.clone()).or_default() += 1;
            }
            Done::ok(format!("{name} {note}"))
        }
    });
    acting.effect(effect).mode(CallMode::Parallel)
}

/// The same agent in every process.
fn agent(world: &Outside, store: FileStore) -> Builder {
    builder(SCRIPT)
        .store(store)
        .tool(acting(world, "look", EffectClass::Read))
        .tool(acting(world, "set", EffectClass::Idempotent))
        .tool(acting(world, "pay", EffectClass::Keyed))
        .tool(acting(world, "shoot", EffectClass::Unsafe))
}

/// One session's disk, which nothing is written to from a chosen step on.
struct Life {
    dir: tempfile::TempDir,
    steps: Arc<AtomicU64>,
}

impl Life {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Life { dir, steps: Arc::default() }
    }

    fn dying(&self, at: u64) -> FileStore {
        let steps = self.steps.clone();
        let watched = Watched::new(move |_| match steps.fetch_add(1, Ordering::SeqCst) + 1 {
            step if step < at => Ok(()),
            _ => Err(io::Error::other("the process is dead")),
        });
        FileStore::on(Arc::new(watched), self.dir.path())
    }

    fn store(&self) -> FileStore {
        FileStore::syncing_in_place(self.dir.path())
    }

    /// The whole lines of its log.
    fn log(&self) -> Vec<u8> {
        let mut log = std::fs::read(self.store().log_path(ID)).unwrap_or_default();
        log.truncate(log.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1));
        log
    }
}

/// Runs until the turn is over or the disk is gone. Says whether the prompt was acknowledged.
async fn live(world: &Outside, store: FileStore) -> bool {
    let Ok(agent) = agent(world, store).create(Some(ID.parse().unwrap())).await else { return false };
    let receipt = agent.followup(agent.user("go")).await;
    let told = receipt.is_ok();
    if let Ok(receipt) = receipt {
        // An error where it died.
        let _ = receipt.settled().await;
    }
    let _ = agent.shutdown().await;
    told
}

/// Goes on inside the open turn, to its end.
async fn go_on(world: &Outside, life: &Life) {
    let keyed = events(life.log()).into_iter().filter_map(|event| match event.fact {
        Fact::ToolCall(call) if call.effect == EffectClass::Keyed => Some(call.call),
        _ => None,
    });
    let keyed: Vec<CallId> = keyed.collect();
    let agent: Agent = agent(world, life.store()).resume(ID).await.unwrap();
    if agent.look().await.unwrap().suspended {
        agent.recover(Recovery::ResumeTurn { keyed }).await.unwrap();
    } else {
        // The turn is over, or has not begun and waits for a wake.
        agent.prompt("wake").await.unwrap();
    }
    agent.when_idle().await.unwrap();
    agent.shutdown().await.unwrap();
}

/// Each message of the conversation, without the ids that a second attempt changes. A call of which nobody knows the
/// end is answered `?`.
fn told(events: &[Event]) -> Vec<String> {
    let results = events.iter().filter_map(|event| match &event.fact {
        Fact::ToolResult(result) if result.outcome == Outcome::Unknown => Some(result.call),
        _ => None,
    });
    let unknown: BTreeSet<CallId> = results.collect();
    let block = |block: &Block| match block {
        Block::Text { text, .. } => text.clone(),
        Block::ToolCall { name, arguments, .. } => format!("{name} {arguments}"),
        Block::ToolResult { call, .. } if unknown.contains(call) => "?".to_owned(),
        Block::ToolResult { content, .. } => format!("{content:?}"),
        other => panic!("{other:?}"),
    };
    let conversation = conversation(events);
    let messages = conversation.messages().list().iter().map(|projected| &projected.message);
    messages.map(|m| format!("{:?}: {:?}", m.role, m.content.iter().map(block).collect::<Vec<_>>())).collect()
}

#[tokio::test(start_paused = true)]
async fn dead_at_every_step_of_the_disk_a_turn_goes_on_to_the_same_end() {
    let (whole, world) = (Life::new(), Outside::default());
    assert!(live(&world, whole.dying(u64::MAX)).await);
    let steps = whole.steps.load(Ordering::SeqCst);
    let expected = told(&events(whole.log()));
    assert_eq!(world.lock().unwrap().effects.values().sum::<u32>(), 15);
    assert!(steps > 150, "only {steps} steps");

    let (mut unknown, mut again, mut dropped) = (0, 0, 0);
    for at in 1..=steps {
        let (life, world) = (Life::new(), Outside::default());
        let acknowledged = live(&world, life.dying(at)).await;
        let before = life.log();
        if !String::from_utf8_lossy(&before).contains("\"inbox/added\"") {
            assert!(!acknowledged, "step {at}: an acknowledged prompt is lost");
            continue;
        }
        go_on(&world, &life).await;
        let after = life.log();
        assert!(after.starts_with(&before), "step {at}: an old line changed");
        let report = inspect::verify(&life.store().log_path(ID)).unwrap();
        assert!(report.holds(), "step {at}: {report:?}");
        let after = events(after);
        assert!(endings(&after).iter().all(|word| *word == "completed"), "step {at}: {:?}", endings(&after));
        let found = told(&after);
        // A wake that was needed stands behind.
        assert!(found.len() >= expected.len(), "step {at}: {found:#?}");
        for (found, expected) in found.iter().zip(&expected) {
            unknown += u32::from(found.contains("\"?\""));
            assert!(found == expected || found.contains("\"?\""), "step {at}: {found}, expected {expected}");
        }
        let world = world.lock().unwrap();
        for (note, times) in &world.effects {
            let twice_is_harmless = SCRIPT.contains(&format!("look {{\"note\": \"{note}\"}}"))
                || SCRIPT.contains(&format!("set {{\"note\": \"{note}\"}}"));
            assert!(*times == 1 || twice_is_harmless, "step {at}: {note} took effect {times} times");
        }
        for (note, attempts) in &world.attempts {
            let unsafe_one = SCRIPT.contains(&format!("shoot {{\"note\": \"{note}\"}}"));
            assert!(*attempts == 1 || !unsafe_one, "step {at}: {note} was tried {attempts} times");
            again += u32::from(*attempts > 1);
            dropped += u32::from(*attempts > 1 && world.effects.get(note) == Some(&1));
        }
    }
    // Each of these came up.
    assert!(unknown > 5 && again > 20 && dropped > 5, "{unknown} unknown, {again} again, {dropped} dropped");
}
