//! Calls of tools, over a real wire: ids that come again, calls that break down, calls of a broken stream.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use terret::core::fact::{CallMode, Fact, Outcome};
use terret::core::line::Event;
use terret::store::MemoryStore;
use terret::tool::{Done, FunctionTool, tool};

use super::server::{Reply, Server};
use crate::support::events;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Command {
    /// What to run.
    command: String,
}

/// A `bash` that only notes what it was asked to run.
fn bash(ran: &Arc<Mutex<Vec<String>>>) -> FunctionTool {
    let ran = ran.clone();
    tool("bash", "Runs a command.", move |args: Command| {
        ran.lock().unwrap().push(args.command.clone());
        async move { Ok::<_, String>(format!("ran {}", args.command)) }
    })
}

/// A server that numbers its calls from the start in each answer. Both commands run, each result answers the call
/// before it, and what was sent once is sent the same again.
#[tokio::test]
async fn case_014_a_call_id_that_comes_again_is_another_call() {
    let bodies = [include_str!("014/r1.sse"), include_str!("014/r2.sse"), include_str!("014/r3.sse")];
    let (server, ran) = (Server::playing(bodies).await, Arc::default());
    let agent = server.agent().tool(bash(&ran)).create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", "both ran"));
    assert_eq!(*ran.lock().unwrap(), ["echo one", "echo two"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    let last = requests[2]["messages"].as_array().unwrap();
    let answered = last.iter().filter(|m| m["role"] == "tool");
    let told: Vec<_> = answered.map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(told, ["ran echo one", "ran echo two"]);
    let ids: Vec<_> = last.iter().filter_map(|m| m["tool_call_id"].as_str()).collect();
    assert_ne!(ids[0], ids[1], "no id is sent for two calls");
    let before = requests[1]["messages"].as_array().unwrap();
    assert_eq!(before[..], last[..before.len()], "the prefix stays");
}

fn results(told: &[Event]) -> Vec<(String, Outcome)> {
    let of = |event: &Event| match &event.fact {
        Fact::ToolResult(result) => Some((result.call.to_string(), result.outcome)),
        _ => None,
    };
    told.iter().filter_map(of).collect()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sleep {
    /// How long.
    ms: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Three calls side by side, and the one in the middle breaks down or fails without a word. The others keep their
/// output, the broken one has an error that says something, and the turn goes on.
#[tokio::test]
async fn case_016_one_of_three_calls_breaks_down_and_the_others_keep_their_results() {
    let sleep_ok = || {
        tool("sleep_ok", "Sleeps.", |args: Sleep| async move {
            tokio::time::sleep(Duration::from_millis(args.ms)).await;
            Ok::<_, String>(format!("slept {}", args.ms))
        })
        .mode(CallMode::Parallel)
    };
    let breaks = tool("boom", "Breaks down.", |_: Nothing| async { panic!("boom") as Done });
    let silent = tool("boom", "Fails.", |_: Nothing| async { Err::<String, _>("") });
    for boom in [breaks, silent] {
        let server = Server::playing([include_str!("016/r1.sse"), include_str!("016/r2.sse")]).await;
        let store = MemoryStore::default();
        let agent = server.agent().store(store.clone()).tool(sleep_ok());
        let agent = agent.tool(boom.mode(CallMode::Parallel)).create(None).await.unwrap();
        let outcome = agent.prompt("go").await.unwrap();
        assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", "both ran"));
        agent.shutdown().await.unwrap();
        let mut found = results(&events(store.bytes(agent.id().as_str()).unwrap()));
        found.sort();
        let named = |ordinal: u32, outcome| (format!("1.1.{ordinal}"), outcome);
        assert_eq!(found, [named(0, Outcome::Ok), named(1, Outcome::Error), named(2, Outcome::Ok)]);

        let messages = server.requests()[1]["messages"].as_array().unwrap().clone();
        let answers: Vec<_> = messages.iter().filter(|m| m["role"] == "tool").collect();
        let ids: Vec<_> = answers.iter().map(|m| m["tool_call_id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["c1", "c2", "c3"], "in the order of the calls");
        assert_eq!(
            (&answers[0]["content"], &answers[2]["content"]),
            (&"slept 50".into(), &"slept 80".into())
        );
        assert!(!answers[1]["content"].as_str().unwrap().trim().is_empty(), "{}", answers[1]);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Append {
    /// File.
    path: String,
    /// What to add.
    line: String,
}

/// A stream brings a whole call and is then cut; the second attempt brings it again. It runs once: nothing starts
/// before the end of the answer that is accepted.
#[tokio::test]
async fn case_051_a_call_of_a_broken_stream_never_runs() {
    let server = Server::new(vec![
        Reply::Reset(include_bytes!("051/r1.sse").to_vec()),
        Reply::Stream(include_bytes!("051/r2.sse").to_vec()),
        Reply::Stream(include_bytes!("051/r3.sse").to_vec()),
    ])
    .await;
    let (dir, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    let into = dir.path().to_owned();
    let append = tool("append", "Adds a line.", move |args: Append| {
        let path = into.join(args.path);
        async move {
            let old = std::fs::read_to_string(&path).unwrap_or_default();
            std::fs::write(&path, old + &args.line + "\n").map(|()| "added")
        }
    });
    let agent = server.agent().store(store.clone()).tool(append).create(None).await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("log.txt")).unwrap(), "A\n");
    let told = events(store.bytes(agent.id().as_str()).unwrap());
    let place = |wanted: fn(&Fact) -> bool| told.iter().position(|e| wanted(&e.fact)).unwrap();
    let failed = place(|f| matches!(f, Fact::RequestFailed(_)));
    let called = place(|f| matches!(f, Fact::ToolCall(_)));
    assert!(failed < called, "nothing of the failed attempt was started");
    assert_eq!(told.iter().filter(|e| matches!(e.fact, Fact::ToolCall(_))).count(), 1);
    assert_eq!(server.requests().len(), 3);
}
