//! Cancels, over a real wire: in a tool, and in the pause before a retry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::agent::Settlement;
use terret::core::chunk::Failure;
use terret::core::fact::{Cause, EndReason, Fact, Outcome};
use terret::hook::{FailedAttempt, Listener, Next, Recovery};
use terret::store::MemoryStore;
use terret::tool::{Call, Done, tool_with_call};

use super::server::{Reply, Server};
use crate::support::events;

const BY_USER: Cause = Cause::User { text: None };

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    /// How long.
    ms: u64,
    /// What to say then.
    say: String,
}

/// A cancel stops the tool, the call has its one result, the turn ends aborted by the user, and the next question is
/// the last thing the model is sent. A second cancel changes nothing.
#[tokio::test]
async fn case_018_after_a_cancel_in_a_tool_the_next_prompt_has_a_turn_of_its_own() {
    let server = Server::playing([include_str!("018/r1.sse"), include_str!("018/r2.sse")]).await;
    let store = MemoryStore::default();
    let wait = tool_with_call("wait", "Waits.", |args: Wait, mut call: Call| async move {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(args.ms)) => Done::ok(args.say),
            () = call.stopped() => Done::notice(Outcome::Aborted, "stopped"),
        }
    });
    let agent = server.agent().store(store.clone()).tool(wait).create(None).await.unwrap();
    let first = agent.followup(agent.user("start the job")).await.unwrap();
    while server.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = Instant::now();
    agent.cancel(BY_USER).await.unwrap();
    agent.cancel(Cause::Parent).await.unwrap();
    let Settlement::Ended(outcome) = first.settled().await.unwrap() else { panic!("not ended") };
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!(outcome.ending, EndReason::Aborted { cause: BY_USER });
    agent.when_idle().await.unwrap();

    let second = agent.prompt("what time is it").await.unwrap();
    assert_eq!((second.turn, second.ending.word(), second.text.as_str()), (2, "completed", "noon"));
    agent.shutdown().await.unwrap();
    let told = events(store.bytes(agent.id().as_str()).unwrap());
    let of = |e: &terret::core::line::Event| match &e.fact {
        Fact::ToolResult(r) => Some(r.outcome),
        _ => None,
    };
    assert_eq!(told.iter().filter_map(of).collect::<Vec<_>>(), [Outcome::Aborted]);
    assert_eq!(told.iter().filter(|e| matches!(e.fact, Fact::TurnCancel(_))).count(), 1);
    let messages = server.requests()[1]["messages"].as_array().unwrap().clone();
    assert_eq!(messages.last().unwrap()["content"], "what time is it");
}

const SLOW_DOWN: Reply = Reply::Status(
    "429 Too Many Requests",
    "content-type: application/json\r\nretry-after: 30\r\n",
    r#"{"error":{"message":"slow down","type":"rate_limit"}}"#,
);

/// Cancels, and says all the same that the request should be asked again.
struct CancelAndRetry;

impl Listener<FailedAttempt, Result<Recovery, Failure>> for CancelAndRetry {
    fn call<'a>(
        &'a self,
        question: FailedAttempt,
        _next: Next<'a, FailedAttempt, Result<Recovery, Failure>>,
    ) -> BoxFuture<'a, Result<Recovery, Failure>> {
        question.agent.cancel_now(BY_USER).unwrap();
        std::future::ready(Ok(Recovery::Retry { by: "page".into(), delay_ms: 0 })).boxed()
    }
}

/// The server asks for half a minute; a cancel ends the wait at once, and nothing is asked again. It also wins over a
/// plugin that cancels and asks for a retry in one breath.
#[tokio::test]
async fn case_019_a_cancel_ends_the_wait_before_a_retry() {
    for at_once in [false, true] {
        let (server, store) = (Server::new(vec![SLOW_DOWN]).await, MemoryStore::default());
        let mut builder = server.agent().store(store.clone());
        if at_once {
            // Behind the retries of the fixture nobody would be asked.
            builder = builder.seams(|seams| seams.request_error.add(Arc::new(CancelAndRetry)));
        }
        let agent = builder.create(None).await.unwrap();
        let receipt = agent.followup(agent.user("go")).await.unwrap();
        if !at_once {
            tokio::time::sleep(Duration::from_millis(200)).await;
            agent.cancel(BY_USER).await.unwrap();
        }
        let asked = Instant::now();
        let Settlement::Ended(outcome) = receipt.settled().await.unwrap() else { panic!("not ended") };
        let limit = Duration::from_millis(if at_once { 2_000 } else { 250 });
        assert!(asked.elapsed() < limit, "{:?}", asked.elapsed());
        assert_eq!(outcome.ending, EndReason::Aborted { cause: BY_USER });
        agent.shutdown().await.unwrap();
        let told = events(store.bytes(agent.id().as_str()).unwrap());
        let retries = told.iter().filter(|e| matches!(e.fact, Fact::RequestRetry(_))).count();
        assert_eq!(retries, usize::from(!at_once), "a plugin's retry behind its cancel is too late");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(server.requests().len(), 1);
    }
}
