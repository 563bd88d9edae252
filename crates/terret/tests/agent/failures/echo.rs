//! What goes back to a model of its own words, byte for byte and for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use terret::clock::Clock;
use terret::core::message::{Block, Message, Role};
use terret::model::ProviderSettings;
use terret::model::{codec, no_blobs};
use terret::store::{Fork, MemoryStore, Store, fork};
use terret::tool::tool;

use super::server::{Reply, Server};
use super::stored;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A call that was thought about is sent back with the thought, unchanged, in every later request: of the same turn,
/// of the next, behind a resume and in a fork.
#[tokio::test]
async fn case_058_thoughts_behind_calls_are_sent_back_for_ever() {
    let (again, done) = (include_str!("058/r2.sse"), include_str!("058/r2.sse"));
    let server = Server::playing([include_str!("058/r1.sse"), done, again]).await;
    let store = MemoryStore::default();
    let settings = || ProviderSettings { dialect: Some("deepseek".into()), ..ProviderSettings::default() };
    let builder = || {
        let ls = tool("ls", "Lists.", |_: Nothing| async { Ok::<_, String>("a.rs") });
        server.agent_of(settings()).tool(ls).store(store.clone())
    };
    let agent = builder().create(Some(stored::ID.parse().unwrap())).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.prompt("and?").await.unwrap();
    agent.shutdown().await.unwrap();
    let agent = builder().resume(stored::ID).await.unwrap();
    agent.prompt("back again").await.unwrap();
    agent.shutdown().await.unwrap();
    let child = Fork { boundary: None, id: "child".parse().unwrap(), now: 1, plugins: vec![] };
    fork(|| store.read(stored::ID), &store, child).unwrap();
    let agent = builder().resume("child").await.unwrap();
    agent.prompt("elsewhere").await.unwrap();
    agent.shutdown().await.unwrap();

    let thought = json!({
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "need the file list",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    });
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    let second = requests[1]["messages"].as_array().unwrap();
    assert_eq!((&second[second.len() - 2], &second[second.len() - 1]["role"]), (&thought, &json!("tool")));
    for later in &requests[1..] {
        assert!(later["messages"].as_array().unwrap().contains(&thought), "{later:#}");
    }
    // Later answers had none: this server wants to be told that too.
    let last = requests[4]["messages"].as_array().unwrap();
    let answers: Vec<&Value> = last.iter().filter(|m| m["role"] == "assistant").collect();
    assert_eq!((answers.len(), &answers[1]["reasoning_content"]), (4, &json!("")));

    // A server that has no use for it does not get it.
    let plain = Server::playing([include_str!("058/r1.sse"), done]).await;
    let ls = tool("ls", "Lists.", |_: Nothing| async { Ok::<_, String>("a.rs") });
    let agent = plain.agent().tool(ls).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    assert!(!plain.requests()[1].to_string().contains("reasoning_content"));
}

/// Time passes, tools come in another order: every request begins with the bytes of the one before, up to the end of
/// its messages, and the header is written once a process.
#[tokio::test]
async fn case_067_nothing_before_the_tail_ever_changes() {
    let call = |n: u32| {
        let name = ["ls", "now", "zap"][n as usize % 3];
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c{n}\",\"function\":\
             {{\"name\":\"{name}\",\"arguments\":\"{{}}\"}}}}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
        )
    };
    let done = include_str!("058/r2.sse").to_owned();
    let bodies = (0..3).flat_map(|turn| [call(3 * turn), call(3 * turn + 1), done.clone()]);
    let replies = bodies.map(|body| Reply::Stream(body.into_bytes())).collect();
    let (server, store) = (Server::new(replies).await, MemoryStore::default());
    let builder = |order: [&'static str; 3]| {
        order.into_iter().fold(server.agent().store(store.clone()), |builder, name| {
            builder.tool(tool(name, "Does it.", |_: Nothing| async { Ok::<_, String>("done") }))
        })
    };
    let clock = Passing::default();
    let agent = builder(["ls", "now", "zap"]).clock(clock.clone());
    let agent = agent.create(Some(stored::ID.parse().unwrap())).await.unwrap();
    agent.prompt("one").await.unwrap();
    agent.shutdown().await.unwrap();
    let agent = builder(["zap", "now", "ls"]).clock(clock.clone()).resume(stored::ID).await.unwrap();
    agent.prompt("two").await.unwrap();
    agent.prompt("three").await.unwrap();
    agent.shutdown().await.unwrap();

    let raw = server.bodies();
    assert_eq!(raw.len(), 9);
    for pair in raw.windows(2) {
        let open = pair[0].strip_suffix("]}").unwrap();
        assert!(pair[1].starts_with(open), "{}\n{}", pair[0], pair[1]);
    }
    let events = crate::support::events(store.bytes(stored::ID).unwrap());
    let headers = events.iter().filter(|e| e.fact.type_name() == "request/header").count();
    assert_eq!(headers, 2, "one for each process");
}

/// A clock on which a minute passes whenever it is looked at.
#[derive(Clone, Default)]
struct Passing(Arc<AtomicU64>);

impl Clock for Passing {
    fn epoch_ms(&self) -> u64 {
        1_700_000_000_000 + self.0.fetch_add(61_000, Ordering::Relaxed)
    }
}

/// Nothing empty goes out: no blank answer, no empty result.
#[test]
fn case_061_nothing_blank_is_sent() {
    let call = terret::core::id::CallId { turn: 1, step: 1, ordinal: 0 };
    let called = vec![
        Block::text(""),
        Block::ToolCall {
            call: Some(call),
            id: "c1".into(),
            name: "bash".into(),
            arguments: r#"{"command":"mkdir x"}"#.into(),
            kind: Default::default(),
            provider: None,
        },
    ];
    let result = vec![Block::ToolResult { call, content: vec![Block::text("")], is_error: false }];
    let said = |role: Role, content: Vec<Block>| Message { role, content, ..Message::user("m", "") };
    let history = [
        Message::user("u", "mkdir x"),
        said(Role::Assistant, called),
        said(Role::User, result),
        said(Role::Assistant, vec![Block::text("  \n")]),
        Message::user("u2", "and now?"),
    ];
    let header = terret::core::fact::Header {
        provider: "p".into(),
        model: "m".into(),
        wire: "openai-chat@2".into(),
        dialect: terret::core::raw::Raw::parse(r#"{"empty_content":"null"}"#).unwrap(),
        parameters: Default::default(),
        defaults: Vec::new(),
        system: None,
        tools: Vec::new(),
    };
    let mut body = codec(&header.wire).unwrap().begin(&header).unwrap();
    history.iter().for_each(|message| body.push(message, &no_blobs).unwrap());
    let body: Value = serde_json::from_slice(&body.bytes()).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"], "{body:#}");
    assert_eq!((&messages[1]["content"], &messages[2]["content"]), (&Value::Null, &json!("(no output)")));
}
