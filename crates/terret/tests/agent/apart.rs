//! Two harnesses in one process do not meet: what each does, it would have done alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::Agent;
use terret::clock::Clock;
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Cause, EffectClass};
use terret::core::message::Message;
use terret::hook::{Admission, Approver, Ask, Decision, Listener, Next, Plugin, Seams};
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::policy::{Budget, Retry};
use terret::store::{FileStore, MemoryStore, Store};
use terret::tool::{Call, Done, tool_with_call};

use crate::support::{Nap, Notes, events, types};

struct Fixed(u64);

impl Clock for Fixed {
    fn epoch_ms(&self) -> u64 {
        self.0
    }
}

/// A plugin that has the same name in every harness, and a mind of its own in each.
#[derive(Clone)]
struct Own {
    asks: bool,
    notes: Notes,
}

impl Plugin for Own {
    fn name(&self) -> &str {
        "own"
    }
    fn install(&self, seams: &mut Seams) {
        seams.pre_execute.add(Arc::new(self.clone()));
        let notes = self.notes.clone();
        seams.events.add(Arc::new(move |event| {
            notes.lock().unwrap().push(format!("{} {}", event.seq, event.fact.type_name()));
        }));
    }
}

impl Listener<Call, Admission> for Own {
    fn call<'a>(&'a self, call: Call, next: Next<'a, Call, Admission>) -> BoxFuture<'a, Admission> {
        match self.asks {
            true => std::future::ready(Admission::Ask(Ask::new("May I?"))).boxed(),
            false => next.run(call),
        }
    }
}

impl Approver for Own {
    fn decide<'a>(&'a self, _: &'a Call, _: &'a Ask) -> BoxFuture<'a, Result<Decision, Failure>> {
        std::future::ready(Ok(Decision { choice: "allow".into(), by: "own".into() })).boxed()
    }
}

/// One harness: everything of it but the names is its own.
struct Harness {
    says: &'static str,
    asks: bool,
    max_steps: u32,
    cancelled: bool,
}

const ONE: Harness = Harness { says: "one", asks: true, max_steps: 9, cancelled: false };
const TWO: Harness = Harness { says: "two", asks: false, max_steps: 2, cancelled: true };

impl Harness {
    async fn agent(&self, store: impl Store + 'static, notes: &Notes) -> Agent {
        let says = self.says;
        let script =
            format!("fail SERVER times=1\nsay {says}\ncall nap {{\"note\": \"{says}\", \"ms\": 50}}");
        let player = ScriptAdapter::new().with("test", &script).unwrap();
        let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
        let nap = tool_with_call("nap", says, move |nap: Nap, mut call: Call| async move {
            tokio::select! {
                () = call.stopped() => Done::ok(format!("{says} was woken")),
                () = tokio::time::sleep(Duration::from_millis(nap.ms)) => Done::ok(format!("{says} slept")),
            }
        });
        let own = Own { asks: self.asks, notes: notes.clone() };
        Agent::builder(Arc::new(models))
            .model("script:test")
            .unwrap()
            .store(store)
            .clock(Fixed(self.says.len() as u64 + u64::from(self.max_steps)))
            .cwd(format!("/{says}"))
            .identity(says)
            .tool(nap.mode(CallMode::Parallel).effect(EffectClass::Read))
            .plugin(Retry { base_ms: 10, cap_ms: 10, jitter_percent: 0, ..Retry::default() })
            .plugin(Budget { steps: Some(self.max_steps), ..Budget::default() })
            .plugin(own.clone())
            .approver(own)
            .create(Some("s".parse().unwrap()))
            .await
            .unwrap()
    }

    /// What it does from beginning to end; its observer's notes.
    async fn run(&self, store: impl Store + 'static) -> Vec<String> {
        let notes = Notes::default();
        let agent = self.agent(store, &notes).await;
        let first = agent.followup(Message::user("m1", "go")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(40)).await;
        if self.cancelled {
            agent.cancel(Cause::User { text: None }).await.unwrap();
        }
        first.settled().await.unwrap();
        agent.followup(Message::user("m2", "and on")).await.unwrap().settled().await.unwrap();
        agent.shutdown().await.unwrap();
        notes.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn each_leaves_the_log_it_leaves_alone() {
    let alone = [MemoryStore::default(), MemoryStore::default()];
    let notes = [ONE.run(alone[0].clone()).await, TWO.run(alone[1].clone()).await];
    let beside = [MemoryStore::default(), MemoryStore::default()];
    let (one, two) = tokio::join!(ONE.run(beside[0].clone()), TWO.run(beside[1].clone()));
    assert_eq!([one, two], notes, "an observer saw the other's events");
    for (alone, beside) in alone.iter().zip(&beside) {
        let (alone, beside) = (alone.bytes("s").unwrap(), beside.bytes("s").unwrap());
        assert!(alone == beside, "not the log it leaves alone:\n{}", String::from_utf8_lossy(&beside));
    }
    // And they are as different as they are meant to be.
    let kinds = |store: &MemoryStore, kind: &str| {
        types(&events(store.bytes("s").unwrap())).iter().filter(|k| **k == kind).count()
    };
    assert_eq!((kinds(&beside[0], "approval/decided") > 1, kinds(&beside[1], "approval/asked")), (true, 0));
    assert_eq!((kinds(&beside[0], "step/start"), kinds(&beside[1], "step/start")), (18, 3));
}

#[tokio::test]
async fn one_session_id_in_two_places_is_two_sessions() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let stores = dirs.each_ref().map(|dir| FileStore::new(dir.path()));
    let (one, two) = (Notes::default(), Notes::default());
    let first = ONE.agent(stores[0].clone(), &one).await;
    let second = TWO.agent(stores[1].clone(), &two).await;
    first.shutdown().await.unwrap();
    assert!(second.prompt("go").await.is_ok(), "it is still there, and its lock is its own");
    second.shutdown().await.unwrap();
    assert!(one.lock().unwrap().is_empty() && !two.lock().unwrap().is_empty());
}
