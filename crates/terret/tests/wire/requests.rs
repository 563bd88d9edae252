//! Bodies: what they mean, that they never change, and that they only ever grow at their end.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use terret::core::fact::{Header, ToolSpec};
use terret::core::id::{CallId, Digest};
use terret::core::message::{Attachment, Block, CallKind, Message, ProviderData, Role, Source};
use terret::core::raw::Raw;
use terret::model::openai_chat::dialect::Dialect;
use terret::model::{codec, no_blobs};

fn call(ordinal: u32) -> CallId {
    CallId { turn: 1, step: 1, ordinal }
}

fn raw(value: &Value) -> Raw {
    Raw::from_value(value).unwrap()
}

fn header(dialect: &str, model: &str, parameters: &[(&str, Value)]) -> Header {
    let read = r#"{"type":"object", "properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#;
    let shot = r#"{"type":"object","properties":{}}"#;
    let tool = |name: &str, description: &str, parameters: &str| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: Raw::parse(parameters).unwrap(),
    };
    Header {
        provider: dialect.to_owned(),
        model: model.to_owned(),
        wire: "openai-chat@1".to_owned(),
        dialect: Raw::from_value(&Dialect::built_in(dialect).unwrap()).unwrap(),
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), raw(value))).collect(),
        defaults: Vec::new(),
        system: Some("You are terret.".to_owned()),
        tools: vec![tool("read", "Read a file", read), tool("shot", "Take a screenshot", shot)],
    }
}

fn assistant(model: &str, content: Vec<Block>) -> Message {
    let source = Source::Model {
        provider: "p".to_owned(),
        model: model.to_owned(),
        wire: Some("openai-chat@1".to_owned()),
        response_id: None,
    };
    Message { id: "a".into(), role: Role::Assistant, content, source }
}

fn tool_call(ordinal: u32, id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolCall {
        call: Some(call(ordinal)),
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        kind: CallKind::Json,
        provider: None,
    }
}

fn result(ordinal: u32, content: Vec<Block>, is_error: bool) -> Message {
    let call = call(ordinal);
    let content = vec![Block::ToolResult { call, content, is_error }];
    Message { id: "t".into(), role: Role::User, content, source: Source::Tool { call } }
}

fn image() -> Block {
    let attachment =
        Attachment { blob: Digest::of(b"png"), media_type: "image/png".to_owned(), bytes: 3, name: None };
    Block::Image { attachment }
}

