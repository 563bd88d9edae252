//! Bodies of `anthropic-messages`: what they mean, that they never change, where they are marked, and that they only
//! grow at their end.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use terret::core::chunk::Failure;
use terret::core::fact::{Header, ToolSpec};
use terret::core::id::{CallId, Digest};
use terret::core::message::{Attachment, Block, CallKind, Message, ProviderData, Role, Source};
use terret::core::raw::Raw;
use terret::model::anthropic_messages::dialect::Dialect;
use terret::model::{Body, codec};

const WIRE: &str = "anthropic-messages@1";
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn header(row: &str, model: &str, parameters: &[(&str, Value)]) -> Header {
    let tool = |name: &str, description: &str, parameters: &str| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: Raw::parse(parameters).unwrap(),
    };
    let read = r#"{"type":"object", "properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#;
    Header {
        provider: "p".to_owned(),
        model: model.to_owned(),
        wire: WIRE.to_owned(),
        dialect: Raw::from_value(&Dialect::built_in(row, model).unwrap()).unwrap(),
        parameters: parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Raw::from_value(value).unwrap()))
            .collect(),
        defaults: Vec::new(),
        system: Some("You are terret.".to_owned()),
        tools: vec![
            tool("read", "Read a file", read),
            tool("shot", "Take a screenshot", r#"{"type":"object","properties":{}}"#),
        ],
    }
}

fn assistant(model: &str, content: Vec<Block>) -> Message {
    let source = Source::Model {
        provider: "p".to_owned(),
        model: model.to_owned(),
        wire: Some(WIRE.to_owned()),
        response_id: None,
    };
    Message { id: "a".into(), role: Role::Assistant, content, source }
}

fn data(model: &str, data: &str) -> Option<ProviderData> {
    Some(ProviderData {
        protocol: "anthropic-messages".to_owned(),
        route: "p".to_owned(),
        model: model.to_owned(),
        data: Raw::parse(data).unwrap(),
    })
}

