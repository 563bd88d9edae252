//! Turns from the outside: outcomes, order, cancels, retries, queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use terret::agent::{Settlement, Status};
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Cause, EndReason, Fact, Lane, Outcome};
use terret::hook::{Listener, Next, PreStep, Verdict};
use terret::inspect;
use terret::policy::{Budget, Repeat};
use terret::store::MemoryStore;

use crate::support::{Notes, builder, endings, events, nap, types};

const TWO_NAPS: &str = r#"
call nap {"note": "a", "ms": 200}
call nap {"note": "b", "ms": 100}
---
say both done
"#;

async fn run(script: &str, mode: CallMode) -> (Notes, Vec<terret::core::line::Event>) {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let agent = builder(script).store(store.clone()).tool(nap(&notes, mode)).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = store.bytes(agent.id().as_str()).unwrap();
    (notes, events(log))
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_a_tool_is_told_in_order() {
    let (_, events) = run("call nap {\"note\": \"a\"}\n---\nsay done", CallMode::Exclusive).await;
    let expected = "writer/opened inbox/added turn/start inbox/claimed step/start user/message user/message \
                    request/header request/context request/attempt assistant/message tool/call tool/result \
                    step/end inbox/claimed step/start request/attempt assistant/message step/end turn/end \
                    writer/idle";
    assert_eq!(types(&events).join(" "), expected);
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_overlap_and_exclusive_ones_do_not() {
    let (notes, _) = run(TWO_NAPS, CallMode::Parallel).await;
    assert_eq!(*notes.lock().unwrap(), ["+a", "+b", "-b", "-a"]);
    let (notes, _) = run(TWO_NAPS, CallMode::Exclusive).await;
    assert_eq!(*notes.lock().unwrap(), ["+a", "-a", "+b", "-b"]);
}

#[tokio::test(start_paused = true)]
async fn results_reach_the_model_in_the_order_of_the_calls() {
    let (_, events) = run(TWO_NAPS, CallMode::Parallel).await;
    let mut request = terret::core::project::Request::default();
    events.iter().for_each(|event| request.fold(event));
    let sources: Vec<String> = request.messages().list().iter().map(|p| p.message.id.to_string()).collect();
    let results: Vec<&String> = sources.iter().filter(|id| id.starts_with("result-")).collect();
    assert_eq!(results, ["result-1.1.0", "result-1.1.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_a_stream_keeps_what_was_said() {
    let store = MemoryStore::default();
    let agent =
        builder("say half an\nwait 60000\nsay answer").store(store.clone()).create(None).await.unwrap();
    let receipt = agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(agent.status(), Status::Running);
    agent.cancel(Cause::User { text: None }).await.unwrap();
    let Settlement::Ended(outcome) = receipt.settled().await.unwrap() else { panic!("not ended") };
    assert_eq!(outcome.ending, EndReason::Aborted { cause: Cause::User { text: None } });
    assert_eq!(outcome.text, "half an");
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let cut = events.iter().any(|e| matches!(&e.fact, Fact::AssistantMessage(m) if m.interrupted));
    assert!(cut, "{:?}", types(&events));
}

#[tokio::test(start_paused = true)]
async fn a_tool_deaf_to_a_stop_is_dropped_after_its_grace_and_its_outcome_is_unknown() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let agent = builder("call nap {\"note\": \"a\", \"ms\": 3600000}\n---\nsay never")
        .store(store.clone())
        .tool(nap(&notes, CallMode::Exclusive))
        .create(None)
        .await
        .unwrap();
    let receipt = agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    agent.cancel(Cause::User { text: None }).await.unwrap();
    receipt.settled().await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(5));
    agent.shutdown().await.unwrap();
    assert_eq!(*notes.lock().unwrap(), ["+a"]);
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let outcomes: Vec<Outcome> = events
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::ToolResult(result) => Some(result.outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [Outcome::Unknown]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_passes_is_asked_again_with_the_same_bytes() {
    let script = "say lost\nfail RATE_LIMIT times=2 status=429 retry_after_ms=7000 slow down\nsay found";
    let store = MemoryStore::default();
    let agent = builder(script).store(store.clone()).create(None).await.unwrap();
    let before = tokio::time::Instant::now();
    let outcome = agent.prompt("go").await.unwrap();
    assert_eq!(outcome.ending, EndReason::Completed);
    assert!(before.elapsed() >= Duration::from_secs(14), "the provider's hint is obeyed");
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let bodies: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::RequestAttempt(attempt) => Some(attempt.wire_digest),
            _ => None,
        })
        .collect();
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|body| *body == bodies[0] && body.is_some()));
}

