//! Bodies of the Responses wire: what they mean, that they never change, that they only grow at their end, and what
//! of an answer goes back to whom.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use terret::core::chunk::Failure;
use terret::core::fact::{Header, ToolSpec};
use terret::core::id::{CallId, Digest};
use terret::core::message::{Attachment, Block, CallKind, Message, ProviderData, Role, Source};
use terret::core::raw::Raw;
use terret::model::openai_responses::dialect::Dialect;
use terret::model::{codec, no_blobs};

const ROWS: [&str; 7] = ["openai", "azure", "deepseek", "llamacpp", "ollama", "vllm", "generic"];
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

fn call(step: u32, ordinal: u32) -> CallId {
    CallId { turn: 1, step, ordinal }
}

fn header(row: &str, model: &str, parameters: &[(&str, Value)]) -> Header {
    let read = r#"{"type":"object", "properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#;
    let tool = |name: &str, description: &str, parameters: &str| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: Raw::parse(parameters).unwrap(),
    };
    let raw = |value: &Value| Raw::from_value(value).unwrap();
    Header {
        provider: row.to_owned(),
        model: model.to_owned(),
        wire: "openai-responses@1".to_owned(),
        dialect: Raw::from_value(&Dialect::built_in(row, model).unwrap()).unwrap(),
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), raw(value))).collect(),
        defaults: Vec::new(),
        system: Some("You are terret.".to_owned()),
        tools: vec![
            tool("read", "Read a file", read),
            tool("shot", "Take a screenshot", r#"{"type":"object","properties":{}}"#),
        ],
    }
}

/// An answer of this header's own model.
fn answer(header: &Header, content: Vec<Block>) -> Message {
    let source = Source::Model {
        provider: header.provider.clone(),
        model: header.model.clone(),
        wire: Some(header.wire.clone()),
        response_id: Some("resp_1".to_owned()),
    };
    Message { id: "a".into(), role: Role::Assistant, content, source }
}

#[expect(clippy::unnecessary_wraps, reason = "it is what a block holds")]
fn data(header: &Header, data: &str) -> Option<ProviderData> {
    Some(ProviderData {
        protocol: header.wire.split('@').next().unwrap().to_owned(),
        route: header.provider.clone(),
        model: header.model.clone(),
        data: Raw::parse(data).unwrap(),
    })
}

const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA==","summary":[{"type":"summary_text","text":"plan"}]}"#;

fn thought(header: &Header, item: &str) -> Block {
    Block::Reasoning { text: "plan".to_owned(), provider: data(header, &format!("{{\"item\":{item}}}")) }
}

fn said(header: &Header, text: &str, id: &str) -> Block {
    Block::Text { text: text.to_owned(), provider: data(header, id) }
}

fn tool_call(header: &Header, at: CallId, id: &str, arguments: &str, opaque: Option<&str>) -> Block {
    Block::ToolCall {
        call: Some(at),
        id: id.to_owned(),
        name: if at.ordinal == 0 { "read" } else { "shot" }.to_owned(),
        arguments: arguments.to_owned(),
        kind: CallKind::Json,
        provider: opaque.and_then(|opaque| data(header, opaque)),
    }
}

fn result(call: CallId, content: Vec<Block>) -> Message {
    let content = vec![Block::ToolResult { call, content, is_error: false }];
    Message { id: "t".into(), role: Role::User, content, source: Source::Tool { call } }
}

fn image(media_type: &str) -> Block {
    let bytes = STANDARD.decode(PNG).unwrap();
    let (blob, media_type, bytes) = (Digest::of(&bytes), media_type.to_owned(), bytes.len() as u64);
    Block::Image { attachment: Attachment { blob, media_type, bytes, name: None } }
}

fn blobs(blob: &Digest) -> Result<Vec<u8>, Failure> {
    let bytes = STANDARD.decode(PNG).unwrap();
    if Digest::of(&bytes) == *blob { Ok(bytes) } else { no_blobs(blob) }
}