fn thought(model: &str, text: &str, signature: &str) -> Block {
    let signed = format!(r#"{{"type":"thinking","signature":"{signature}"}}"#);
    Block::Reasoning { text: text.to_owned(), provider: data(model, &signed) }
}

/// The nth call of a step.
fn id(step: u32, ordinal: u32) -> CallId {
    CallId { turn: 1, step, ordinal }
}

fn call(call: CallId, provider_id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolCall {
        call: Some(call),
        id: provider_id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        kind: CallKind::Json,
        provider: None,
    }
}

fn result(call: CallId, content: Vec<Block>, is_error: bool) -> Message {
    let content = vec![Block::ToolResult { call, content, is_error }];
    Message { id: "t".into(), role: Role::User, content, source: Source::Tool { call } }
}

fn image() -> Block {
    let blob = Digest::of(&STANDARD.decode(PNG).unwrap());
    Block::Image {
        attachment: Attachment { blob, media_type: "image/png".to_owned(), bytes: 70, name: None },
    }
}

fn blobs(digest: &Digest) -> Result<Vec<u8>, Failure> {
    let png = STANDARD.decode(PNG).unwrap();
    assert_eq!(*digest, Digest::of(&png));
    Ok(png)
}

/// The history both golden steps come from.
fn history(model: &str) -> Vec<Message> {
    vec![
        Message::user("u1", "look at a.rs and the screen"),
        assistant(
            model,
            vec![
                thought(model, "plan", "SIG=="),
                Block::text("Looking."),
                call(id(1, 0), "call_1", "read", r#"{"path":"a.rs"}"#),
                call(id(1, 1), "call_2", "shot", "{}"),
            ],
        ),
        result(id(1, 0), vec![Block::text("ENOENT a.rs")], true),
        result(
            id(1, 1),
            vec![Block::Json { value: Raw::parse(r#"{"w": 1, "h": 1}"#).unwrap() }, image()],
            false,
        ),
        assistant(model, vec![Block::text("Nothing there.")]),
        Message::user("u2", "try b.rs"),
    ]
}

/// A history of everything that makes a body hard: calls side by side, results out of order, missing and for nobody,
/// pictures, other models, arguments that are no object, empty texts, steps of more blocks than a server looks back.
fn hard_history(model: &str) -> Vec<Message> {
    let mut all = history(model);
    let broken = vec![
        Block::text(""),
        thought("another", "theirs", "X"),
        Block::Reasoning { text: "unsigned".to_owned(), provider: None },
        call(id(2, 0), "call_1", "shot", "{}"),
        call(id(2, 1), "not legal:1", "functions.read", "{not json"),
        call(id(2, 2), "", "shot", ""),
    ];
    all.extend([
        assistant("another", broken),
        result(id(2, 1), vec![Block::text("  "), image()], true),
        result(id(2, 0), vec![], false),
        Message::user("u3", "stop that"),
        result(id(2, 2), vec![Block::text("late"), image()], false),
        Message::user("u4", " \n"),
        assistant(model, vec![Block::text("\n ")]),
        assistant(model, vec![thought(model, "only this", "S")]),
        Message::user("u5", "and?"),
        assistant(model, vec![Block::Refusal { text: "no \"\\\u{7f}\n".to_owned(), provider: None }]),
        assistant(model, vec![Block::text("Yes.  \n"), thought(model, "cut", "S")]),
    ]);
    for step in 3..6 {
        let calls = 0..u32::from(step == 4) * 20 + 5;
        let called = calls.clone().map(|n| call(id(step, n), &format!("c{step}-{n}"), "shot", "{}"));
        all.push(assistant(model, called.collect()));
        all.extend(calls.map(|n| result(id(step, n), vec![Block::text(format!("{n}"))], false)));
    }
    all.push(Message::user("u6", "enough"));
    all
}

fn body(header: &Header, messages: &[Message]) -> String {
    let mut body = begin(header);
    messages.iter().for_each(|message| body.push(message, &blobs).unwrap());
    String::from_utf8(body.bytes().to_vec()).unwrap()
}

fn begin(header: &Header) -> Box<dyn Body> {
    codec(&header.wire).unwrap().begin(header).unwrap()
}

fn parsed(header: &Header, messages: &[Message]) -> Value {
    serde_json::from_str(&body(header, messages)).unwrap()
}

fn sent(header: &Header, messages: &[Message]) -> Vec<Value> {
    parsed(header, messages)["messages"].as_array().unwrap().clone()
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/requests").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn bodies_mean_what_the_golden_ones_mean() {
    let header = header(
        "anthropic",
        "claude-z",
        &[("max_output_tokens", json!(32000)), ("reasoning_effort", json!("high"))],
    );
    let history = history("claude-z");
    for (messages, name) in [(&history[..4], "anthropic.step1.json"), (&history, "anthropic.step2.json")] {
        let golden: Value = serde_json::from_str(&file(name)).unwrap();
        assert_eq!(parsed(&header, messages), golden, "{name}");
    }
}

/// Stored sessions are proven against these bytes. If this fails, the codec has changed: give it a new name.
#[test]
fn bodies_never_change() {
    let parameters = [
        ("max_output_tokens", json!(9000)),
        ("reasoning_effort", json!("high")),
        ("stop", json!("END")),
        ("metadata", json!({"user_id": "u"})),
    ];
    let header = header("anthropic", "claude-opus-4-5", &parameters);
    let history = hard_history("claude-opus-4-5");
    let path = "anthropic-messages@1.frozen.json";
    assert_eq!(body(&header, &history), file(path).trim_end());
}

/// What a strict server asks of a body; where its marks are.
fn check(body: &str) -> usize {
    let parsed: Value = serde_json::from_str(body).unwrap();
    let messages = parsed["messages"].as_array().unwrap();
    let mut open: Vec<&str> = Vec::new();
    let mut ids = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        assert_eq!(role, if at % 2 == 0 { "user" } else { "assistant" }, "roles take turns: {message}");
        let content = message["content"].as_array().unwrap();
        assert!(!content.is_empty());
        for block in content {
            let kind = block["type"].as_str().unwrap();
            match kind {
                "text" => assert!(!block["text"].as_str().unwrap().trim().is_empty(), "{message}"),
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap();
                    let asked = open.iter().position(|open| *open == id);
                    open.remove(asked.unwrap_or_else(|| panic!("nobody asked: {block}")));
                    let text_only = block["content"].as_array().unwrap().iter().all(|b| b["type"] == "text");
                    assert!(block["is_error"] != true || text_only, "{block}");
                }
                "tool_use" => {
                    let id = block["id"].as_str().unwrap();
                    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                    assert!((1..=64).contains(&id.len()) && id.bytes().all(legal), "{id}");
                    assert!(block["input"].is_object());
                    open.push(id);
                    ids.push(id);
                }
                _ => {}
            }
            assert!(
                kind == "tool_result" || role == "assistant" || open.is_empty(),
                "results first: {message}"
            );
            let markable = role == "user" && ["text", "image", "tool_result"].contains(&kind);
            assert!(block["cache_control"].is_null() || markable, "{block}");
        }
        if role == "assistant" {
            let last = content.last().unwrap();
            assert_ne!(last["type"], "thinking");
            let text = last["text"].as_str().unwrap_or_default();
            assert_eq!(text, text.trim_end());
        } else {
            assert!(open.is_empty(), "calls without a result: {open:?}");
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id twice");
    body.matches(MARK).count()
}

/// Whether a request is made of this history: none is between calls and their results, or for nothing new.
fn is_asked(history: &[Message]) -> bool {
    let behind = history.iter().rev().take_while(|message| message.role == Role::User).count();
    let answer = history.iter().rev().nth(behind).map_or(&[][..], |message| &message.content);
    let calls = answer.iter().filter(|block| matches!(block, Block::ToolCall { .. })).count();
    let said = history.last().is_some_and(|message| message.source == Source::User);
    said || (behind > 0 && behind == calls)
}

#[test]
fn a_body_is_the_beginning_of_the_next_but_for_its_marks() {
    for row in ["anthropic", "generic", "deepseek", "llamacpp"] {
        for model in ["claude-z", "another"] {
            let header = header(row, model, &[]);
            let history = hard_history("claude-z");
            let mut grown = begin(&header);
            let mut last = String::new();
            let mut most = 0;
            for len in 0..=history.len() {
                let whole = body(&header, &history[..len]);
                if let Some(message) = len.checked_sub(1).map(|at| &history[at]) {
                    grown.push(message, &blobs).unwrap();
                }
                assert_eq!(grown.bytes(), whole.as_bytes(), "asking for the bytes changes nothing");
                let bare = whole.replace(MARK, "");
                let open = last.trim_end_matches(['}', ']']);
                assert!(bare.starts_with(open), "{row}:\n{last}\n{bare}");
                last = bare;
                if is_asked(&history[..len]) {
                    most = most.max(check(&whole));
                }
            }
            let marked = Dialect::from_raw(&header.dialect).unwrap().cache_control;
            assert_eq!(most, if marked { 3 } else { 0 }, "{row}: the system's, the last, and one far behind");
        }
    }
}

/// Whatever was stable once is the beginning of every later body: what is hashed early is hashed right.
#[test]
fn what_is_stable_never_changes() {
    for row in ["anthropic", "deepseek"] {
        let header = header(row, "claude-z", &[]);
        let history = hard_history("claude-z");
        let bodies: Vec<String> = (0..=history.len()).map(|len| body(&header, &history[..len])).collect();
        let mut grown = begin(&header);
        for (len, message) in history.iter().enumerate() {
            let stable = grown.stable().to_vec();
            let stable = std::str::from_utf8(&stable).unwrap();
            assert!(len == 0 || stable.len() > 400, "little is stable: {}", stable.len());
            for later in &bodies[len..] {
                assert!(later.starts_with(stable), "{row}, {len}");
            }
            grown.push(message, &blobs).unwrap();
        }
        assert!(grown.stable().len() > bodies[bodies.len() - 1].len() / 2);
    }
}

#[test]
fn marks_follow_the_conversation() {
    let mut header = header("anthropic", "claude-z", &[]);
    let mut messages = history("claude-z");
    let count = |header: &Header, messages: &[Message]| body(header, messages).matches(MARK).count();
    assert_eq!(count(&header, &messages), 2);
    // A pause: the assistant's message is the last, and the mark stays where the request before had it.
    messages.push(assistant("claude-z", vec![Block::text("Hold on.")]));
    let sent = sent(&header, &messages);
    assert_eq!(sent.last().unwrap()["role"], "assistant");
    assert!(!sent[sent.len() - 2]["content"][0]["cache_control"].is_null());
    assert_eq!(count(&header, &messages), 2);

    header.system = None;
    let tools = parsed(&header, &messages)["tools"].clone();
    assert!(tools[0]["cache_control"].is_null() && !tools[1]["cache_control"].is_null());
    header.tools.clear();
    assert_eq!(count(&header, &messages), 1);
}

#[test]
fn results_come_first_and_pictures_of_failures_behind_them() {
    let header = header("anthropic", "claude-z", &[]);
    let messages = sent(&header, &hard_history("claude-z"));
    let calls = &messages[5]["content"];
    assert_eq!(calls.as_array().unwrap().len(), 3, "nothing foreign, empty or unsigned: {calls}");
    assert_eq!(calls[1]["name"], "functions_read");
    assert_eq!(calls[1]["input"], json!({"_raw": "{not json"}));
    assert_ne!(calls[0]["id"], "call_1", "used before");
    let answers = messages[6]["content"].as_array().unwrap();
    let kinds: Vec<&str> = answers.iter().map(|block| block["type"].as_str().unwrap()).collect();
    let expected =
        ["tool_result", "tool_result", "tool_result", "image", "text", "text", "text", "image", "text"];
    assert_eq!(kinds, expected);
    let text = |at: usize| answers[at]["content"][0]["text"].as_str().unwrap();
    assert_eq!((text(0), text(1), text(2)), ("(see the image below)", "(no output)", "(no result)"));
    assert_eq!(answers[5]["text"], "Result of tool call 1.2.2:");
    let row = &messages[7]["content"];
    assert_eq!((&row[0]["text"], &row[1]["text"]), (&json!("no \"\\\u{7f}"), &json!("Yes.")), "one message");
}

#[test]
fn opaque_data_goes_back_to_its_own_model_only() {
    let own = |model: &str| {
        let cited = r#"{"citations":[{"type":"c","n":1.50}]}"#;
        let mut called = call(id(1, 0), "toolu_1", "shot", "{}");
        if let Block::ToolCall { provider, .. } = &mut called {
            *provider = data(model, r#"{"caller":{"type":"direct"}}"#);
        }
        assistant(
            model,
            vec![
                Block::Reasoning {
                    text: String::new(),
                    provider: data(model, r#"{"type":"redacted_thinking","data":"x="}"#),
                },
                thought(model, "", "S"),
                Block::Text { text: "x".to_owned(), provider: data(model, cited) },
                Block::Provider {
                    wire: Raw::parse(r#"{"type": "server_tool_use", "input": {"q": 1e2}}"#).unwrap(),
                },
                called,
            ],
        )
    };
    let header = header("anthropic", "claude-z", &[]);
    let whole = body(&header, &[Message::user("u", "hi"), own("claude-z")]);
    let exact = concat!(
        r#"[{"type":"redacted_thinking","data":"x="},{"type":"thinking","thinking":"","signature":"S"},"#,
        r#"{"type":"text","text":"x","citations":[{"type":"c","n":1.50}]},"#,
        r#"{"type":"server_tool_use","input":{"q":1e2}},"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"shot","input":{},"caller":{"type":"direct"}}]"#
    );
    assert!(whole.contains(exact), "{whole}");
    let foreign = sent(&header, &[Message::user("u", "hi"), own("claude-y")]);
    let plain = json!([
        {"type": "text", "text": "x"},
        {"type": "tool_use", "id": "toolu_1", "name": "shot", "input": {}}
    ]);
    assert_eq!(foreign[1]["content"], plain);
    // The same model behind another provider: what is signed is bound to an account.
    let elsewhere = Header { provider: "q".to_owned(), ..header.clone() };
    let elsewhere = sent(&elsewhere, &[Message::user("u", "hi"), own("claude-z")]);
    assert_eq!(elsewhere[1]["content"], plain);
}

#[test]
fn thinking_is_not_asked_for_where_there_is_no_room() {
    let budget = |limit: u64| {
        let parameters = [("max_output_tokens", json!(limit)), ("reasoning_effort", json!("high"))];
        let body: Value = serde_json::from_str(&body(&header("generic", "m", &parameters), &[])).unwrap();
        body.get("thinking").map(|thinking| thinking["budget_tokens"].as_u64().unwrap())
    };
    assert_eq!((budget(1024), budget(1025), budget(9000)), (None, Some(1024), Some(4500)));
}

#[test]
fn a_server_that_signs_nothing_gets_its_thinking_back() {
    let unsigned = Block::Reasoning { text: "hm".to_owned(), provider: None };
    let said = |row: &str, by: &str| {
        let messages = [Message::user("u", "hi"), assistant(by, vec![unsigned.clone(), Block::text("x")])];
        sent(&header(row, "m", &[]), &messages)[1]["content"].as_array().unwrap().len()
    };
    assert_eq!((said("llamacpp", "m"), said("llamacpp", "n"), said("generic", "m")), (2, 1, 1));
}

#[test]
fn parameters_go_out_in_the_words_of_the_wire() {
    let front = |row: &str, model: &str, parameters: &[(&str, Value)]| {
        let mut all: BTreeMap<String, Value> =
            serde_json::from_value(parsed(&header(row, model, parameters), &[])).unwrap();
        for key in ["model", "messages", "tools", "system", "stream"] {
            all.remove(key).unwrap();
        }
        json!(all)
    };
    let effort = |word: &str| vec![("reasoning_effort", json!(word)), ("max_output_tokens", json!(10000))];
    let limited = |rest: Value| {
        let mut all = json!({"max_tokens": 10000});
        all.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        all
    };
    assert_eq!(front("anthropic", "claude-z", &[]), json!({"max_tokens": 32000}));
    for (row, model, word, expected) in [
        ("anthropic", "claude-z", "none", json!({"thinking": {"type": "disabled"}})),
        (
            "anthropic",
            "claude-z",
            "minimal",
            json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}}),
        ),
        ("generic", "m", "low", json!({"thinking": {"type": "enabled", "budget_tokens": 4096}})),
        (
            "anthropic",
            "claude-opus-4-1",
            "max",
            json!({"thinking": {"type": "enabled", "budget_tokens": 5000}}),
        ),
        (
            "deepseek",
            "deepseek-v4-pro",
            "high",
            json!({"thinking": {"type": "enabled", "budget_tokens": 5000}, "output_config": {"effort": "high"}}),
        ),
    ] {
        assert_eq!(front(row, model, &effort(word)), limited(expected), "{row} {model} {word}");
    }
    for (choice, parallel, expected) in [
        (json!("auto"), json!(true), json!({"type": "auto"})),
        (json!("required"), json!(null), json!({"type": "any"})),
        (json!(null), json!(false), json!({"type": "auto", "disable_parallel_tool_use": true})),
        (json!("none"), json!(false), json!({"type": "none"})),
        (
            json!({"type": "function", "function": {"name": "shot"}}),
            json!(false),
            json!({"type": "tool", "name": "shot", "disable_parallel_tool_use": true}),
        ),
        (json!({"type": "tool", "name": "shot"}), json!(null), json!({"type": "tool", "name": "shot"})),
    ] {
        let got = front("generic", "m", &[("tool_choice", choice), ("parallel_tool_calls", parallel)]);
        assert_eq!(got["tool_choice"], expected);
    }
    let schema = json!({"type": "object", "additionalProperties": false});
    let parameters = [
        ("output_schema", json!({"name": "n", "schema": schema})),
        ("stop", json!(["a", "b"])),
        ("cache_key", json!("k")),
        ("temperature", json!(0)),
    ];
    let expected = json!({
        "max_tokens": 32000, "stop_sequences": ["a", "b"], "temperature": 0,
        "output_config": {"format": {"type": "json_schema", "schema": schema}}
    });
    assert_eq!(front("anthropic", "claude-z", &parameters), expected);
    assert!(front("generic", "m", &parameters).get("output_config").is_none());
}

#[test]
fn text_only_rows_get_words_for_pictures() {
    let header = header("deepseek", "m", &[]);
    let said = Message { content: vec![image()], ..Message::user("u", "") };
    let words = sent(&header, &[said])[0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(words.starts_with("[image: image/png, 70 bytes, blake3 "), "{words}");
}

#[test]
fn a_header_of_another_wire_is_refused() {
    let mut header = header("anthropic", "m", &[]);
    header.dialect = Raw::parse("[1]").unwrap();
    assert!(codec(WIRE).unwrap().begin(&header).is_err());
}
