//! A store that fails: nothing is acknowledged or started on the strength of what is not durable.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::core::fact::{CallMode, Fact};
use terret::core::line::{Event, SessionHeader};
use terret::error::Error;
use terret::store::{Log, MemoryStore, Opened, Store};

use crate::support::{Notes, builder, endings, events, nap};

/// A memory store whose nth operation fails.
#[derive(Clone, Default)]
pub(crate) struct Faulty {
    inner: MemoryStore,
    pub(crate) plan: Arc<Mutex<Plan>>,
}

#[derive(Default)]
pub(crate) struct Plan {
    appends: usize,
    syncs: usize,
    full_at: Option<usize>,
    /// Writes that hold this text find no room.
    full_for: Option<&'static str>,
    found_full: usize,
    sync_ms: u64,
    pub(crate) sync_fails_at: Option<usize>,
    /// Events written, and how many of them are synced.
    pub(crate) synced: usize,
    pub(crate) written: usize,
}

impl Plan {
    pub(crate) fn fail_next_sync(&mut self) {
        self.sync_fails_at = Some(self.syncs + 1);
    }
}

struct FaultyLog {
    inner: Box<dyn Log>,
    plan: Arc<Mutex<Plan>>,
}

impl Store for Faulty {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        self.wrap(self.inner.create(header)?)
    }
    fn open(&self, id: &str, fold: &mut dyn FnMut(&Event)) -> Result<Opened, Error> {
        self.wrap(self.inner.open(id, fold)?)
    }
    fn dir(&self, _id: &str) -> Option<PathBuf> {
        None
    }
}

impl Faulty {
    pub(crate) fn bytes(&self, id: &str) -> Option<Vec<u8>> {
        self.inner.bytes(id)
    }

    fn wrap(&self, opened: Opened) -> Result<Opened, Error> {
        let log = Box::new(FaultyLog { inner: opened.log, plan: self.plan.clone() });
        Ok(Opened { log, ..opened })
    }
}

