//! Who listens, from when to when, and what they are told in which order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::Agent;
use terret::agent::{Handle, Status};
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Cause};
use terret::core::input::Recovery;
use terret::error::Error;
use terret::hook::{
    InboxNotice, Installed, Listener, Next, Order, Phase, Plugin, PreStep, Seams, Stop, Stopping, Verdict,
    Vote,
};
use terret::policy::Budget;
use terret::store::MemoryStore;
use terret::tool::{Call, Done, tool_with_call};
use tokio::sync::Notify;

use crate::faults::Faulty;
use crate::support::{Nap, Notes, builder, endings, events, nap};

type Put = Box<dyn Fn(&mut Seams) + Send + Sync>;

/// A plugin from its parts.
struct Made(&'static str, Order, Put);

impl Plugin for Made {
    fn name(&self) -> &str {
        self.0
    }
    fn order(&self) -> Order {
        self.1
    }
    fn install(&self, seams: &mut Seams) {
        (self.2)(seams);
    }
}

fn made(name: &'static str, order: Order, put: impl Fn(&mut Seams) + Send + Sync + 'static) -> Made {
    Made(name, order, Box::new(put))
}

/// Notes its name before each step, and again behind what it waits for there.
struct Tag {
    name: &'static str,
    notes: Notes,
    gate: Option<Arc<Notify>>,
}

impl Listener<PreStep, Result<Verdict, Failure>> for Tag {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        async move {
            self.notes.lock().unwrap().push(self.name.to_owned());
            if let Some(gate) = &self.gate {
                gate.notified().await;
            }
            next.run(question).await
        }
        .boxed()
    }
}

fn tag(name: &'static str, order: Order, notes: &Notes, gate: Option<&Arc<Notify>>) -> Made {
    let (notes, gate) = (notes.clone(), gate.cloned());
    made(name, order, move |seams| {
        seams.pre_step.add(Arc::new(Tag { name, notes: notes.clone(), gate: gate.clone() }));
    })
}

