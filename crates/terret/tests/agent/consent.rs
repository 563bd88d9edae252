//! Calls that need consent: what is in the log when somebody is asked, and what starts on whose word.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::agent::Builder;
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Cause, EffectClass, Fact};
use terret::core::input::Recovery;
use terret::hook::{Admission, Approver, Ask, Choice, Decision, Listener, Next};
use terret::store::MemoryStore;
use terret::tool::{Call, tool};

use crate::faults::Faulty;
use crate::support::{Nap, Notes, builder, endings, events, nap, types};

const SCRIPT: &str = "call nap {\"note\": \"a\"}\n---\nsay done";

/// Lets no call start without consent.
struct Careful;

impl Listener<Call, Admission> for Careful {
    fn call<'a>(&'a self, call: Call, _: Next<'a, Call, Admission>) -> BoxFuture<'a, Admission> {
        let mut ask = Ask::new(format!("{} {}", call.name, call.arguments));
        ask.choices.push(Choice { name: "allow for the session".into(), allows: true });
        std::future::ready(Admission::Ask(ask)).boxed()
    }
}

fn careful(script: &str) -> Builder {
    builder(script).seams(|seams| seams.pre_execute.add(Arc::new(Careful)))
}

/// Does what it is made of, then answers `allow for the session`.
struct Person<F>(F);

impl<F: Fn() + Send + Sync> Approver for Person<F> {
    fn decide<'a>(&'a self, _: &'a Call, _: &'a Ask) -> BoxFuture<'a, Result<Decision, Failure>> {
        (self.0)();
        let decision = Decision { choice: "allow for the session".into(), by: "person".into() };
        std::future::ready(Ok(decision)).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn the_question_is_written_before_it_is_shown_and_the_answer_before_the_call() {
    let (store, naps) = (MemoryStore::default(), Notes::default());
    let shown = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let (log, at) = (store.clone(), shown.clone());
    let agent = careful(SCRIPT)
        .store(store.clone())
        .approver(Person(move || at.lock().unwrap().push(log.bytes("s").unwrap())))
        .tool(nap(&naps, CallMode::Parallel))
        .create(Some("s".parse().unwrap()))
        .await
        .unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().text, "done");
    agent.shutdown().await.unwrap();
    let shown = std::mem::take(&mut *shown.lock().unwrap());
    let [log] = <[_; 1]>::try_from(shown).expect("asked once");
    assert_eq!(types(&events(log)).last(), Some(&"approval/asked"));
    let whole = events(store.bytes("s").unwrap());
    let at = |kind| types(&whole).iter().position(|k| *k == kind).unwrap();
    assert_eq!((at("approval/decided") + 1, at("approval/asked") + 2), (at("tool/call"), at("tool/call")));
    assert_eq!(*naps.lock().unwrap(), ["+a", "-a"]);
}