impl Log for FaultyLog {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        let mut plan = self.plan.lock().unwrap();
        plan.appends += 1;
        let text = String::from_utf8_lossy(lines);
        if plan.full_at == Some(plan.appends) || plan.full_for.is_some_and(|word| text.contains(word)) {
            plan.found_full += 1;
            // A driver that spins holds the thread: no timer would ever end the test.
            assert!(plan.found_full < 100, "a full disk is asked again and again");
            return Err(Error::Full { path: self.path().to_owned() });
        }
        plan.written += lines.iter().filter(|b| **b == b'\n').count();
        self.inner.append(lines)
    }
    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        let mut plan = self.plan.lock().unwrap();
        plan.syncs += 1;
        let failed = plan.sync_fails_at == Some(plan.syncs);
        if failed {
            let (path, why) = (self.path().to_owned(), "planned".to_owned());
            return std::future::ready(Err(Error::Poisoned { path, why })).boxed();
        }
        plan.synced = plan.written;
        let (slow, inner) = (plan.sync_ms, self.inner.sync());
        if slow == 0 {
            return inner;
        }
        async move {
            tokio::time::sleep(std::time::Duration::from_millis(slow)).await;
            inner.await
        }
        .boxed()
    }
    fn poison(&mut self, why: &str) -> Error {
        self.inner.poison(why)
    }
    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        self.inner.reader(from)
    }
    fn length(&self) -> u64 {
        self.inner.length()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

const SCRIPT: &str = r#"
say let me
call nap {"note": "a"}
call nap {"note": "b"}
---
call nap {"note": "c"}
---
say done
"#;

#[tokio::test(start_paused = true)]
async fn a_full_disk_at_every_write_leaves_a_closed_log_that_goes_on() {
    let mut at = 0;
    loop {
        at += 1;
        let (store, notes) = (Faulty::default(), Notes::default());
        store.plan.lock().unwrap().full_at = Some(at);
        let agent = builder(SCRIPT)
            .store(store.clone())
            .tool(nap(&notes, CallMode::Parallel))
            .create(None)
            .await
            .unwrap();
        let first = agent.prompt("go").await;
        if store.plan.lock().unwrap().appends < at {
            assert_eq!(first.unwrap().ending.word(), "completed");
            break;
        }
        let idle = agent.when_idle().await.unwrap();
        assert!(idle.broken.is_none(), "write {at}: full is not poisoned: {idle:?}");
        let again = agent.prompt("go on").await.unwrap();
        assert_eq!(again.ending.word(), "completed", "write {at}");
        agent.shutdown().await.unwrap();
        let events = events(store.inner.bytes(agent.id().as_str()).unwrap());
        for name in ["a", "b", "c"] {
            let mine = format!("+{name}");
            let ran = notes.lock().unwrap().iter().filter(|n| **n == mine).count();
            let logged = events
                .iter()
                .filter(
                    |e| matches!(&e.fact, Fact::ToolCall(c) if c.arguments.contains(&format!("\"{name}\""))),
                )
                .count();
            assert!(ran <= logged, "write {at}: {name} ran {ran} times, the log knows {logged}");
        }
        if let Ok(outcome) = first {
            assert!(["error", "completed"].contains(&outcome.ending.word()), "write {at}: {outcome:?}");
        }
        assert!(endings(&events).contains(&"completed"), "write {at}");
    }
    assert!(at > 8, "only {at} writes were tried");
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_poisons_and_nothing_is_acknowledged_or_started_after_it() {
    for at in 1..=6 {
        let (store, notes) = (Faulty::default(), Notes::default());
        store.plan.lock().unwrap().sync_fails_at = Some(at);
        let agent = builder(SCRIPT)
            .store(store.clone())
            .tool(nap(&notes, CallMode::Parallel))
            .create(None)
            .await
            .unwrap();
        let receipt = agent.followup(agent.user("go")).await;
        match receipt {
            Err(_) => assert_eq!(at, 1, "only the first sync carries the acknowledgement"),
            Ok(receipt) => {
                assert_ne!(at, 1, "acknowledged on the strength of a sync that failed");
                assert!(receipt.settled().await.is_err() || at > 4, "sync {at}");
            }
        }
        // The driver is gone or going: no later mail is taken for done.
        assert!(agent.prompt("more").await.is_err() || at > 4, "sync {at}");
        let started = notes.lock().unwrap().iter().filter(|n| n.starts_with('+')).count();
        let allowed = [0, 0, 0, 2, 2, 3, 3][at];
        assert!(started <= allowed, "sync {at}: {started} tools started");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_without_room_for_saying_that_it_rests_is_not_asked_for_ever() {
    let store = Faulty::default();
    let agent = builder("say ok").store(store.clone()).create(None).await.unwrap();
    store.plan.lock().unwrap().full_for = Some("writer/idle");
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
    assert_eq!(agent.when_idle().await.unwrap().broken, None);
    assert_eq!(store.plan.lock().unwrap().found_full, 1, "it was tried once");
    store.plan.lock().unwrap().full_for = None;
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_wake_that_was_latched_is_parked_when_the_disk_is_full() {
    let (store, notes) = (Faulty::default(), Notes::default());
    let tool = nap(&notes, CallMode::Exclusive);
    let script = "call nap {\"note\": \"a\", \"ms\": 1000}\n---\nsay done";
    let agent = builder(script).store(store.clone()).tool(tool).create(None).await.unwrap();
    agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    agent.cancel(terret::core::fact::Cause::Parent).await.unwrap();
    let latched = agent.followup(agent.user("and then")).await.unwrap();
    store.plan.lock().unwrap().full_for = Some("\"a\"");
    // Nothing is left to do: who is not told now never is.
    let told = tokio::time::timeout(std::time::Duration::from_secs(3600), latched.settled()).await;
    let settled = told.expect("the receipt never resolves").unwrap();
    assert!(matches!(settled, terret::agent::Settlement::Parked(_)), "{settled:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_begins_and_ends_in_one_write_is_not_idle_before_its_sync() {
    let store = Faulty::default();
    let agent = builder("say ok").store(store.clone()).create(None).await.unwrap();
    store.plan.lock().unwrap().sync_ms = 1000;
    let looks = async {
        let idle = agent.when_idle().await.unwrap();
        (idle.last.map(|turn| turn.turn), tokio::time::Instant::now())
    };
    let start = tokio::time::Instant::now();
    let go = agent.followup(agent.user("go"));
    let stop = agent.cancel(terret::core::fact::Cause::Parent);
    let (sent, stopped, (last, told)) = tokio::join!(go, stop, looks);
    sent.unwrap();
    stopped.unwrap();
    assert_eq!(last, Some(1));
    assert!(told - start >= std::time::Duration::from_secs(1), "told before the sync was done");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_a_removal_that_is_not_synced() {
    let store = Faulty::default();
    store.plan.lock().unwrap().sync_fails_at = Some(2);
    let agent = builder(SCRIPT).store(store).create(None).await.unwrap();
    let message = agent.user("a thought");
    let receipt = agent.inject(message.clone()).await.unwrap();
    assert!(agent.remove(vec![message.id]).await.is_err(), "the sync failed");
    assert!(receipt.settled().await.is_err(), "after a power cut the message may be back");
}

#[tokio::test(start_paused = true)]
async fn a_step_costs_one_sync_for_its_attempt_and_one_for_calls_that_start_together() {
    let (store, notes) = (Faulty::default(), Notes::default());
    let agent = builder(SCRIPT)
        .store(store.clone())
        .tool(nap(&notes, CallMode::Parallel))
        .create(None)
        .await
        .unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    // Three attempts, two groups of calls, the end of the turn.
    assert_eq!(store.plan.lock().unwrap().syncs, 6);
}

/// Notes how far the log was synced whenever a request goes out.
struct Watching(terret::model::script::ScriptAdapter, Arc<Mutex<Plan>>, Arc<Mutex<Vec<(usize, usize)>>>);

impl terret::model::Adapter for Watching {
    fn prepare(
        &self,
        proposal: &terret::model::Proposal,
    ) -> Result<terret::model::Prepared, terret::core::chunk::Failure> {
        self.0.prepare(proposal)
    }
    fn stream(&self, request: terret::model::Outgoing) -> terret::model::ChunkStream {
        let plan = self.1.lock().unwrap();
        self.2.lock().unwrap().push((plan.synced, plan.written));
        self.0.stream(request)
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_before_its_fact_is_synced_and_nothing_is_shown_before_it_is_written() {
    let store = Faulty::default();
    let (plan, sent, started, shown) = (
        store.plan.clone(),
        Arc::default(),
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(Mutex::new(Vec::new())),
    );
    let player = terret::model::script::ScriptAdapter::new().with("test", SCRIPT).unwrap();
    let adapter = Watching(player, plan.clone(), Arc::clone(&sent));
    let models = terret::model::Providers::new(Box::new(|_| None)).with_adapter("script", adapter);
    let (in_tool, tool_plan) = (started.clone(), plan.clone());
    let tool = terret::tool::tool("nap", "Notes.", move |_: crate::support::Nap| {
        let plan = tool_plan.lock().unwrap();
        in_tool.lock().unwrap().push((plan.synced, plan.written));
        async { Ok::<_, String>("ok") }
    })
    .mode(CallMode::Parallel);
    let (seen, event_plan) = (shown.clone(), plan.clone());
    let agent = terret::agent::Agent::builder(Arc::new(models))
        .model("script:test")
        .unwrap()
        .store(store)
        .tool(tool)
        .observe(move |event| {
            seen.lock().unwrap().push((event.seq as usize, event_plan.lock().unwrap().written))
        })
        .create(None)
        .await
        .unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let (sent, started, shown) = (sent.lock().unwrap(), started.lock().unwrap(), shown.lock().unwrap());
    assert_eq!((sent.len(), started.len()), (3, 3));
    for (synced, written) in sent.iter().chain(started.iter()) {
        assert_eq!(synced, written, "something left with unsynced lines behind it");
    }
    for (seq, written) in shown.iter() {
        assert!(seq < written, "event {seq} was shown with {written} lines written");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_in_a_silent_stream_is_synced_within_a_second() {
    let store = Faulty::default();
    let agent = builder("say a\nwait 5000\nsay b").store(store.clone()).create(None).await.unwrap();
    agent.followup(agent.user("go")).await.unwrap();
    let behind = || {
        let plan = store.plan.lock().unwrap();
        plan.written - plan.synced
    };
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(behind() > 0, "pieces are written as they come");
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert_eq!(behind(), 0);
    agent.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_rests_does_not_begin_a_turn_because_the_disk_was_full() {
    let store = Faulty::default();
    let agent = builder("say never").store(store.clone()).at_rest().create(None).await.unwrap();
    store.plan.lock().unwrap().full_at = Some(1);
    assert!(matches!(agent.followup(agent.user("one")).await, Err(Error::Full { .. })));
    agent.followup(agent.user("two")).await.unwrap();
    agent.when_idle().await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert!(!log.iter().any(|event| matches!(event.fact, Fact::TurnStart(_))));
}
