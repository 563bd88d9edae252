//! What went wrong with Anthropic's messages, over a real wire.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use terret::agent::Outcome;
use terret::core::chunk::{Usage, code};
use terret::core::fact::{Fact, SurfaceReplaced};
use terret::core::input::Record;
use terret::core::line::Event;
use terret::core::message::{Block, Message, Role, Source};
use terret::model::anthropic_messages::dialect::Dialect;
use terret::model::{codec, no_blobs};
use terret::store::{MemoryStore, Store};
use terret::tool::tool;

use super::server::Server;
use crate::support::events;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Anything {}

/// An answer of nothing but text.
const DONE: &str = include_str!("046/r2.sse");

struct Played {
    outcome: Outcome,
    ran: Vec<&'static str>,
    events: Vec<Event>,
    requests: Vec<Value>,
}

async fn play<const N: usize>(bodies: [&str; N]) -> Played {
    let (server, store) = (Server::playing(bodies).await, MemoryStore::default());
    let ran = Arc::<Mutex<Vec<&'static str>>>::default();
    let mut builder = server.agent_over("anthropic-messages").store(store.clone());
    for name in ["read", "bash", "ls"] {
        let ran = ran.clone();
        builder = builder.tool(tool(name, "Notes that it ran.", move |_: Anything| {
            ran.lock().unwrap().push(name);
            async { Ok::<_, String>("ran") }
        }));
    }
    let agent = builder.create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let ran = ran.lock().unwrap().clone();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    Played { outcome, ran, events, requests: server.requests() }
}

impl Played {
    fn answers(&self) -> Vec<(&[Block], Option<&Usage>)> {
        let answers = self.events.iter().filter_map(|event| match &event.fact {
            Fact::AssistantMessage(answer) => Some((&answer.message.content[..], answer.usage.as_ref())),
            _ => None,
        });
        answers.collect()
    }

    fn failures(&self) -> Vec<&str> {
        let failures = self.events.iter().filter_map(|event| match &event.fact {
            Fact::RequestFailed(failed) => Some(failed.failure.code.as_str()),
            _ => None,
        });
        failures.collect()
    }
}

/// The start of a block may bring its words and the whole input of a call; where pieces come, they count.
#[tokio::test]
async fn case_041_content_in_the_start_block_counts_unless_pieces_come() {
    let played = play([include_str!("041/stream.sse"), DONE]).await;
    assert_eq!((played.outcome.text.as_str(), &played.ran[..]), ("Whole", &["read", "read"][..]));
    let [Block::Text { text, .. }, one, two] = played.answers()[0].0 else { panic!() };
    assert_eq!(text, "Sure, now.");
    for (block, called, given) in [(one, "tu_1", r#"{"path":"a"}"#), (two, "tu_2", r#"{"path":"b"}"#)] {
        let Block::ToolCall { id, name, arguments, .. } = block else { panic!("{block:?}") };
        assert_eq!((id.as_str(), name.as_str(), arguments.as_str()), (called, "read", given));
    }
}

/// A stream that ends behind a whole call is a cut one: it is asked again, and the call never runs.
#[tokio::test]
async fn case_043_a_whole_call_without_an_end_never_runs() {
    let played = play([include_str!("043/stream.sse"), include_str!("043/r2.sse")]).await;
    assert_eq!(played.failures(), [code::STREAM_CLOSED]);
    assert!(played.ran.is_empty());
    assert_eq!((played.outcome.text.as_str(), played.requests.len()), ("Not needed.", 2));
    assert_eq!(played.requests[0], played.requests[1], "the same request again");
}

/// Counts are running totals: the last of each is the one, and none is added up.
#[tokio::test]
async fn case_045_counts_overwrite_and_never_add_up() {
    let played = play([include_str!("045/stream.sse")]).await;
    let usage = played.answers()[0].1.unwrap();
    let counts = (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens, usage.output_tokens);
    assert_eq!(counts, (20, Some(300), Some(4000), 64));
    assert_eq!(usage.total(), 20 + 300 + 4000 + 64);
}

/// An error inside a stream that began well is a failure like a status; what came before is in no message.
#[tokio::test]
async fn case_046_an_error_in_a_stream_is_asked_again() {
    let first = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    for broken in [include_str!("046/r1.sse"), first] {
        let played = play([broken, DONE]).await;
        assert_eq!(played.failures(), [code::OVERLOADED]);
        assert_eq!(played.requests.len(), 2);
        let [([Block::Text { text, .. }], _)] = &played.answers()[..] else { panic!() };
        assert_eq!((text.as_str(), played.outcome.text.as_str()), ("Whole", "Whole"));
    }
}

/// Thinking goes back block by block as it came, signature and all: also without words, in pieces, and where nobody can
/// read it.
#[tokio::test]
async fn case_060_signed_thinking_goes_back_as_it_came() {
    let played = play([include_str!("060/r1.sse"), DONE]).await;
    assert_eq!(played.ran, ["ls", "ls"]);
    let sent = &played.requests[1]["messages"];
    let expected = json!([
        {"type": "thinking", "thinking": "", "signature": "U0lHMQ=="},
        {"type": "tool_use", "id": "tu_1", "name": "ls", "input": {}},
        {"type": "thinking", "thinking": "and then", "signature": "U0lHMg=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "tool_use", "id": "tu_2", "name": "ls", "input": {"p": "b"}}
    ]);
    assert_eq!(sent[1], json!({"role": "assistant", "content": expected}));
    let results: Vec<&Value> = sent[2]["content"].as_array().unwrap().iter().collect();
    assert_eq!((&results[0]["tool_use_id"], &results[1]["tool_use_id"]), (&json!("tu_1"), &json!("tu_2")));
}

/// No text without a word is sent, neither is a message of nothing else, and a result that says nothing says so, always
/// in the same words.
#[tokio::test]
async fn case_061_no_blank_text_is_sent() {
    let header = terret::core::fact::Header {
        provider: "p".into(),
        model: "m".into(),
        wire: "anthropic-messages@1".into(),
        dialect: terret::core::raw::Raw::from_value(&Dialect::built_in("generic", "m").unwrap()).unwrap(),
        parameters: Default::default(),
        defaults: Vec::new(),
        system: None,
        tools: Vec::new(),
    };
    let call = terret::core::id::CallId { turn: 1, step: 1, ordinal: 0 };
    let said = |content: Vec<Block>| {
        let (provider, model) = ("p".to_owned(), "m".to_owned());
        let source = Source::Model { provider, model, wire: Some(header.wire.clone()), response_id: None };
        Message { id: "a".into(), role: Role::Assistant, content, source }
    };
    let asks = Block::ToolCall {
        call: Some(call),
        id: "c1".into(),
        name: "bash".into(),
        arguments: r#"{"command":"mkdir x"}"#.into(),
        kind: Default::default(),
        provider: None,
    };
    let result = Block::ToolResult { call, content: vec![Block::text("")], is_error: false };
    let answers = Message { content: vec![result], ..Message::user("r", "") };
    let history = [
        Message::user("u1", "mkdir x"),
        said(vec![Block::text(""), asks]),
        answers,
        said(vec![Block::text("  \n")]),
        Message::user("u2", "and now?"),
    ];
    let mut body = codec(&header.wire).unwrap().begin(&header).unwrap();
    history.iter().for_each(|message| body.push(message, &no_blobs).unwrap());
    let body: Value = serde_json::from_slice(&body.bytes()).unwrap();
    let mark = json!({"type": "ephemeral"});
    let output = json!([{"type": "text", "text": "(no output)"}]);
    let input = json!({"command": "mkdir x"});
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "mkdir x"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": input}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": output},
            {"type": "text", "text": "and now?", "cache_control": mark}
        ]}
    ]);
    assert_eq!(body["messages"], expected);
}