/// The history both golden steps come from.
fn history(header: &Header) -> Vec<Message> {
    vec![
        Message::user("u1", "look at a.rs and the screen"),
        answer(
            header,
            vec![
                thought(header, REASONING),
                said(header, "Looking.", r#"{"item_id":"msg_1","phase":"commentary"}"#),
                tool_call(header, call(1, 0), "call_1", r#"{"path":"a.rs"}"#, Some(r#"{"item_id":"fc_1"}"#)),
                tool_call(header, call(1, 1), "call_2", "", Some(r#"{"item_id":"fc_2"}"#)),
            ],
        ),
        result(call(1, 0), vec![Block::text("ENOENT a.rs")]),
        result(
            call(1, 1),
            vec![Block::Json { value: Raw::parse(r#"{"w": 1, "h": 1}"#).unwrap() }, image("image/png")],
        ),
        answer(header, vec![Block::text("Nothing there.")]),
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

fn input(header: &Header, messages: &[Message]) -> Vec<Value> {
    parsed(header, messages)["input"].as_array().unwrap().clone()
}

fn stored(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/requests").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn golden_header() -> Header {
    let parameters = [
        ("max_output_tokens", json!(32000)),
        ("reasoning_effort", json!("medium")),
        ("cache_key", json!("sess_1")),
    ];
    header("openai", "gpt-y", &parameters)
}

#[test]
fn bodies_mean_what_the_golden_ones_mean() {
    let header = golden_header();
    let history = history(&header);
    for (name, steps) in [("openai-responses.step1.json", 4), ("openai-responses.step2.json", 6)] {
        let golden: Value = serde_json::from_str(&stored(name)).unwrap();
        assert_eq!(parsed(&header, &history[..steps]), golden, "{name}");
    }
}

/// Stored sessions are proven against these bytes. If this fails, the codec has changed: give it a new name.
#[test]
fn bodies_never_change() {
    let mut header = golden_header();
    let schema = json!({"name": "answer", "schema": {"type": "object", "properties": {}, "additionalProperties": false}});
    for (name, value) in [("output_schema", schema), ("verbosity", json!("low")), ("top_p", json!(0.5))] {
        header.parameters.insert(name.to_owned(), Raw::from_value(&value).unwrap());
    }
    let mut history = history(&header);
    history.extend(more(&header));
    assert_eq!(body(&header, &history), stored("openai-responses@1.frozen.json").trim_end());
}

/// Everything else that may stand in a history.
fn more(header: &Header) -> Vec<Message> {
    let mut custom =
        tool_call(header, call(2, 1), "call_3", "*** Begin", Some(r#"{"item_id":"ctc_1","custom":true}"#));
    if let Block::ToolCall { kind, .. } = &mut custom {
        *kind = CallKind::Custom;
    }
    vec![
        answer(
            header,
            vec![tool_call(header, call(2, 0), "call_1", "{not json", Some(r#"{"item_id":"fc_1"}"#)), custom],
        ),
        result(call(2, 1), vec![]),
        result(call(2, 0), vec![image("image/tiff")]),
        result(call(2, 7), vec![Block::text("for nobody"), image("image/webp")]),
        answer(
            header,
            vec![
                Block::Provider { wire: Raw::parse(SEARCH).unwrap() },
                said(
                    header,
                    "cited",
                    r#"{"item_id":"msg_2","annotations":[{"type":"url_citation","url":"u","title":"t","start_index":0,"end_index":1}]}"#,
                ),
                Block::Refusal {
                    text: "no \"\\\u{7f}\n".to_owned(),
                    provider: data(header, r#"{"item_id":"msg_2"}"#),
                },
                said(header, "cut", r#"{"item_id":"msg_3","status":"incomplete"}"#),
            ],
        ),
        Message::user("u3", ""),
    ]
}

#[test]
fn what_else_may_stand_in_a_history() {
    let header = header("openai", "gpt-y", &[]);
    let mut messages = history(&header);
    messages.extend(more(&header));
    let items = input(&header, &messages);
    let items = &items[9..];
    let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap_or("-")).collect();
    let expected = [
        "function_call",
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call_output",
        "-",
        "web_search_call",
        "message",
        "message",
        "-",
    ];
    assert_eq!(kinds, expected);
    let id = items[0]["call_id"].as_str().unwrap();
    assert!(id.starts_with("call_") && id != "call_1", "a call's id is used once: {id}");
    assert!(items[0].get("id").is_none(), "and an item's");
    assert_eq!(items[0]["arguments"], "{not json");
    assert_eq!((&items[1]["id"], &items[1]["input"]), (&json!("ctc_1"), &json!("*** Begin")));
    assert_eq!((&items[2]["call_id"], &items[2]["output"]), (&json!("call_3"), &json!("(no output)")));
    assert_eq!(items[3]["call_id"], id);
    assert!(items[3]["output"].as_str().unwrap().starts_with("[image: image/tiff"));
    assert_eq!(items[4]["content"][0]["text"], "Result of tool call 1.2.7:");
    assert_eq!(items[4]["content"][2]["type"], "input_image");
    assert_eq!(items[5], serde_json::from_str::<Value>(SEARCH).unwrap());
    assert_eq!(items[6]["content"][0]["annotations"][0]["url"], "u");
    assert_eq!(items[6]["content"][1], json!({"type": "refusal", "refusal": "no \"\\\u{7f}\n"}));
    assert_eq!((&items[7]["id"], &items[7]["status"]), (&json!("msg_3"), &json!("incomplete")));
    assert_eq!(items[8], json!({"role": "user", "content": [{"type": "input_text", "text": ""}]}));
}

/// The types of the items, with what marks those that go back as they were.
fn shape(items: &[Value]) -> Vec<String> {
    let name = |item: &Value| {
        let kind = item.get("type").or(item.get("role")).unwrap().as_str().unwrap();
        format!("{kind}{}", if item.get("id").is_some() { "*" } else { "" })
    };
    items.iter().map(name).collect()
}

#[test]
fn an_answer_goes_back_whole_or_as_anyone_may_read_it() {
    let header = header("openai", "gpt-y", &[]);
    let at = call(1, 0);
    let asks = |opaque: Option<&str>| tool_call(&header, at, "call_1", "{}", opaque);
    let fc = asks(Some(r#"{"item_id":"fc_1"}"#));
    let msg = said(&header, "x", r#"{"item_id":"msg_1"}"#);
    let think = thought(&header, REASONING);
    let shape_of = |content: &[&Block]| {
        let content = content.iter().map(|block| (*block).clone()).collect();
        shape(&input(&header, &[answer(&header, content)]))
    };
    assert_eq!(shape_of(&[&think, &msg, &fc]), ["reasoning*", "message*", "function_call*"]);
    assert_eq!(shape_of(&[&msg, &fc]), ["message*", "function_call*"]);
    // A cut answer has text without data; what an output limit dropped leaves reasoning that led to nothing.
    assert_eq!(shape_of(&[&think, &Block::text("x")]), ["assistant"]);
    assert_eq!(shape_of(&[&think, &msg, &think]), ["assistant"]);
    assert_eq!(shape_of(&[&msg, &thought(&header, REASONING)]), ["assistant"]);
    assert_eq!(shape_of(&[&think, &asks(None)]), ["function_call"]);
    assert_eq!(shape_of(&[&think]), Vec::<String>::new());
    // What was never encrypted cannot be found again by a server that stores nothing.
    let bare = thought(&header, r#"{"id":"rs_1","type":"reasoning","encrypted_content":null,"summary":[]}"#);
    assert_eq!(shape_of(&[&bare, &fc]), ["function_call"]);
    // Data of another model in it: whoever put it there, this one cannot have written all of it.
    let foreign = said(&self::header("openai", "gpt-z", &[]), "y", r#"{"item_id":"msg_2"}"#);
    assert_eq!(shape_of(&[&think, &foreign, &fc]), ["assistant", "function_call"]);
    // The same reasoning twice is refused.
    let twice = [answer(&header, vec![think.clone(), msg.clone()]), answer(&header, vec![think, msg])];
    assert_eq!(shape(&input(&header, &twice)), ["reasoning*", "message*", "assistant"]);
}

#[test]
fn ids_that_a_server_refuses_stay_here() {
    let header = header("openai", "gpt-y", &[]);
    let long = format!(r#"{{"item_id":"msg_{}"}}"#, "x".repeat(64));
    let content = vec![
        said(&header, "x", &long),
        tool_call(&header, call(1, 0), &"c".repeat(65), "{}", Some(r#"{"item_id":"B3","namespace":"n"}"#)),
    ];
    let items = input(&header, &[answer(&header, content)]);
    assert_eq!(shape(&items), ["message", "function_call"]);
    assert!(items[1]["call_id"].as_str().unwrap().len() <= 64);
    assert_eq!(items[1]["namespace"], "n", "what belongs to an item goes along");
}

#[test]
fn another_model_gets_nothing_it_could_not_have_written() {
    let own = header("openai", "gpt-y", &[]);
    let mut history = history(&own);
    history.extend(more(&own));
    for other in [
        header("openai", "gpt-z", &[]),
        header("azure", "gpt-y", &[]),
        Header { wire: "openai-chat@1".to_owned(), ..own.clone() },
    ] {
        let mut messages = history.clone();
        for message in &mut messages {
            // As if `other` had written it.
            if let Source::Model { provider, model, wire, .. } = &mut message.source {
                (*provider, *model) = (other.provider.clone(), other.model.clone());
                *wire = Some(other.wire.clone());
            }
        }
        for text in [body(&own, &messages), body(&header("azure", "gpt-z", &[]), &history)] {
            for mark in
                ["rs_1", "gAAA==", "fc_1", "msg_1", "ctc_1", "ws_1", "phase", "refusal\"", "annotations"]
            {
                assert!(!text.contains(mark), "{mark} in {text}");
            }
            assert!(text.contains("Looking.") && text.contains("cited"));
        }
    }
}

#[test]
fn servers_get_only_what_they_take() {
    let parameters = [
        ("max_output_tokens", json!(5)),
        ("reasoning_effort", json!("high")),
        ("cache_key", json!("k")),
        ("parallel_tool_calls", json!(false)),
        ("tool_choice", json!({"type": "function", "function": {"name": "read"}})),
        ("output_schema", json!({"name": "a", "schema": {"type": "object"}})),
        ("store", json!(true)),
        ("seed", json!(7)),
        ("user", Value::Null),
    ];
    let keys = |row: &str, model: &str| {
        let body: Value = serde_json::from_str(&body(&header(row, model, &parameters), &[])).unwrap();
        (body.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>(), body)
    };
    let set = |names: &str| names.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    let common = "model instructions tools tool_choice reasoning max_output_tokens seed stream input";
    let (generic, body) = keys("generic", "m");
    assert_eq!(generic, set(common));
    assert_eq!(body["reasoning"], json!({"effort": "high"}));
    assert_eq!(body["tool_choice"], json!({"type": "function", "name": "read"}));
    assert_eq!(keys("llamacpp", "m").0, set(common));
    assert_eq!(keys("vllm", "m").0, set(&format!("{common} text")));
    let (openai, body) = keys("openai", "m");
    assert_eq!(openai, set(&format!("{common} parallel_tool_calls text include store prompt_cache_key")));
    assert_eq!(body["store"], false);
    assert_eq!(body["text"]["format"]["strict"], false);
    let (old, _) = keys("openai", "gpt-4.1");
    assert!(!old.contains("include") && !old.contains("reasoning"));
    let mut bare = header("openai", "m", &[("tool_choice", json!("auto"))]);
    bare.tools.clear();
    bare.system = None;
    assert_eq!(
        self::body(&bare, &[]),
        r#"{"model":"m","include":["reasoning.encrypted_content"],"store":false,"stream":true,"input":[]}"#
    );
    let mut strict = header("openai", "m", &[]);
    let schema = r#"{"schema" : {"type":"object","properties":{},"additionalProperties":false},"name":"n"}"#;
    strict.parameters.insert("output_schema".to_owned(), Raw::parse(schema).unwrap());
    assert_eq!(parsed(&strict, &[])["text"]["format"]["strict"], true);
}

#[test]
fn a_local_server_gets_words_types_and_calls_it_knows() {
    let header = header("llamacpp", "m", &[]);
    let mut messages = history(&header);
    messages.extend(more(&header));
    let items = input(&header, &messages);
    assert!(items.iter().all(|item| item["type"].is_string()), "{items:?}");
    assert_eq!(items[1]["type"], "reasoning", "its own thoughts go back");
    let text = body(&header, &messages);
    assert!(!text.contains("input_image") && !text.contains("custom_tool_call"));
    assert!(text.contains(r#"\"input\":\"*** Begin\""#));
}

#[test]
fn an_absent_picture_is_a_failure_and_a_strange_header_too() {
    let mut header = header("openai", "m", &[]);
    let mut body = codec(&header.wire).unwrap().begin(&header).unwrap();
    let content = vec![image("image/png")];
    let message = Message { content, ..Message::user("u", "") };
    assert!(body.push(&message, &no_blobs).is_err());
    header.dialect = Raw::parse("[1]").unwrap();
    assert!(codec("openai-responses@1").unwrap().begin(&header).is_err());
    assert!(codec("openai-responses@2").is_none());
}

/// Histories of every shape, from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn text(&mut self) -> Block {
        match self.below(6) {
            0 => image("image/png"),
            1 => Block::text(""),
            2 => image("image/bmp"),
            _ => Block::text("words"),
        }
    }

    /// One step: perhaps somebody speaks, a model answers, and its calls are answered in any order.
    fn step(&mut self, headers: &[Header], step: u32, into: &mut Vec<Message>) {
        for _ in 0..self.below(3) {
            let content = (0..=self.below(3)).map(|_| self.text()).collect();
            into.push(Message { content, ..Message::user("u", "") });
        }
        let header = &headers[self.below(headers.len() as u64) as usize];
        let (mut content, mut calls) = (Vec::new(), Vec::new());
        for block in 0..self.below(6) {
            let opaque = |kind: &str| format!(r#"{{"item_id":"{kind}_{step}_{block}"}}"#);
            let marked = self.below(8) > 0;
            content.push(match self.below(6) {
                0 => thought(header, &REASONING.replace("rs_1", &format!("rs_{step}_{block}"))),
                1 => Block::Refusal { text: "no".to_owned(), provider: data(header, &opaque("msg")) },
                2 if marked => said(header, "words", &opaque("msg")),
                2 => Block::text(if self.below(2) == 0 { "" } else { "words" }),
                3 => Block::Provider {
                    wire: Raw::parse(format!(r#"{{"id":"x_{step}_{block}","type":"x"}}"#)).unwrap(),
                },
                _ => {
                    let at = call(step, calls.len() as u32);
                    calls.push(at);
                    let id = ["", "call_0", "call_1", "functions.read:0"][self.below(4) as usize];
                    let arguments = ["", "{}", "{broken", r#"{"a":"\""}"#][self.below(4) as usize];
                    let mut asks = tool_call(header, at, id, arguments, marked.then_some(&opaque("fc")));
                    if let (Block::ToolCall { kind, .. }, 0) = (&mut asks, self.below(4)) {
                        *kind = CallKind::Custom;
                    }
                    asks
                }
            });
        }
        into.push(answer(header, content));
        if self.below(2) == 0 {
            calls.reverse();
        }
        for call in calls {
            let content = (0..self.below(3)).map(|_| self.text()).collect();
            into.push(result(call, content));
        }
        if self.below(10) == 0 {
            into.push(result(call(step, 99), vec![Block::text("for nobody")]));
        }
    }
}

#[test]
fn long_histories_only_grow_and_break_no_rule() {
    let mut reasoned = 0;
    for seed in 1..=40 {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        for row in ROWS {
            let header = header(row, "m", &[("temperature", json!(0))]);
            let headers = [header.clone(), header.clone(), self::header("openai", "other", &[])];
            let mut messages = Vec::new();
            (1..=12).for_each(|step| dice.step(&headers, step, &mut messages));
            let mut grown = codec(&header.wire).unwrap().begin(&header).unwrap();
            let mut before = String::from_utf8(grown.bytes().to_vec()).unwrap();
            for message in &messages {
                grown.push(message, &blobs).unwrap();
                let now = String::from_utf8(grown.bytes().to_vec()).unwrap();
                assert!(now.starts_with(before.strip_suffix("]}").unwrap()), "{row}, seed {seed}");
                before = now;
            }
            assert_eq!(before, body(&header, &messages), "asking for the bytes changes nothing");
            reasoned += check(&before);
        }
    }
    assert!(reasoned > 100, "the dice must show reasoning that goes back: {reasoned}");
}

/// An item nobody here knows.
const SEARCH: &str =
    r#"{"id":"ws_1", "status":"completed","type":"web_search_call","action":{"type":"search","query":"q"}}"#;

/// What a server demands of an input. Says how many reasoning items it has.
fn check(body: &str) -> usize {
    let body: Value = serde_json::from_str(body).unwrap();
    let items = body["input"].as_array().unwrap();
    let (mut ids, mut calls, mut open) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut reasoned = 0;
    for (at, item) in items.iter().enumerate() {
        if let Some(id) = item["id"].as_str() {
            assert!(ids.insert(id), "{id} comes twice");
        }
        let kind = item["type"].as_str().unwrap_or("message");
        match kind {
            "reasoning" => {
                reasoned += 1;
                let next = items.get(at + 1).unwrap();
                let answers = next["role"] == "user"
                    || next["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
                assert!(!answers, "reasoning that led to nothing: {next}");
                assert!(
                    next["type"] == "x"
                        || next["type"] == "custom_tool_call"
                        || next.get("id").is_some()
                        || next.get("status").is_some(),
                    "{next}"
                );
            }
            "function_call" | "custom_tool_call" => {
                let id = item["call_id"].as_str().unwrap();
                assert!(!id.is_empty() && id.len() <= 64 && calls.insert(id), "{id}");
                open.insert((id, kind));
            }
            "function_call_output" | "custom_tool_call_output" => {
                let id = item["call_id"].as_str().unwrap();
                assert!(open.remove(&(id, kind.strip_suffix("_output").unwrap())), "{id} answers no call");
            }
            "message" => assert_ne!(item["content"], json!([]), "a message says something"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "unanswered: {open:?}");
    reasoned
}