/// The history both golden steps come from.
fn history(model: &str) -> Vec<Message> {
    let provider = ProviderData {
        protocol: "openai-chat".to_owned(),
        route: "p".to_owned(),
        model: model.to_owned(),
        data: Raw::parse(r#"{"field":"reasoning_content"}"#).unwrap(),
    };
    vec![
        Message::user("u1", "look at a.rs and the screen"),
        assistant(
            model,
            vec![
                Block::Reasoning { text: "plan".to_owned(), provider: Some(provider) },
                Block::text("Looking."),
                tool_call(0, "call_1", "read", r#"{"path":"a.rs"}"#),
                tool_call(1, "call_2", "shot", ""),
            ],
        ),
        result(0, vec![Block::text("ENOENT a.rs")], true),
        result(1, vec![Block::Json { value: Raw::parse(r#"{"w": 1, "h": 1}"#).unwrap() }, image()], false),
        assistant(model, vec![Block::text("Nothing there.")]),
        Message::user("u2", "try b.rs"),
    ]
}

fn body(header: &Header, messages: &[Message]) -> String {
    let mut body = codec(&header.wire).unwrap().begin(header).unwrap();
    messages.iter().for_each(|message| body.push(message, &no_blobs).unwrap());
    String::from_utf8(body.bytes().to_vec()).unwrap()
}

fn parsed(header: &Header, messages: &[Message]) -> Value {
    serde_json::from_str(&body(header, messages)).unwrap()
}

fn messages_of(header: &Header, messages: &[Message]) -> Vec<Value> {
    parsed(header, messages)["messages"].as_array().unwrap().clone()
}

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/requests").join(name);
    let mut golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    // Pictures are not sent yet: their place is taken by words.
    let blob = Digest::of(b"png");
    let words = format!("Image(s) from tool result call_2:\n[image: image/png, 3 bytes, blake3 {blob}]");
    for message in golden["messages"].as_array_mut().unwrap() {
        if message["content"].is_array() {
            message["content"] = json!(words);
        }
    }
    golden
}

#[test]
fn bodies_mean_what_the_golden_ones_mean() {
    let openai =
        header("openai", "gpt-x", &[("max_output_tokens", json!(32000)), ("cache_key", json!("sess_1"))]);
    let deepseek = header(
        "deepseek",
        "deepseek-v4-pro",
        &[("max_output_tokens", json!(32000)), ("reasoning_effort", json!("high"))],
    );
    for (header, name) in [(&openai, "openai-chat"), (&deepseek, "deepseek")] {
        let history = history(&header.model);
        assert_eq!(parsed(header, &history[..4]), golden(&format!("{name}.step1.json")), "{name}");
        assert_eq!(parsed(header, &history), golden(&format!("{name}.step2.json")), "{name}");
    }
}

/// Stored sessions are proven against these bytes. If this fails, the codec has changed: give it a new name.
#[test]
fn bodies_never_change() {
    let header = header("openai", "gpt-x", &[("max_output_tokens", json!(32000)), ("top_p", json!(0.5))]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/requests/openai-chat@1.frozen.json");
    let frozen = std::fs::read_to_string(path).unwrap();
    assert_eq!(body(&header, &history("gpt-x")), frozen.trim_end());
}

#[test]
fn a_body_is_the_beginning_of_the_next() {
    for name in ["openai", "deepseek", "openrouter", "gemini", "ollama", "llamacpp", "vllm", "generic"] {
        let header = header(name, "m", &[("temperature", json!(0))]);
        for model in ["m", "another"] {
            let mut history = history(model);
            history.extend(more_history(model));
            let bodies: Vec<String> = (0..=history.len()).map(|len| body(&header, &history[..len])).collect();
            for pair in bodies.windows(2) {
                let open = pair[0].strip_suffix("]}").unwrap();
                assert!(pair[1].starts_with(open), "{name}:\n{}\n{}", pair[0], pair[1]);
                assert!(serde_json::from_str::<Value>(&pair[1]).is_ok());
            }
            let mut grown = codec(&header.wire).unwrap().begin(&header).unwrap();
            for (message, expected) in history.iter().zip(&bodies[1..]) {
                grown.push(message, &no_blobs).unwrap();
                assert_eq!(grown.bytes(), expected.as_bytes(), "asking for the bytes changes nothing");
            }
        }
    }
}

fn more_history(model: &str) -> Vec<Message> {
    let same_ids = vec![tool_call(0, "call_1", "shot", "{}"), tool_call(1, "call_1", "shot", "{not json")];
    vec![
        assistant(model, same_ids),
        result(1, vec![image()], false),
        result(0, vec![], false),
        result(7, vec![Block::text("for nobody")], false),
        assistant(model, vec![Block::Refusal { text: "no \"\\\u{7f}\n".to_owned(), provider: None }]),
    ]
}

#[test]
fn ids_are_unique_and_answers_name_them() {
    let header = header("openai", "m", &[]);
    let mut history = history("m");
    history.extend(more_history("m"));
    let messages = messages_of(&header, &history);
    let calls: Vec<&str> = messages
        .iter()
        .flat_map(|m| m["tool_calls"].as_array().into_iter().flatten())
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    let answers: Vec<&str> = messages.iter().filter_map(|m| m["tool_call_id"].as_str()).collect();
    assert_eq!(calls[..2], ["call_1", "call_2"]);
    assert_ne!(calls[2], calls[3]);
    assert!(calls[2..].iter().all(|id| id.len() <= 40 && *id != "call_1"));
    assert_eq!(answers, ["call_1", "call_2", calls[3], calls[2]]);
}

#[test]
fn pictures_wait_for_the_last_answer() {
    let header = header("openai", "m", &[]);
    let history = more_history("m");
    let messages = messages_of(&header, &history);
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "assistant", "tool", "tool", "user", "user", "assistant"]);
    assert_eq!(messages[2]["content"], "(see the image below)");
    assert_eq!(messages[3]["content"], "(no output)");
    assert_eq!(messages[5]["content"], "Result of tool call 1.1.7:\nfor nobody");
    assert_eq!(messages[1]["content"], Value::Null);
    assert_eq!(messages[1]["tool_calls"][1]["function"]["arguments"], "{not json");
}

#[test]
fn opaque_data_goes_back_to_its_own_model_only() {
    let data = |model: &str, data: &str| {
        let data = Raw::parse(data).unwrap();
        Some(ProviderData {
            protocol: "openai-chat".to_owned(),
            route: "p".to_owned(),
            model: model.to_owned(),
            data,
        })
    };
    let signed = |model: &str| {
        let mut content = vec![tool_call(0, "a", "f", "{}"), tool_call(1, "b", "f", "{}")];
        if let Block::ToolCall { provider, .. } = &mut content[0] {
            *provider = data(model, r#"{"extra_content": {"google": {"thought_signature": "S"}}}"#);
        }
        assistant(model, content)
    };
    let gemini = header("gemini", "m", &[]);
    let own = messages_of(&gemini, &[signed("m")]);
    assert_eq!(own[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "S");
    assert!(own[1]["tool_calls"][1].get("extra_content").is_none());
    let foreign = messages_of(&gemini, &[signed("another")]);
    let stand_in = &foreign[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"];
    assert_eq!(stand_in, "skip_thought_signature_validator");
    assert!(body(&header("openai", "m", &[]), &[signed("m")]).find("extra_content").is_none());

    let thought = |model: &str| {
        let details = data(
            model,
            r#"{"field":"reasoning","reasoning_details":[{"type":"reasoning.text", "text":"x"}]}"#,
        );
        assistant(model, vec![Block::Reasoning { text: "x".to_owned(), provider: details }, Block::text("y")])
    };
    let openrouter = header("openrouter", "m", &[]);
    let own = &messages_of(&openrouter, &[thought("m")])[1];
    assert_eq!(own["reasoning_details"], json!([{"type": "reasoning.text", "text": "x"}]));
    assert!(own.get("reasoning").is_none());
    let foreign = &messages_of(&openrouter, &[thought("another")])[1];
    assert_eq!(*foreign, json!({"role": "assistant", "content": "y"}));
    let deepseek = header("deepseek", "m", &[]);
    assert_eq!(messages_of(&deepseek, &[thought("another")])[1]["reasoning_content"], "");
    assert_eq!(messages_of(&header("ollama", "m", &[]), &[thought("m")])[1]["reasoning"], "x");
}

#[test]
fn unknown_servers_get_only_what_all_of_them_take() {
    let mut header = header("generic", "m", &[("max_output_tokens", json!(5)), ("cache_key", json!("k"))]);
    let keys = |header: &Header| {
        let keys: BTreeMap<String, Value> = serde_json::from_value(parsed(header, &[])).unwrap();
        keys.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(keys(&header), ["max_tokens", "messages", "model", "stream", "stream_options", "tools"]);
    header.tools.clear();
    header.parameters = BTreeMap::from([("tool_choice".to_owned(), raw(&json!("auto")))]);
    assert_eq!(keys(&header), ["messages", "model", "stream", "stream_options"]);
}

#[test]
fn a_header_of_another_wire_is_refused() {
    let mut header = header("openai", "m", &[]);
    header.dialect = Raw::parse("[1]").unwrap();
    assert!(codec("openai-chat@1").unwrap().begin(&header).is_err());
    assert!(codec("openai-chat@2").is_none());
}