fn taken(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut *notes.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_plugin_stands_in_its_place_as_long_as_its_guard_is_kept() {
    let notes = Notes::default();
    let agent =
        builder("say hi").plugin(tag("b", Order::default(), &notes, None)).create(None).await.unwrap();
    let before = Order { before: &["b"], ..Order::default() };
    let late = Order { phase: Phase::Late, ..Order::default() };
    let first = agent.install(tag("a", before, &notes, None)).unwrap();
    let last = agent.install(tag("z", late, &notes, None)).unwrap();
    let middle = agent.install(tag("c", Order::default(), &notes, None)).unwrap();
    agent.prompt("one").await.unwrap();
    assert_eq!(taken(&notes), ["a", "b", "c", "z"]);
    drop((first, last));
    agent.prompt("two").await.unwrap();
    assert_eq!(taken(&notes), ["b", "c"]);
    drop(middle);
    agent.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_put_in_an_order_is_refused_and_changes_nothing() {
    let notes = Notes::default();
    let before = |names| Order { before: names, ..Order::default() };
    let agent = builder("say hi").plugin(tag("b", before(&["c"]), &notes, None)).create(None).await.unwrap();
    let refused = |made| match agent.install(made) {
        Err(Error::Config(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("installed"),
    };
    assert!(refused(tag("b", Order::default(), &notes, None)).contains("two plugins are named `b`"));
    assert!(refused(tag("c", before(&["b"]), &notes, None)).contains("cannot be put in an order"));
    agent.prompt("one").await.unwrap();
    assert_eq!(taken(&notes), ["b"]);
}

/// Refuses itself.
struct Unfit;

impl Plugin for Unfit {
    fn name(&self) -> &str {
        "unfit"
    }
    fn check(&self) -> Result<(), String> {
        Err("the delay is 0: give it milliseconds".into())
    }
    fn install(&self, _: &mut Seams) {
        panic!("a plugin that refuses its settings is not installed");
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused_before_there_is_a_session() {
    let store = MemoryStore::default();
    let id = "s".parse().unwrap();
    let refused = builder("say hi").store(store.clone()).plugin(Unfit).create(Some(id)).await.err().unwrap();
    assert_eq!(refused.to_string(), "plugin `unfit`: the delay is 0: give it milliseconds");
    assert_eq!(store.bytes("s"), None);
    let agent = builder("say hi").create(None).await.unwrap();
    assert!(agent.install(Unfit).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_open_keeps_the_listeners_it_began_with() {
    let (notes, gate) = (Notes::default(), Arc::new(Notify::new()));
    let early = Order { phase: Phase::Early, ..Order::default() };
    let agent = builder("say hi").plugin(tag("gate", early, &notes, Some(&gate))).create(None).await.unwrap();
    let leaves = agent.install(tag("leaves", Order::default(), &notes, None)).unwrap();
    let one = agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(taken(&notes), ["gate"], "the question is open");
    drop(leaves);
    let _joins = agent.install(tag("joins", Order::default(), &notes, None)).unwrap();
    gate.notify_one();
    one.settled().await.unwrap();
    assert_eq!(taken(&notes), ["leaves"], "who left is asked, who came is not");
    gate.notify_one();
    agent.prompt("two").await.unwrap();
    assert_eq!(taken(&notes), ["gate", "joins"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_being_told_keeps_the_observers_it_began_with() {
    let (notes, late) = (Notes::default(), Arc::<Mutex<Option<Agent>>>::default());
    let kept = Arc::<Mutex<Vec<Installed>>>::default();
    let (seen, agent, guards) = (notes.clone(), late.clone(), kept.clone());
    let watcher = builder("say hi")
        .observe(move |event| {
            let observed = seen.clone();
            let joins = made("joins", Order::default(), move |seams| {
                let observed = observed.clone();
                seams.events.add(Arc::new(move |event| {
                    observed.lock().unwrap().push(event.fact.type_name().to_owned());
                }));
            });
            if event.fact.type_name() == "turn/start" {
                let installed = agent.lock().unwrap().as_ref().unwrap().install(joins).unwrap();
                guards.lock().unwrap().push(installed);
            }
            if event.fact.type_name() == "step/start" {
                guards.lock().unwrap().clear();
            }
        })
        .create(None)
        .await
        .unwrap();
    *late.lock().unwrap() = Some(watcher.clone());
    watcher.prompt("one").await.unwrap();
    assert_eq!(taken(&notes), ["inbox/claimed", "step/start"]);
    *late.lock().unwrap() = None;
}

/// Observers everywhere that note what they are told.
fn watch(notes: &Notes) -> impl FnOnce(&mut Seams) {
    let note = |notes: &Notes, text: String| notes.lock().unwrap().push(text);
    move |seams: &mut Seams| {
        let n = notes.clone();
        seams.events.add(Arc::new(move |e| note(&n, e.fact.type_name().to_owned())));
        let n = notes.clone();
        seams.status.add(Arc::new(move |s| note(&n, format!("= {s:?}"))));
        let n = notes.clone();
        seams.errors.add(Arc::new(move |e| {
            note(&n, format!("= error in {}.{}: {}", e.turn, e.step, e.failure.code))
        }));
        let n = notes.clone();
        seams.results.add(Arc::new(move |s| note(&n, format!("= {} {:?}", s.name, s.result.outcome))));
        let n = notes.clone();
        seams.inbox.add(Arc::new(move |notice| {
            note(
                &n,
                match notice {
                    InboxNotice::Inserted(message) => format!("= inserted {}", message.text()),
                    InboxNotice::Claimed { turn, .. } => format!("= claimed by {turn}"),
                    InboxNotice::Discarded { why, .. } => format!("= discarded {why:?}").to_lowercase(),
                },
            )
        }));
    }
}

/// An agent that is watched everywhere.
async fn watched(script: &str, notes: &Notes) -> Agent {
    let tool = nap(&Notes::default(), CallMode::Parallel);
    builder(script).tool(tool).seams(watch(notes)).create(None).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_notice_has_its_place_among_the_events() {
    let notes = Notes::default();
    let agent = watched("call nap {\"note\": \"a\"}\n---\nfail AUTH", &notes).await;
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "error");
    agent.when_idle().await.unwrap();
    let told = taken(&notes);
    let told: Vec<&str> = told.iter().map(String::as_str).filter(|kind| *kind != "assistant/chunk").collect();
    let expected = "writer/opened, inbox/added, = inserted go, = Running, turn/start, inbox/claimed, = claimed by 1, \
        step/start, user/message, user/message, request/header, request/context, request/attempt, \
        assistant/message, tool/call, = nap Ok, tool/result, step/end, inbox/claimed, step/start, request/attempt, \
        request/failed, step/end, = error in 1.2: AUTH, turn/end, writer/idle, = Idle";
    assert_eq!(told.join(", "), expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_claimed_is_told_behind_the_event_that_took_it_from_both_lanes() {
    let notes = Notes::default();
    let agent = watched("say hi", &notes).await;
    agent.inject(agent.user("context")).await.unwrap();
    agent.prompt("go").await.unwrap();
    let told = taken(&notes);
    let claimed = told.iter().position(|kind| kind == "inbox/claimed").unwrap();
    assert_eq!(told[claimed + 1..claimed + 4], ["= claimed by 1", "= claimed by 1", "step/start"]);
    assert_eq!(told.iter().filter(|kind| kind.contains("claimed")).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_writer_left_open_is_told_by_name_when_it_is_closed() {
    let (store, notes, naps) = (MemoryStore::default(), Notes::default(), Notes::default());
    let tool = || nap(&naps, CallMode::Parallel);
    let whole = builder("call nap {\"note\": \"a\", \"ms\": 1000}")
        .store(store.clone())
        .tool(tool())
        .create(None)
        .await
        .unwrap();
    whole.followup(whole.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let log = store.bytes(whole.id().as_str()).unwrap();
    let lines: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
    let call = lines.iter().position(|l| l.windows(9).any(|w| w == b"tool/call")).unwrap();
    store.put("cut", lines[..=call].concat());
    let watch = watch(&notes);
    let again = builder("say hi").store(store).tool(tool()).seams(watch).resume("cut").await.unwrap();
    assert_eq!(taken(&notes), ["= Suspended"]);
    again.recover(Recovery::Close).await.unwrap();
    again.when_idle().await.unwrap();
    let told = taken(&notes);
    let notices: Vec<_> = told.iter().filter(|t| t.starts_with("= ")).collect();
    // It is at rest once the end of what was closed is on disk, not before.
    assert_eq!(notices, ["= nap Unknown", "= Running", "= Idle"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_poisoned_is_told() {
    let (store, notes) = (Faulty::default(), Notes::default());
    store.plan.lock().unwrap().sync_fails_at = Some(1);
    let agent = builder("say hi").store(store).seams(watch(&notes)).create(None).await.unwrap();
    assert!(agent.prompt("go").await.is_err());
    assert_eq!(taken(&notes).last().map(String::as_str), Some("= Poisoned"));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_rest_ends_at_once_or_with_the_last_turn_a_cancelled_one_too() {
    let naps = Notes::default();
    let script = "call nap {\"note\": \"a\", \"ms\": 1000}\n---\nsay one\n---\nsay two\n---\nsay three";
    let agent = builder(script).tool(nap(&naps, CallMode::Parallel)).create(None).await.unwrap();
    assert!(agent.when_idle().await.unwrap().last.is_none(), "nothing ever ran");
    let send = async |text| agent.followup(agent.user(text)).await.unwrap();
    tokio::join!(send("one"), send("two"), send("three"));
    assert_eq!(agent.when_idle().await.unwrap().last.unwrap().turn, 3);
    let agent = builder(script).tool(nap(&naps, CallMode::Parallel)).create(None).await.unwrap();
    agent.followup(agent.user("one")).await.unwrap();
    let other = agent.clone();
    let rests = tokio::spawn(async move { other.when_idle().await.unwrap().status });
    tokio::time::sleep(Duration::from_millis(100)).await;
    agent.cancel(Cause::User { text: None }).await.unwrap();
    assert_eq!(rests.await.unwrap(), Status::Idle);
}

#[tokio::test(start_paused = true)]
async fn queued_turns_run_between_one_announcement_of_running_and_one_of_rest() {
    let notes = Notes::default();
    let agent = watched("say hi", &notes).await;
    let send = async |text| agent.followup(agent.user(text)).await.unwrap();
    tokio::join!(send("one"), send("two"), send("three"));
    agent.when_idle().await.unwrap();
    let status =
        |told: Vec<String>| told.into_iter().filter(|t| t.contains("= Running") || t.contains("= Idle"));
    assert_eq!(status(taken(&notes)).collect::<Vec<_>>(), ["= Running", "= Idle"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_no_error_and_what_is_taken_off_is_told() {
    let notes = Notes::default();
    let agent = watched("call nap {\"note\": \"a\", \"ms\": 60}\n---\nsay done", &notes).await;
    let one = agent.followup(agent.user("one")).await.unwrap();
    let two = agent.user("two");
    agent.followup(two.clone()).await.unwrap();
    agent.edit(two.id, agent.user("better")).await.unwrap();
    agent.clear().await.unwrap();
    agent.cancel(Cause::User { text: None }).await.unwrap();
    one.settled().await.unwrap();
    let told = taken(&notes);
    let notices: Vec<_> = told.iter().filter(|t| t.starts_with("= ")).collect();
    let expected =
        ["= inserted one", "= Running", "= claimed by 1", "= inserted two", "= discarded replaced"];
    assert_eq!(notices[..5], expected);
    assert_eq!(notices[5..7], ["= inserted better", "= discarded canceled"]);
    assert!(!told.iter().any(|t| t.starts_with("= error")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn observers_that_break_down_see_nothing_more_and_disturb_nothing() {
    let (store, notes, naps) = (MemoryStore::default(), Notes::default(), Notes::default());
    let broken = |notes: &Notes, seam: &'static str| {
        let notes = notes.clone();
        move || {
            notes.lock().unwrap().push(seam.to_owned());
            panic!("{seam} broke");
        }
    };
    let put = |seams: &mut Seams| {
        let fall = broken(&notes, "events");
        seams.events.add(Arc::new(move |_| fall()));
        let fall = broken(&notes, "status");
        seams.status.add(Arc::new(move |_| fall()));
        let fall = broken(&notes, "errors");
        seams.errors.add(Arc::new(move |_| fall()));
        let fall = broken(&notes, "results");
        seams.results.add(Arc::new(move |_| fall()));
        let fall = broken(&notes, "inbox");
        seams.inbox.add(Arc::new(move |_| fall()));
    };
    let script = "call nap {\"note\": \"a\"}\n---\nfail AUTH\n---\nsay hi";
    let agent = builder(script)
        .store(store.clone())
        .tool(nap(&naps, CallMode::Parallel))
        .seams(put)
        .create(None)
        .await
        .unwrap();
    for text in ["one", "two"] {
        assert_eq!(agent.prompt(text).await.unwrap().ending.word(), "error");
    }
    agent.shutdown().await.unwrap();
    let mut told = taken(&notes);
    told.sort_unstable();
    assert_eq!(told, ["errors", "events", "inbox", "results", "status"]);
    assert_eq!(endings(&events(store.bytes(agent.id().as_str()).unwrap())), ["error", "error"]);
}

/// Notes the turns whose sign it saw, from tasks that outlive its answers.
#[derive(Clone)]
struct Signs(Notes);

impl Signs {
    fn watch(&self, what: &'static str, mut stop: Stop) {
        let notes = self.0.clone();
        tokio::spawn(async move {
            let cancelled = stop.wait_for(|stop| *stop).await.is_ok();
            notes.lock().unwrap().push(format!("{what} {cancelled}"));
        });
    }
}

impl Listener<PreStep, Result<Verdict, Failure>> for Signs {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        self.watch("pre-step", question.stop.clone());
        next.run(question)
    }
}

impl Vote for Signs {
    fn vote<'a>(&'a self, question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        self.watch("stopping", question.stop.clone());
        std::future::ready(Ok(())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_and_tools_of_a_turn_see_one_sign_that_it_is_cancelled() {
    let (notes, signs) = (Notes::default(), Signs(Notes::default()));
    let obedient =
        tool_with_call("nap", "Naps until it is woken.", move |nap: Nap, mut call: Call| async move {
            tokio::select! {
                () = call.stopped() => Done::ok("woken"),
                () = tokio::time::sleep(Duration::from_millis(nap.ms)) => Done::ok("slept"),
            }
        });
    let put = |seams: &mut Seams| {
        seams.pre_step.add(Arc::new(signs.clone()));
        seams.stopping.add(Arc::new(signs.clone()));
        let notes = notes.clone();
        seams.results.add(Arc::new(move |s| {
            notes.lock().unwrap().push(format!("{:?}", s.result.content).contains("woken").to_string());
        }));
    };
    let script = "call nap {\"note\": \"a\", \"ms\": 1000}\n---\nsay hi";
    let agent = builder(script).tool(obedient).seams(put).create(None).await.unwrap();
    let one = agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    agent.cancel(Cause::User { text: None }).await.unwrap();
    one.settled().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((taken(&notes), taken(&signs.0)), (vec!["true".to_owned()], vec!["pre-step true".to_owned()]));
    // The sign of the next turn is another one, and a turn that ends by itself only drops it.
    assert_eq!(agent.prompt("two").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut signs = taken(&signs.0);
    signs.sort_unstable();
    assert_eq!(signs, ["pre-step false", "stopping false"]);
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_tools_is_the_programs_choice() {
    for (grace, outcome) in [(100, "Unknown"), (300, "Ok")] {
        let (told, naps) = (Notes::default(), Notes::default());
        let notes = told.clone();
        let agent = builder("call nap {\"note\": \"a\", \"ms\": 200}")
            .tool(nap(&naps, CallMode::Parallel))
            .grace(Duration::from_millis(grace))
            .seams(|seams| {
                seams.results.add(Arc::new(move |s| {
                    notes.lock().unwrap().push(format!("{:?}", s.result.outcome));
                }));
            })
            .create(None)
            .await
            .unwrap();
        let one = agent.followup(agent.user("one")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        agent.cancel(Cause::User { text: None }).await.unwrap();
        one.settled().await.unwrap();
        assert_eq!(taken(&told), [outcome], "grace of {grace} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_time_that_is_uninstalled_ends_nothing() {
    let naps = Notes::default();
    let script = "call nap {\"note\": \"a\", \"ms\": 500}\n---\nsay done";
    let agent = builder(script).tool(nap(&naps, CallMode::Parallel)).create(None).await.unwrap();
    let budget = Budget { wall_time: Some(Duration::from_millis(200)), ..Budget::default() };
    let limit = agent.install(budget).unwrap();
    let one = agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(limit);
    let settled = one.settled().await.unwrap();
    assert!(format!("{settled:?}").contains("Completed"), "{settled:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelling_when_running_is_announced_ends_the_turn_before_any_request() {
    let (handle, notes) = (Arc::<Mutex<Option<Handle>>>::default(), Notes::default());
    let (late, told) = (handle.clone(), notes.clone());
    let agent = builder("say hi")
        .seams(|seams| {
            seams.status.add(Arc::new(move |status| {
                told.lock().unwrap().push(format!("{status:?}"));
                if *status == Status::Running {
                    let handle = late.lock().unwrap();
                    handle.as_ref().unwrap().cancel_now(Cause::User { text: None }).unwrap();
                }
            }));
        })
        .create(None)
        .await
        .unwrap();
    *handle.lock().unwrap() = Some(agent.handle().clone());
    let outcome = agent.prompt("go").await.unwrap();
    assert_eq!((outcome.ending.word(), outcome.steps), ("aborted", 0));
    agent.when_idle().await.unwrap();
    // The claim came back, held: it waits until it is released.
    assert_eq!(taken(&notes), ["Running", "Parked"]);
}
