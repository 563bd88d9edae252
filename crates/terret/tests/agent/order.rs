//! Who hears what, and when: hooks before the log, observers behind it, and how an agent says where it stands.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use terret::agent::{Handle, Settlement, Status};
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Cause, Fact, Lane};
use terret::core::message::Message;
use terret::core::project::Turns;
use terret::hook::{Listener, Next, PreStep, Verdict};
use terret::store::MemoryStore;

use crate::support::{Notes, builder, endings, events, nap, types};

const TOOL: &str = "call nap {\"note\": \"a\"}\n---\nsay done";

/// Notes what a pre-step is asked, and how many events were written then.
struct Asked(Arc<Mutex<Vec<(u32, u32, usize)>>>);

impl Listener<PreStep, Result<Verdict, Failure>> for Asked {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        self.0.lock().unwrap().push((question.turn, question.step, question.messages.len()));
        next.run(question)
    }
}

#[tokio::test(start_paused = true)]
async fn a_pre_step_is_asked_before_its_step_begins_and_a_tool_round_brings_it_nothing() {
    let (asked, shown) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(Mutex::new(Vec::new())));
    let (pre_step, seen, questions) = (asked.clone(), shown.clone(), asked.clone());
    let agent = builder(TOOL)
        .tool(nap(&Notes::default(), CallMode::Parallel))
        .seams(|s| s.pre_step.add(Arc::new(Asked(pre_step))))
        .observe(move |event| {
            if matches!(event.fact, Fact::StepStart(_)) {
                seen.lock().unwrap().push(questions.lock().unwrap().len());
            }
        })
        .create(None)
        .await
        .unwrap();
    agent.prompt("go").await.unwrap();
    // The environment and the prompt, and then nothing.
    assert_eq!(*asked.lock().unwrap(), [(1, 1, 2), (1, 2, 0)]);
    assert_eq!(*shown.lock().unwrap(), [1, 2], "asked first");
}

/// The types of the events of a turn whose observer does this.
async fn told(observe: impl Fn(&terret::core::line::Event) + Send + Sync + 'static) -> Vec<String> {
    let store = MemoryStore::default();
    let tool = nap(&Notes::default(), CallMode::Parallel);
    let agent = builder(TOOL).store(store.clone()).tool(tool).observe(observe).create(None).await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    types(&events(store.bytes(agent.id().as_str()).unwrap())).iter().map(|kind| (*kind).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_breaks_down_changes_nothing() {
    let quiet = told(|_| {}).await;
    for kind in ["turn/start", "step/start", "step/end", "tool/result", "turn/end"] {
        let broken = told(move |event| assert_ne!(event.fact.type_name(), kind, "broken")).await;
        assert_eq!(broken, quiet, "broken at {kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_breaks_down_hides_nothing_from_the_others() {
    let seen = Arc::new(Mutex::new(0));
    let (count, store) = (seen.clone(), MemoryStore::default());
    let agent = builder("say hi").store(store.clone()).observe(|_| panic!("broken"));
    let agent = agent.observe(move |_| *count.lock().unwrap() += 1).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), events(store.bytes(agent.id().as_str()).unwrap()).len());
}

#[tokio::test(start_paused = true)]
async fn what_an_observer_sends_is_mail_like_any_other() {
    let handle: Arc<Mutex<Option<Handle>>> = Arc::default();
    let (late, store) = (handle.clone(), MemoryStore::default());
    let agent = builder("say hi").store(store.clone()).observe(move |event| {
        // It reacts to the very event that puts a message into the queue.
        if matches!(&event.fact, Fact::InboxAdded(added) if &*added.message.id.0 != "again") {
            let handle = late.lock().unwrap().clone().unwrap();
            tokio::spawn(
                async move { handle.send(Message::user("again", "again"), Lane::NextTurn, true).await },
            );
        }
    });
    let agent = agent.create(None).await.unwrap();
    *handle.lock().unwrap() = Some(agent.handle().clone());
    agent.prompt("go").await.unwrap();
    agent.when_idle().await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(endings(&log), ["completed", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_running_once_a_prompt_is_taken_and_idle_once_its_end_is_synced() {
    let agent = builder("wait 100\nsay hi").create(None).await.unwrap();
    assert_eq!(agent.when_idle().await.unwrap().status, Status::Idle, "nothing to wait for");
    let receipt = agent.followup(agent.user("one")).await.unwrap();
    agent.followup(agent.user("two")).await.unwrap();
    assert_eq!(agent.status(), Status::Running);
    receipt.settled().await.unwrap();
    assert_eq!(agent.status(), Status::Running, "the queue is drained in the same stretch");
    let idle = agent.when_idle().await.unwrap();
    assert_eq!((idle.status, idle.last.unwrap().turn), (Status::Idle, 2));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_idle_before_a_cancel_hears_of_it() {
    let agent = builder("wait 60000\nsay hi").create(None).await.unwrap();
    agent.followup(agent.user("one")).await.unwrap();
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        agent.cancel(Cause::User { text: None }).await
    };
    let (idle, cancelled) = tokio::join!(agent.when_idle(), cancel);
    cancelled.unwrap();
    assert_eq!(idle.unwrap().status, Status::Idle);
}

#[tokio::test(start_paused = true)]
async fn endings_are_counted_from_the_log_alone() {
    let store = MemoryStore::default();
    let script = "say one\n---\nwait 60000\nsay two\n---\nfail AUTH no key\nsay three";
    let agent = builder(script).store(store.clone()).create(None).await.unwrap();
    agent.prompt("one").await.unwrap();
    let receipt = agent.followup(agent.user("two")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    agent.cancel(Cause::User { text: None }).await.unwrap();
    assert!(matches!(receipt.settled().await.unwrap(), Settlement::Ended(_)));
    // Nothing was said before the cancel: the same answer is due, and then the next one.
    tokio::time::advance(Duration::from_secs(60)).await;
    agent.prompt("two again").await.unwrap();
    agent.prompt("three").await.unwrap();
    agent.shutdown().await.unwrap();
    let mut turns = Turns::default();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let words = log.iter().filter_map(|e| turns.fold(e)).map(|t| t.reason.unwrap().word().to_owned());
    let words: Vec<String> = words.collect();
    let count = |word: &str| words.iter().filter(|w| *w == word).count();
    assert_eq!((count("completed"), count("aborted"), count("error")), (2, 1, 1), "{words:?}");
}