#[tokio::test(start_paused = true)]
async fn after_an_error_the_queue_is_parked_and_the_next_wake_drains_it() {
    let script = "fail AUTH the key is wrong\nsay one\n---\nsay two\n---\nsay three";
    let store = MemoryStore::default();
    let agent = builder(script).store(store.clone()).create(None).await.unwrap();
    let handle = agent.handle().clone();
    let send = |text| handle.send(agent.user(text), Lane::NextTurn, true);
    let (first, second) = tokio::join!(send("first"), send("second"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(matches!(first.settled().await.unwrap(), Settlement::Ended(o) if o.ending.word() == "error"));
    let Settlement::Parked(_) = second.settled().await.unwrap() else { panic!("not parked") };
    assert_eq!(agent.when_idle().await.unwrap().status, Status::Parked);
    let third = agent.prompt("third").await.unwrap();
    assert_eq!((third.turn, third.ending.word()), (3, "completed"));
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(endings(&events), ["error", "completed", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_steer_waits_for_the_next_step_and_an_injected_note_starts_nothing() {
    let (store, notes) = (MemoryStore::default(), Notes::default());
    let agent = builder("call nap {\"note\": \"a\", \"ms\": 1000}\n---\nsay done\n---\nsay more")
        .store(store.clone())
        .tool(nap(&notes, CallMode::Exclusive))
        .create(None)
        .await
        .unwrap();
    agent.inject(agent.user("a note")).await.unwrap();
    assert_eq!(agent.status(), Status::Parked);
    let receipt = agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    agent.steer(agent.user("left")).await.unwrap();
    receipt.settled().await.unwrap();
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let said: Vec<(u32, String)> = events
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::UserMessage(user) if user.message.source == terret::core::message::Source::User => {
                Some((user.step, user.message.text()))
            }
            _ => None,
        })
        .collect();
    let expected = [(1, "a note"), (1, "go"), (2, "left")].map(|(step, text)| (step, text.to_owned()));
    assert_eq!(said, expected);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_id_is_acknowledged_once_and_other_content_is_refused() {
    let agent = builder("say ok\n---\nsay again").create(None).await.unwrap();
    let message = terret::core::message::Message::user("m-1", "go");
    agent.followup(message.clone()).await.unwrap().settled().await.unwrap();
    agent.followup(message).await.unwrap();
    assert_eq!(agent.when_idle().await.unwrap().last.unwrap().turn, 1, "nothing ran again");
    let other = terret::core::message::Message::user("m-1", "something else");
    assert!(agent.followup(other).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn subscribers_read_the_stored_bytes() {
    let store = MemoryStore::default();
    let agent = builder("say ok").store(store.clone()).create(None).await.unwrap();
    let mut lines = agent.subscribe().await.unwrap();
    let mut read = agent.header_line().await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    while let Some(more) = lines.next().await.unwrap() {
        read.extend(more);
    }
    assert_eq!(read, store.bytes(agent.id().as_str()).unwrap());
}

#[tokio::test]
async fn a_session_on_disk_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let store = terret::store::FileStore::new(dir.path().join("sessions"));
    let notes = Notes::default();
    let agent = builder(TWO_NAPS)
        .store(store.clone())
        .cwd(dir.path())
        .tool(nap(&notes, CallMode::Parallel))
        .create(None)
        .await
        .unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let report = inspect::verify(&store.log_path(agent.id().as_str())).unwrap();
    assert!(report.holds(), "{:?}", report.mismatches);
    assert_eq!((report.attempts, report.proven), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_ends_the_turn_and_says_which() {
    let script =
        "call nap {\"note\": \"a\"}\ncall nap {\"note\": \"b\"}\nusage input=60 output=5\n---\nsay done";
    let cases = [
        (Budget { tokens: Some(65), ..Budget::default() }, "tokens", vec!["+a", "-a", "+b", "-b"]),
        (Budget { tool_calls: Some(1), ..Budget::default() }, "tool-calls", vec!["+a", "-a"]),
        (Budget { steps: Some(1), ..Budget::default() }, "steps", vec!["+a", "-a", "+b", "-b"]),
    ];
    for (budget, which, ran) in cases {
        let notes = Notes::default();
        let tool = nap(&notes, CallMode::Exclusive);
        let agent = builder(script).tool(tool).plugin(budget).create(None).await.unwrap();
        let ending = agent.prompt("go").await.unwrap().ending;
        let named =
            matches!(&ending, EndReason::Aborted { cause: Cause::Budget { which: w, .. } } if w == which);
        assert!(named, "{which}: {ending:?}");
        assert_eq!(*notes.lock().unwrap(), ran, "{which}");
    }
    let plenty = Budget { tokens: Some(1_000_000), tool_calls: Some(2), steps: Some(2), ..Budget::default() };
    let notes = Notes::default();
    let tool = nap(&notes, CallMode::Exclusive);
    let agent = builder(script).tool(tool).plugin(plenty).create(None).await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_repeats_itself_is_reminded_and_then_stopped() {
    let (store, script) = (MemoryStore::default(), "call nonsense {\"a\": 1}");
    let agent = builder(script).store(store.clone()).plugin(Repeat::default()).create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    assert!(
        matches!(outcome.ending, EndReason::Aborted { cause: Cause::Hook { .. } }),
        "{:?}",
        outcome.ending
    );
    assert_eq!(outcome.steps, 12);
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let reminded = |e: &&terret::core::line::Event| matches!(&e.fact, Fact::UserMessage(user) if user.message.id.to_string().starts_with("repeat-"));
    // After three and after six; twelve is the end.
    assert_eq!(events.iter().filter(reminded).count(), 2);
    let recorded = |e: &&terret::core::line::Event| matches!(&e.fact, Fact::SeamChanged(s) if (&*s.seam, &*s.plugin) == ("agent/pre-step", "repeat"));
    assert_eq!(events.iter().filter(recorded).count(), 2, "who put the reminders in is a query");
}

#[tokio::test(start_paused = true)]
async fn a_poll_is_reminded_and_never_stopped() {
    let notes = Notes::default();
    let poll = "call nap {\"note\": \"a\"}\n---\n".repeat(20) + "say it is there";
    let tool = nap(&notes, CallMode::Exclusive);
    let agent = builder(&poll).tool(tool).plugin(Repeat::default()).create(None).await.unwrap();
    let outcome = agent.prompt("wait for it").await.unwrap();
    assert_eq!((outcome.ending.word(), outcome.steps), ("completed", 21));
}

/// Notes, when it is asked, how many turns were seen to start.
struct Early(Arc<AtomicU32>, Notes);

impl Listener<PreStep, Result<Verdict, Failure>> for Early {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let seen = self.0.load(Ordering::Relaxed);
        self.1.lock().unwrap().push(format!("turn {} of {seen}", question.turn));
        next.run(question)
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_a_turn_that_is_not_written() {
    let (seen, notes) = (Arc::<AtomicU32>::default(), Notes::default());
    let counted = seen.clone();
    let early = Early(seen, notes.clone());
    let agent = builder("say ok")
        .seams(|seams| seams.pre_step.add(Arc::new(early)))
        .observe(move |event| {
            let starts = u32::from(matches!(event.fact, Fact::TurnStart(_)));
            counted.fetch_add(starts, Ordering::Relaxed);
        })
        .create(None)
        .await
        .unwrap();
    // The second piece of mail is there while the first is worked on.
    let (noted, sent) = tokio::join!(agent.inject(agent.user("a note")), agent.followup(agent.user("go")));
    noted.unwrap();
    sent.unwrap().settled().await.unwrap();
    assert_eq!(*notes.lock().unwrap(), ["turn 1 of 1"]);
}