/// Asks for calls with these words in their arguments.
struct About(&'static str);

impl Listener<Call, Admission> for About {
    fn call<'a>(&'a self, call: Call, next: Next<'a, Call, Admission>) -> BoxFuture<'a, Admission> {
        match call.arguments.contains(self.0) {
            true => std::future::ready(Admission::Ask(Ask::new("Really?"))).boxed(),
            false => next.run(call),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_question_is_written_first_even_if_other_answers_are_ready() {
    let (store, shown) = (MemoryStore::default(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
    let (log, at) = (store.clone(), shown.clone());
    let quick = tool("nap", "Is ready at once.", |_: Nap| async { Ok::<_, String>("ok") });
    let agent = builder("call nap {\"note\": \"a\"}\ncall nap {\"note\": \"b\"}\n---\nsay done")
        .store(store.clone())
        .seams(|seams| seams.pre_execute.add(Arc::new(About("b"))))
        .approver(Person(move || at.lock().unwrap().push(log.bytes("s").unwrap())))
        .tool(quick.mode(CallMode::Parallel))
        .create(Some("s".parse().unwrap()))
        .await
        .unwrap();
    agent.prompt("go").await.unwrap();
    let shown = shown.lock().unwrap();
    assert!(types(&events(shown[0].clone())).contains(&"approval/asked"));
}

#[tokio::test(start_paused = true)]
async fn a_call_starts_only_when_its_consent_is_synced() {
    let store = Faulty::default();
    let (plan, started) = (store.plan.clone(), Arc::<Mutex<Vec<usize>>>::default());
    let seen = started.clone();
    let tool = tool("nap", "Notes how much is synced.", move |_: Nap| {
        seen.lock().unwrap().push(plan.lock().unwrap().synced);
        async { Ok::<_, String>("ok") }
    });
    let decided = Arc::<Mutex<Vec<usize>>>::default();
    let at = decided.clone();
    let agent = careful(SCRIPT)
        .store(store)
        .approver(Person(|| {}))
        .tool(tool)
        .observe(move |event| {
            if let Fact::ApprovalDecided(_) = event.fact {
                at.lock().unwrap().push(event.seq as usize);
            }
        })
        .create(None)
        .await
        .unwrap();
    agent.prompt("go").await.unwrap();
    let (decided, started) = (decided.lock().unwrap(), started.lock().unwrap());
    assert_eq!((decided.len(), started.len()), (1, 1));
    assert!(started[0] > decided[0], "{} lines synced, consent is line {}", started[0], decided[0]);
}

/// Never answers, and tells when it is no longer waited for.
struct Silent(Notes);

struct Dropped(Notes);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("dropped".to_owned());
    }
}

impl Approver for Silent {
    fn decide<'a>(&'a self, _: &'a Call, _: &'a Ask) -> BoxFuture<'a, Result<Decision, Failure>> {
        self.0.lock().unwrap().push("asked".to_owned());
        let waits = Dropped(self.0.clone());
        async move {
            let _waits = waits;
            std::future::pending().await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_takes_the_question_back() {
    let (store, naps, notes) = (MemoryStore::default(), Notes::default(), Notes::default());
    let agent = careful(SCRIPT)
        .store(store.clone())
        .approver(Silent(notes.clone()))
        .tool(nap(&naps, CallMode::Parallel))
        .create(None)
        .await
        .unwrap();
    let one = agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(*notes.lock().unwrap(), ["asked"], "silence is not consent");
    agent.cancel(Cause::User { text: None }).await.unwrap();
    one.settled().await.unwrap();
    assert_eq!(*notes.lock().unwrap(), ["asked", "dropped"]);
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert!(!types(&log).contains(&"approval/decided") && !types(&log).contains(&"tool/call"));
    assert_eq!(endings(&log), ["aborted"]);
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_breaks_down_consents_to_nothing() {
    let (store, naps) = (MemoryStore::default(), Notes::default());
    let agent = careful(SCRIPT)
        .store(store.clone())
        .approver(Person(|| panic!("the terminal is gone")))
        .tool(nap(&naps, CallMode::Parallel))
        .create(None)
        .await
        .unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().text, "done", "the turn goes on");
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert!(!types(&log).contains(&"tool/call") && naps.lock().unwrap().is_empty());
    let result = log.iter().find_map(|event| match &event.fact {
        Fact::ToolResult(result) => Some(format!("{:?}", result.content)),
        _ => None,
    });
    assert!(result.unwrap().contains("the terminal is gone"));
}

fn cut(log: &[u8], lines: usize) -> Vec<u8> {
    log.split_inclusive(|b| *b == b'\n').take(lines).flatten().copied().collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_any_line_it_is_asked_again_unless_the_call_had_started() {
    let agent = |store: &MemoryStore, asked: &Notes, naps: &Notes| {
        let asked = asked.clone();
        let tool = nap(naps, CallMode::Parallel).effect(EffectClass::Idempotent);
        let person = Person(move || asked.lock().unwrap().push("asked".to_owned()));
        careful(SCRIPT).store(store.clone()).approver(person).tool(tool)
    };
    let (store, asked, naps) = (MemoryStore::default(), Notes::default(), Notes::default());
    let whole = agent(&store, &asked, &naps).create(Some("s".parse().unwrap())).await.unwrap();
    whole.prompt("go").await.unwrap();
    whole.shutdown().await.unwrap();
    let log = store.bytes("s").unwrap();
    let lines = log.iter().filter(|b| **b == b'\n').count();
    let mut resumed = 0;
    for keep in 2..=lines {
        let before = events(cut(&log, keep));
        let had = |kind| types(&before).contains(&kind);
        for close in [true, false] {
            let (asked, naps) = (Notes::default(), Notes::default());
            store.put("cut", cut(&log, keep));
            let again = agent(&store, &asked, &naps).resume("cut").await.unwrap();
            if !again.look().await.unwrap().suspended {
                continue;
            }
            resumed += 1;
            let recovery = if close { Recovery::Close } else { Recovery::ResumeTurn { keyed: vec![] } };
            again.recover(recovery).await.unwrap();
            again.when_idle().await.unwrap();
            again.shutdown().await.unwrap();
            let (times, ran) = (asked.lock().unwrap().len(), !naps.lock().unwrap().is_empty());
            let started = had("tool/call");
            assert_eq!(times, usize::from(!close && !started), "cut behind line {keep}, close: {close}");
            assert_eq!(ran, !close && !had("tool/result"), "cut behind line {keep}, close: {close}");
            events(store.bytes("cut").unwrap());
        }
    }
    assert!(resumed > 20, "only {resumed} crashes were looked at");
}
