//! How answers end, over a real wire.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use terret::agent::Outcome;
use terret::core::chunk::{FinishKind, code};
use terret::core::fact::{EndReason, Fact};
use terret::core::line::Event;
use terret::core::message::{Block, Source};
use terret::store::MemoryStore;
use terret::tool::{FunctionTool, tool};

use super::server::Server;
use crate::support::events;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Anything {}

fn noting(name: &'static str, ran: &Arc<Mutex<Vec<&'static str>>>) -> FunctionTool {
    let ran = ran.clone();
    tool(name, "Notes that it ran.", move |_: Anything| {
        ran.lock().unwrap().push(name);
        async { Ok::<_, String>("ran") }
    })
}

/// What became of a prompt whose answers are these bodies, and of a second prompt behind it.
struct Played {
    outcome: Outcome,
    ran: Vec<&'static str>,
    events: Vec<Event>,
    requests: Vec<Value>,
}

async fn play<const N: usize>(bodies: [&str; N]) -> Played {
    let (server, store, ran) = (Server::playing(bodies).await, MemoryStore::default(), Arc::default());
    let mut builder = server.agent().store(store.clone());
    for name in ["bash", "write", "ls"] {
        builder = builder.tool(noting(name, &ran));
    }
    let agent = builder.create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    // So that what the answer left in the history is sent, too: `requests` checks it.
    agent.prompt("and now?").await.unwrap();
    agent.shutdown().await.unwrap();
    let ran = ran.lock().unwrap().clone();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    Played { outcome, ran, events, requests: server.requests() }
}

impl Played {
    /// The answers of the first turn.
    fn answers(&self) -> Vec<&[Block]> {
        let of_first = self.events.iter().filter_map(|event| match &event.fact {
            Fact::AssistantMessage(answer) if answer.turn == 1 => Some(&answer.message.content[..]),
            _ => None,
        });
        of_first.collect()
    }

    /// The codes of the first turn's failed attempts, with the server's own words.
    fn failures(&self) -> Vec<(&str, Option<&str>)> {
        let of_first = self.events.iter().filter_map(|event| match &event.fact {
            Fact::RequestFailed(f) if f.turn == 1 => {
                Some((f.failure.code.as_str(), f.failure.raw.as_deref()))
            }
            _ => None,
        });
        of_first.collect()
    }
}

/// The output limit cut the answer: no call of it runs, whole or not, the turn says so, and the next request is one
/// a server takes.
#[tokio::test]
async fn case_052_calls_of_an_answer_cut_by_the_limit_never_run() {
    let played = play([include_str!("052/stream.sse"), include_str!("018/r2.sse")]).await;
    assert_eq!(played.outcome.ending, EndReason::MaxTokens);
    assert!(played.ran.is_empty(), "{:?}", played.ran);
    assert!(!played.events.iter().any(|e| matches!(e.fact, Fact::ToolCall(_))));
    assert_eq!(played.requests.len(), 2);
    let cut = played.events.iter().find_map(|e| match &e.fact {
        Fact::AssistantMessage(answer) => Some(answer),
        _ => None,
    });
    assert_eq!((cut.unwrap().finish.kind, &cut.unwrap().calls[..]), (FinishKind::MaxTokens, &[][..]));
    let sent = played.requests[1]["messages"].as_array().unwrap();
    assert!(sent.iter().all(|m| m["tool_calls"].is_null()), "a call without a result is not sent");
}

/// What counts is what the answer holds, not the word it ends with: a call runs after a `stop`, and without one a
/// `tool_calls` ends the turn.
#[tokio::test]
async fn case_054_calls_run_whatever_the_word_at_the_end() {
    let played = play([include_str!("054/stream.sse"), include_str!("018/r2.sse")]).await;
    assert_eq!((played.outcome.ending.word(), played.outcome.steps), ("completed", 2));
    assert_eq!(played.ran, ["ls"]);
    let [Block::Text { text, .. }, Block::ToolCall { id, name, .. }] = played.answers()[0] else { panic!() };
    assert_eq!((text.as_str(), id.as_str(), name.as_str()), ("checking", "c1", "ls"));

    let played = play([include_str!("054/none.sse")]).await;
    assert_eq!((played.outcome.ending.word(), played.outcome.steps), ("completed", 1));
    assert!(played.ran.is_empty());
}

/// Reasoning and nothing else is an answer: one request, one anchor, no message put in by us, and the caller can see
/// that nothing was said.
#[tokio::test]
async fn case_055_an_answer_of_reasoning_alone_is_one() {
    let played = play([include_str!("055/stream.sse"), include_str!("018/r2.sse")]).await;
    assert_eq!((played.outcome.ending.word(), played.outcome.text.as_str()), ("completed", ""));
    let [[Block::Reasoning { text, .. }]] = &played.answers()[..] else { panic!("{:?}", played.answers()) };
    assert_eq!(text, "The answer is in here: 42.");
    assert_eq!(played.requests.len(), 2, "one for each prompt");
    let people = |e: &&Event| matches!(&e.fact, Fact::UserMessage(u) if u.message.source == Source::User);
    assert_eq!(played.events.iter().filter(people).count(), 2);
}

/// An ending nobody knows is a failure that keeps the word; so is a content filter; a server that gave up is asked
/// again; an empty word is no ending at all.
#[tokio::test]
async fn case_057_endings_nobody_knows_are_failures() {
    let played = play([include_str!("057/stream.sse"), include_str!("018/r2.sse")]).await;
    let word = Some("malformed_function_call");
    assert_eq!(played.failures(), [(code::OTHER_FINISH, word)]);
    assert!(played.ran.is_empty(), "its call does not run");
    let EndReason::Error { failure } = &played.outcome.ending else { panic!("{:?}", played.outcome) };
    assert_eq!((failure.code.as_str(), failure.raw.as_deref()), (code::OTHER_FINISH, word));

    let played = play([include_str!("057/filter.sse"), include_str!("018/r2.sse")]).await;
    assert_eq!(played.failures(), [(code::CONTENT_FILTER, Some("content_filter"))]);
    assert_eq!(played.outcome.ending.word(), "error");
    assert_eq!(played.requests.len(), 2, "not asked again");

    let played = play([include_str!("057/busy.sse"), include_str!("018/r2.sse")]).await;
    assert_eq!((played.failures().len(), played.outcome.text.as_str()), (1, "noon"), "asked again");

    let played = play([include_str!("057/empty.sse")]).await;
    assert_eq!((played.outcome.ending.word(), played.outcome.text.as_str()), ("completed", "xy"));
}
