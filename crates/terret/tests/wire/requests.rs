//! Bodies: what they mean, that they never change, and that they only ever grow at their end.

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
use terret::model::openai_chat::dialect::Dialect;
use terret::model::openai_chat::rows::NAMES;
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
        wire: "openai-chat@2".to_owned(),
        dialect: Raw::from_value(&Dialect::built_in(dialect, model).unwrap()).unwrap(),
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

/// The picture of the golden bodies.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// The bytes the attachments of the tests stand for.
pub(crate) fn blobs(blob: &Digest) -> Result<Vec<u8>, Failure> {
    let png = STANDARD.decode(PNG).unwrap();
    match [png, b"png".to_vec()].into_iter().find(|bytes| Digest::of(bytes) == *blob) {
        Some(bytes) => Ok(bytes),
        None => no_blobs(blob),
    }
}

fn picture(bytes: &[u8]) -> Block {
    let (blob, media_type) = (Digest::of(bytes), "image/png".to_owned());
    Block::Image { attachment: Attachment { blob, media_type, bytes: bytes.len() as u64, name: None } }
}

fn image() -> Block {
    picture(b"png")
}

/// The history both golden steps come from, with another picture.
fn history(model: &str) -> Vec<Message> {
    history_with(model, image())
}

fn history_with(model: &str, image: Block) -> Vec<Message> {
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
        result(1, vec![Block::Json { value: Raw::parse(r#"{"w": 1, "h": 1}"#).unwrap() }, image], false),
        assistant(model, vec![Block::text("Nothing there.")]),
        Message::user("u2", "try b.rs"),
    ]
}

fn body(header: &Header, messages: &[Message]) -> String {
    let mut body = codec(&header.wire).unwrap().begin(header).unwrap();
    messages.iter().for_each(|message| body.push(message, &blobs).unwrap());
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
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
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
        let history = history_with(&header.model, picture(&STANDARD.decode(PNG).unwrap()));
        assert_eq!(parsed(header, &history[..4]), golden(&format!("{name}.step1.json")), "{name}");
        assert_eq!(parsed(header, &history), golden(&format!("{name}.step2.json")), "{name}");
    }
}

/// Stored sessions are proven against these bytes. If this fails, the codec has changed: give it a new name.
#[test]
fn bodies_never_change() {
    let parameters = [("max_output_tokens", json!(32000)), ("top_p", json!(0.5))];
    let first = Header {
        wire: "openai-chat@1".to_owned(),
        // As it was written then: the columns of later versions were not there, and mean nothing where they are.
        dialect: Raw::parse(
            r#"{"max_tokens_field":"max_completion_tokens","store":true,"parallel_tool_calls":true,
                "prompt_cache_key":true,"images":"send","renamed":["top_p=p"],"tool_choice_any":true}"#,
        )
        .unwrap(),
        ..header("openai", "gpt-x", &parameters)
    };
    let schema = json!({"name": "answer", "schema": {"type": "object", "properties": {}, "required": [],
        "additionalProperties": false}});
    let more = [("seed", json!(7)), ("output_schema", schema), ("tool_choice", json!("required"))];
    let second = header("mistral", "m", &[&parameters[..1], &more[..]].concat());
    for (header, name) in [(first, "openai-chat@1"), (second, "openai-chat@2")] {
        let name = format!("tests/wire/requests/{name}.frozen.json");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let body = body(&header, &history(&header.model));
        if std::env::var_os("FREEZE").is_some() && !path.exists() {
            std::fs::write(&path, format!("{body}\n")).unwrap();
        }
        assert_eq!(body, std::fs::read_to_string(path).unwrap().trim_end());
    }
}

#[test]
fn a_body_is_the_beginning_of_the_next() {
    for name in NAMES {
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
                grown.push(message, &blobs).unwrap();
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
    assert_eq!(messages[4]["content"][1]["image_url"]["url"], "data:image/png;base64,cG5n");
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
    assert!(codec("openai-chat@3").is_none());
}

#[test]
fn what_only_some_servers_want_is_a_column() {
    let mistral = header("mistral", "m", &[("tool_choice", json!("required")), ("seed", json!(7))]);
    let mut history = history("m");
    history.truncate(4);
    history.push(Message::user("u2", "and?"));
    let parsed = parsed(&mistral, &history);
    assert_eq!((&parsed["random_seed"], &parsed["tool_choice"]), (&json!(7), &json!("any")));
    assert!(parsed.get("seed").is_none() && parsed.get("stream_options").is_none());
    let messages = parsed["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant", "user", "user"]);
    let ids: Vec<&str> = [3, 4].map(|at: usize| messages[at]["tool_call_id"].as_str().unwrap()).to_vec();
    assert!(ids.iter().all(|id| id.len() == 9), "{ids:?}");

    let effort = |name: &str, effort: &str| {
        let body = body(&header(name, "m", &[("reasoning_effort", json!(effort))]), &[]);
        let known = ["thinking", "reasoning", "reasoning_effort", "chat_template_kwargs"];
        let body: BTreeMap<String, Value> = serde_json::from_str(&body).unwrap();
        serde_json::to_string(&known.iter().filter_map(|key| body.get(*key)).collect::<Vec<_>>()).unwrap()
    };
    for (name, low, none) in [
        ("openai", r#"["low"]"#, r#"["none"]"#),
        ("deepseek", r#"[{"type":"enabled"},"low"]"#, r#"[{"type":"disabled"}]"#),
        ("openrouter", r#"[{"effort":"low"}]"#, r#"[{"effort":"none"}]"#),
        ("together", r#"[{"enabled":true}]"#, r#"[{"enabled":false}]"#),
        ("llamacpp", r#"[{"enable_thinking":true}]"#, r#"[{"enable_thinking":false}]"#),
        ("mistral", "[]", "[]"),
    ] {
        assert_eq!((effort(name, "low").as_str(), effort(name, "none").as_str()), (low, none), "{name}");
    }

    let schema = json!({"name": "answer", "schema": {"type": "object"}});
    let format = |name: &str| {
        let header = header(name, "m", &[("output_schema", schema.clone())]);
        let body: Value = serde_json::from_str(&body(&header, &[])).unwrap();
        assert!(body.get("output_schema").is_none());
        body.get("response_format").cloned()
    };
    assert_eq!(format("generic"), None);
    assert_eq!(format("deepseek"), Some(json!({"type": "json_object"})));
    let whole = json!({"name": "answer", "strict": false, "schema": {"type": "object"}});
    assert_eq!(format("openai"), Some(json!({"type": "json_schema", "json_schema": whole})));

    let mut row = Dialect::built_in("generic", "m").unwrap();
    row.tools_with_history = true;
    let bare =
        Header { dialect: Raw::from_value(&row).unwrap(), tools: Vec::new(), ..header("generic", "m", &[]) };
    assert!(body(&bare, &[]).contains(r#","tools":[],"messages":["#));
}
