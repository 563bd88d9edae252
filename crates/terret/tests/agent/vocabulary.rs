//! Events of plugins: who can go on behind them, and who is told what is missing before anything happens.

use std::sync::Arc;

use terret::agent::{Agent, Builder};
use terret::core::fact::{PluginEvent, Rel};
use terret::core::input::Record;
use terret::core::raw::Raw;
use terret::error::Error;
use terret::hook::{Plugin, Seams};
use terret::store::{FileStore, MemoryStore, Store};

use crate::support::{builder, events};

/// A plugin that does nothing but be there.
struct Named(&'static str);

impl Plugin for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn install(&self, _: &mut Seams) {}
}

fn written(kind: &str, rel: Rel) -> Record {
    Record::Plugin(PluginEvent { kind: kind.into(), rel, v: 1, data: Raw::parse("{}").unwrap() })
}

fn missing(agent: Result<Agent, Error>) -> (u64, String) {
    match agent.err() {
        Some(Error::MissingPlugin { seq, plugin }) => (seq, plugin),
        other => panic!("{other:?}"),
    }
}

async fn one_store(store: impl Store + Clone + 'static, bytes: impl Fn() -> Vec<u8>) {
    let agent = || -> Builder { builder("say hello").store(store.clone()) };
    let first = agent().create(Some("s".parse().unwrap())).await.unwrap();
    first.prompt("hi").await.unwrap();
    first.record(written("x/looks/seen", Rel::View)).await.unwrap();
    first.record(written("x/goal/set", Rel::Context)).await.unwrap();
    first.record(written("x/notes/taken", Rel::Context)).await.unwrap();
    first.shutdown().await.unwrap();
    let log = bytes();
    let at = |kind: &str| {
        let text = String::from_utf8(log.clone()).unwrap();
        text.lines().position(|line| line.contains(kind)).unwrap() as u64 - 1
    };
    let (goal, notes) = (at("x/goal/set"), at("x/notes/taken"));

    // The first that is missing is named, and nothing is written.
    assert_eq!(missing(agent().resume("s").await), (goal, "goal".into()));
    assert_eq!(missing(agent().plugin(Named("notes")).resume("s").await), (goal, "goal".into()));
    assert_eq!(missing(agent().plugin(Named("goal")).resume("s").await), (notes, "notes".into()));
    assert_eq!(missing(agent().plugin(Named("looks")).plugin(Named("set")).resume("s").await).0, goal);
    let fork = |builder: Builder, at, id: &str| builder.fork("s", at, Some(id.parse().unwrap()));
    assert_eq!(missing(fork(agent(), None, "none").await), (goal, "goal".into()));
    assert_eq!(missing(fork(agent(), Some(goal), "none").await), (goal, "goal".into()));
    assert_eq!(missing(fork(agent().plugin(Named("goal")), None, "none").await), (notes, "notes".into()));
    assert!(matches!(store.read("none"), Err(Error::NoSession(_))), "nothing is left of what was refused");
    assert_eq!(bytes(), log);

    // Before it everybody can fork, behind it who has the plugins; both go on.
    let before = fork(agent(), Some(goal - 1), "before").await.unwrap();
    assert_eq!(before.prompt("more").await.unwrap().text, "hello");
    let between = fork(agent().plugin(Named("goal")), Some(notes - 1), "between").await.unwrap();
    assert_eq!(between.prompt("more").await.unwrap().text, "hello");
    let has_all = || agent().plugin(Named("goal")).plugin(Named("notes"));
    let behind = fork(has_all(), None, "behind").await.unwrap();
    assert_eq!(behind.prompt("more").await.unwrap().text, "hello");
    let resumed = has_all().resume("s").await.unwrap();
    assert_eq!(resumed.prompt("more").await.unwrap().text, "hello");
    resumed.shutdown().await.unwrap();
    assert!(bytes().starts_with(&log) && bytes().len() > log.len());
}

#[tokio::test(start_paused = true)]
async fn a_session_in_memory_goes_on_only_with_the_plugins_its_context_is_of() {
    let store = MemoryStore::default();
    let look = store.clone();
    one_store(store, move || look.bytes("s").unwrap()).await;
}

#[tokio::test]
async fn a_session_in_a_file_goes_on_only_with_the_plugins_its_context_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::new(dir.path());
    let log = store.log_path("s");
    one_store(store, move || std::fs::read(&log).unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_session_is_free_for_the_next_and_asks_no_model() {
    let store = MemoryStore::default();
    let first = builder("say hello").store(store.clone()).create(Some("s".parse().unwrap())).await.unwrap();
    first.record(written("x/goal/set", Rel::Context)).await.unwrap();
    first.followup(first.user("hi")).await.unwrap().settled().await.unwrap();
    first.shutdown().await.unwrap();
    let log = store.bytes("s").unwrap();
    let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = asked.clone();
    let watch = builder("say hello").store(store.clone()).observe(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    missing(watch.resume("s").await);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!(events(store.bytes("s").unwrap()).len(), events(log).len());
    // The refusal let go of the session.
    builder("say hello").store(store).plugin(Named("goal")).resume("s").await.unwrap();
}