/// A thought is bound to all that stood before it. Under another system text, and behind history that was replaced, its
/// model would refuse it: it stays away, the calls stay, and every request is proven.
#[tokio::test]
async fn case_060_a_thought_that_moved_stays_away() {
    let server = Server::playing([DONE, include_str!("060/r1.sse"), DONE]).await;
    let store = MemoryStore::default();
    let resumed = |identity: &'static str| {
        let ls = tool("ls", "Lists.", |_: Anything| async { Ok::<_, String>("ran") });
        server.agent_over("anthropic-messages").store(store.clone()).identity(identity).tool(ls)
    };
    let agent = resumed("one").create(Some("s".parse().unwrap())).await.unwrap();
    agent.prompt("first").await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    for identity in ["two", "one"] {
        let agent = resumed(identity).resume("s").await.unwrap();
        agent.prompt("and?").await.unwrap();
        agent.shutdown().await.unwrap();
    }
    let told = events(store.bytes("s").unwrap());
    let place = |wanted: &str| told.iter().find(|e| e.fact.type_name() == wanted).unwrap().seq;
    let range = [place("user/message"), place("assistant/message")];
    let replaced = SurfaceReplaced { range, message: Message::user("short", "they met"), by: "test".into() };
    let agent = resumed("one").resume("s").await.unwrap();
    agent.record(Record::Surface(replaced)).await.unwrap();
    agent.prompt("and now?").await.unwrap();
    agent.shutdown().await.unwrap();

    let thoughts: Vec<(usize, usize)> = server
        .requests()
        .iter()
        .map(|body| {
            let text = body["messages"].to_string();
            (text.matches("thinking\"}").count(), text.matches("\"tool_use\"").count())
        })
        .collect();
    // Two thoughts and one nobody can read; their two calls.
    assert_eq!(thoughts, [(0, 0), (0, 0), (3, 2), (0, 2), (3, 2), (0, 2)]);
    let mut scan = store.read("s").unwrap();
    let report = terret::inspect::verify_scan(&mut scan).unwrap();
    assert!(report.holds() && (report.attempts, report.proven) == (6, 6), "{report:?}");
}
