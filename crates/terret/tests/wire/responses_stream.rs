//! Rules of the stream of responses that no recorded body shows.

use serde_json::{Value, json};
use terret::core::assemble::{Assembler, Route};
use terret::core::chunk::{Channel, Chunk, Failure, FinishKind, code};
use terret::core::limits::MAX_BLOCKS;
use terret::core::message::Block;
use terret::model::openai_responses::WIRE;
use terret::model::response::{Progress, Response};

struct Read {
    chunks: Vec<Chunk>,
    failure: Option<Failure>,
}

impl Read {
    fn fold(&self) -> Assembler {
        let mut fold = Assembler::new(Route::default());
        self.chunks.iter().for_each(|chunk| fold.push(chunk));
        fold
    }

    /// Each block as its kind, its text or arguments, and the opaque data.
    fn blocks(&self) -> Vec<(String, String, Value)> {
        let block = |block: Block| {
            let value = serde_json::to_value(&block).unwrap();
            let text = ["text", "arguments"].iter().find_map(|name| value[name].as_str()).unwrap_or_default();
            (value["type"].as_str().unwrap().to_owned(), text.to_owned(), value["provider"]["data"].clone())
        };
        self.fold().content().into_iter().map(block).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.blocks().into_iter().map(|(kind, text, _)| format!("{kind} {text}")).collect()
    }

    fn finish(&self) -> FinishKind {
        assert_eq!(self.failure, None);
        self.fold().finish().unwrap().kind
    }
}

fn read(events: &[Value]) -> Read {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    read_text(&body)
}

fn read_text(body: &str) -> Read {
    let mut chunks = Vec::new();
    let mut response = Response::new(&WIRE, Some("key-12345678".to_owned()));
    let failure = match response.push(body.as_bytes(), &mut chunks) {
        Ok(Progress::Finished) => None,
        Ok(Progress::Open) => response.finish(&mut chunks).err(),
        Err(failure) => Some(failure),
    };
    Read { chunks, failure }
}

fn added(at: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": at, "item": item})
}

fn done(at: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": at, "item": item})
}

fn text(at: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": at, "content_index": 0, "delta": delta})
}

fn message(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "message", "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"output": output}})
}

fn reasoning(encrypted: Value) -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": encrypted})
}

#[test]
fn the_end_of_an_item_is_the_last_word() {
    let said = |item: Value| {
        read(&[
            added(0, message("a", "")),
            text(0, "dra"),
            done(0, item),
            text(0, "late"),
            completed(json!([])),
        ])
    };
    assert_eq!(said(message("b", "dragon")).texts(), ["text dragon"], "what is missing is added");
    let replaced = said(message("b", "other"));
    assert_eq!(replaced.blocks(), [("text".to_owned(), "other".to_owned(), json!({"item_id": "b"}))]);
    assert_eq!(said(message("b", "")).texts(), ["text dra"], "an end that says nothing takes nothing back");
    let call =
        json!({"id": "fc_1", "type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}});
    let delta =
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "{\"b\""});
    let read = read(&[delta, done(3, call), completed(json!([]))]);
    assert_eq!(read.texts(), [r#"tool-call {"a":1}"#]);
    assert_eq!(read.finish(), FinishKind::ToolCalls);
}

#[test]
fn items_are_told_apart_by_their_place() {
    let read = read(&[
        added(2, message("a", "")),
        added(5, message("b", "")),
        text(5, "fi"),
        text(2, "se"),
        text(5, "ve"),
        done(5, message("b", "five")),
        done(2, message("a", "second")),
        done(2, message("c", "once more")),
        completed(json!([])),
    ]);
    let block = |text: &str, id: &str| ("text".to_owned(), text.to_owned(), json!({"item_id": id}));
    let mut blocks = read.blocks();
    blocks.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(blocks, [block("five", "b"), block("second", "a")]);
}

#[test]
fn what_only_the_end_of_the_response_says_is_taken() {
    let encrypted = |done_item: Value, output: Value| {
        read(&[done(0, done_item), done(1, message("m", "x")), completed(output)]).blocks()[0].2.clone()
    };
    let late = encrypted(reasoning(Value::Null), json!([reasoning(json!("E")), message("m", "x")]));
    assert_eq!(late["item"], reasoning(json!("E")));
    let own = encrypted(reasoning(json!("own")), json!([reasoning(json!("E"))]));
    assert_eq!(own["item"]["encrypted_content"], "own");
    let mut another = reasoning(json!("E"));
    another["id"] = json!("rs_2");
    assert_eq!(encrypted(reasoning(Value::Null), json!([another]))["item"], reasoning(Value::Null));

    let unfinished =
        read(&[added(4, message("m", "")), text(4, "a"), completed(json!([message("m", "ab")]))]);
    assert_eq!(unfinished.blocks(), [("text".to_owned(), "ab".to_owned(), json!({"item_id": "m"}))]);
    let only = read(&[completed(json!([message("m", "all"), {"type": "x", "id": "x_1"}]))]);
    assert_eq!(only.texts(), ["text all", "provider "]);
    let known = read(&[done(0, message("m", "a")), completed(json!([message("other", "a")]))]);
    assert_eq!(known.texts(), ["text a"], "ids change on the way: nothing is taken twice");
}

/// Whoever cancels or dies hears nothing of the end.
#[test]
fn nothing_binding_is_known_of_a_response_before_its_end() {
    let whole = [done(0, reasoning(json!("E"))), done(1, message("m", "x")), completed(json!([]))];
    let cut = |events: &[Value]| {
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let mut chunks = Vec::new();
        let _ = Response::new(&WIRE, None).push(body.as_bytes(), &mut chunks);
        let mut fold = Assembler::new(Route::default());
        chunks.iter().for_each(|chunk| fold.push(chunk));
        fold.partial()
    };
    assert_eq!(cut(&whole[..2]), [Block::text("x")]);
    assert_eq!(cut(&whole).len(), 2);
    // Nor do thoughts of a failed one go back.
    let failed = read(&whole[..2]);
    assert_eq!(failed.failure.as_ref().unwrap().code, code::STREAM_CLOSED);
    assert_eq!(failed.texts(), ["text x"]);
}

#[test]
fn summaries_and_thoughts_are_told_apart_and_their_parts_too() {
    let delta = |kind: &str, name: &str, index: u64, text: &str| json!({"type": format!("response.{kind}.delta"), "output_index": 0, name: index, "delta": text});
    let item = json!({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "raw"}],
                      "summary": [{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}]});
    let read = read(&[
        delta("reasoning_text", "content_index", 0, "raw"),
        delta("reasoning_summary_text", "summary_index", 0, "a"),
        delta("reasoning_summary_text", "summary_index", 0, "b"),
        delta("reasoning_summary_text", "summary_index", 1, "c"),
        done(0, item),
        done(1, message("m", "x")),
        completed(json!([])),
    ]);
    assert_eq!(read.texts()[0], "reasoning raw\n\nab\n\nc");
    let deltas: Vec<(&str, Option<Channel>)> = read
        .chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::ReasoningDelta { text, channel, .. } => Some((text.as_str(), *channel)),
            _ => None,
        })
        .collect();
    let (raw, summary) = (Some(Channel::Raw), Some(Channel::Summary));
    assert_eq!(deltas, [("raw", raw), ("\n\na", summary), ("b", summary), ("\n\nc", summary)]);
}

#[test]
fn parts_of_one_message_are_blocks_of_their_own() {
    let refusal =
        json!({"type": "response.refusal.delta", "output_index": 0, "content_index": 1, "delta": "no"});
    let item = json!({"id": "m", "type": "message", "phase": "final_answer", "status": "incomplete",
        "content": [{"type": "output_text", "text": "x", "annotations": [{"type": "n"}]},
                    {"type": "refusal", "refusal": "no"}]});
    let read = read(&[text(0, "x"), refusal, done(0, item), completed(json!([]))]);
    let rest = json!({"item_id": "m", "status": "incomplete", "phase": "final_answer"});
    let mut first = rest.clone();
    first["annotations"] = json!([{"type": "n"}]);
    let block = |kind: &str, text: &str, data| (kind.to_owned(), text.to_owned(), data);
    assert_eq!(read.blocks(), [block("text", "x", first), block("refusal", "no", rest)]);
    assert_eq!(read.finish(), FinishKind::Refusal);
}

#[test]
fn ends_are_told_apart() {
    let incomplete = |details: Value| {
        let end = json!({"type": "response.incomplete", "response": {"incomplete_details": details}});
        let read = read(&[text(0, "x"), end]);
        (read.finish(), read.fold().finish().unwrap().raw.clone())
    };
    let named = |reason: &str| incomplete(json!({"reason": reason}));
    assert_eq!(named("max_output_tokens").0, FinishKind::MaxTokens);
    assert_eq!(named("steered"), (FinishKind::Other, "incomplete.steered".to_owned()));
    assert_eq!(incomplete(Value::Null), (FinishKind::MaxTokens, "incomplete".to_owned()));
    // The event of a whole answer, and a state that is none.
    let end = json!({"type": "response.completed", "response": {"status": "incomplete"}});
    assert_eq!(read(&[text(0, "x"), end]).finish(), FinishKind::MaxTokens);
    let code_of = |events: &[Value]| read(events).failure.unwrap().code;
    assert_eq!(code_of(&[completed(json!([]))]), code::EMPTY_RESPONSE);
    assert_eq!(code_of(&[done(0, reasoning(json!("E"))), completed(json!([]))]), code::EMPTY_RESPONSE);
    let failed = |response: Value| json!({"type": "response.failed", "response": response});
    assert_eq!(code_of(&[failed(json!({"error": null}))]), code::PROVIDER_ERROR);
    for (name, class) in [
        ("server_error", code::SERVER),
        ("rate_limit_exceeded", code::RATE_LIMIT),
        ("invalid_prompt", code::INVALID_REQUEST),
        ("bio_policy", code::CONTENT_FILTER),
        ("misalignment_policy_violation", code::CONTENT_FILTER),
        ("vector_store_timeout", code::TIMEOUT),
        ("data_residency_mismatch", code::INVALID_REQUEST),
        ("invalid_image", code::INVALID_REQUEST),
    ] {
        assert_eq!(code_of(&[failed(json!({"error": {"code": name, "message": "m"}}))]), class, "{name}");
    }
    assert_eq!(code_of(&[json!({"type": "response.cancelled", "response": {}})]), code::PROVIDER_ERROR);
    assert_eq!(code_of(&[json!({"error": {"message": "no, key-12345678", "code": 503}})]), code::SERVER);
    let masked = read(&[json!({"type": "error", "message": "no, key-12345678"})]).failure.unwrap();
    assert!(!format!("{masked:?}").contains("12345678"));
    let marked = read_text(&format!("data: {}\n\ndata: [DONE]\n\n", done(0, message("m", "x"))));
    assert_eq!(marked.failure.unwrap().code, code::STREAM_CLOSED, "an end marker is no end of a response");
    assert_eq!(
        read_text("data: {\"type\":\"response.created\",\n\n").failure.unwrap().code,
        code::MALFORMED_RESPONSE
    );
}

#[test]
fn the_first_end_decides() {
    let late = json!({"type": "response.failed", "response": {"error": {"code": "server_error"}}});
    assert_eq!(read(&[text(0, "x"), completed(json!([])), late.clone()]).finish(), FinishKind::Stop);
    let mut flat = late;
    flat["type"] = json!("error");
    flat["code"] = json!("insufficient_quota");
    assert_eq!(read(&[flat, completed(json!([]))]).failure.unwrap().code, code::QUOTA);
}

#[test]
fn odd_events_do_no_harm() {
    let read = read(&[
        json!({"type": "response.output_item.added", "output_index": 7, "item": null}),
        json!({"type": "response.output_text.delta", "output_index": 7, "delta": {"no": "text"}}),
        json!({"type": "response.audio.delta", "delta": [1]}),
        json!({"no": "type"}),
        text(7, ""),
        text(7, "x"),
        added(9, json!("no item")),
        done(9, json!([])),
        json!({"type": "response.completed", "response": {"input_transformations":
            [{"id": "rs_0", "action": "removed", "type": "reasoning", "reason": "model_mismatch"}]}}),
    ]);
    assert_eq!((read.texts(), read.finish()), (vec!["text x".to_owned()], FinishKind::Stop));
    let told = read.chunks.iter().find_map(|chunk| match chunk {
        Chunk::Warning { code, detail } if code == "input-transformations" => Some(detail.as_str()),
        _ => None,
    });
    assert!(told.unwrap().contains("model_mismatch"));
    assert_eq!(self::read(&[text(0, "x"), json!({"type": "response.completed"})]).finish(), FinishKind::Stop);
}

#[test]
fn halves_of_characters_find_each_other() {
    let delta = |text: &str| {
        format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"{text}\"}}\n\n"
        )
    };
    let end = format!("data: {}\n\n", completed(json!([])));
    let read = |deltas: &[&str], item: &str| {
        let item = item.replace("TEXT", "A\\ud83d\\ude00\\ud83d");
        read_text(&format!("{}{item}{end}", deltas.iter().map(|text| delta(text)).collect::<String>()))
    };
    assert_eq!(read(&["A\\ud83d", "\\ude00B"], "").texts(), ["text A😀B"]);
    assert_eq!(read(&["A\\ud83d"], "").texts(), ["text A\u{FFFD}"]);
    let item = concat!(
        r#"data: {"type":"response.output_item.done","output_index":0,"item":{"id":"m\ud83d","type":"message","#,
        r#""content":[{"type":"output_text","text":"TEXT"}]}}"#,
        "\n\n"
    );
    let whole = read(&["A\\ud83d", "\\ude00"], item);
    assert_eq!(whole.blocks()[0].1, "A😀\u{FFFD}");
    assert_eq!(whole.blocks()[0].2, json!({"item_id": "m\u{FFFD}"}));
}

#[test]
fn a_runaway_response_stops_at_the_limit() {
    let events: Vec<Value> = (0..=MAX_BLOCKS as u64 + 1).map(|at| added(at, json!({"type": "x"}))).collect();
    assert_eq!(read(&events).failure.unwrap().code, code::MALFORMED_RESPONSE);
}

fn called(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": "f", "arguments": arguments})
}

/// Proxies change ids from event to event, and may leave the end of an item out: the end of the response has it.
#[test]
fn a_call_is_whole_or_there_is_none() {
    let piece = |text: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": text});
    let begun = [added(0, called("fc_1", "")), piece("{\"a\":")];
    let rotated = json!([called("fc_other", "{\"a\":1}"), called("fc_new", "{}")]);
    let read_with = |end: Value| read(&[&begun[..], &[end]].concat());
    let whole = read_with(completed(rotated));
    assert_eq!(
        whole.texts(),
        ["tool-call {\"a\":1}", "tool-call {}"],
        "and none that was never told of is lost"
    );
    assert_eq!(whole.finish(), FinishKind::ToolCalls);
    // Nobody has the rest.
    let cut = read_with(json!({"type": "response.completed", "response": {}}));
    assert_eq!(cut.failure.unwrap().code, code::STREAM_CLOSED);
    let shown =
        read(&[begun[0].clone(), piece("{\"a\":1}"), json!({"type": "response.completed", "response": {}})]);
    assert_eq!(shown.finish(), FinishKind::ToolCalls, "arguments that are whole say so themselves");
}

#[test]
fn a_response_that_says_it_failed_has_failed_and_its_tokens_count() {
    let error = json!({"code": "server_error", "message": "boom"});
    let usage = json!({"input_tokens": 3, "output_tokens": 2});
    for (event, status) in
        [("response.completed", "failed"), ("response.failed", "failed"), ("response.completed", "completed")]
    {
        let response = json!({"status": status, "error": error, "usage": usage});
        let read = read(&[text(0, "x"), json!({"type": event, "response": response})]);
        assert_eq!(read.failure.as_ref().unwrap().code, code::SERVER, "{event} {status}");
        assert_eq!(read.fold().usage().unwrap().output_tokens, 2);
    }
}

#[test]
fn one_event_does_not_hold_a_thread() {
    let many = |count: usize| Value::Array(vec![json!({"type": "a"}); count]);
    let begin = std::time::Instant::now();
    let malformed =
        |events: &[Value]| assert_eq!(read(events).failure.unwrap().code, code::MALFORMED_RESPONSE);
    malformed(&[completed(many(300_000))]);
    malformed(&[text(0, "x"), completed(many(300_000))]);
    let parts = vec![json!({"type": "output_text", "text": "y"}); 100_000];
    malformed(&[done(0, json!({"type": "message", "id": "m", "content": parts}))]);
    let wide: serde_json::Map<String, Value> = (0..100_000).map(|n| (n.to_string(), Value::Null)).collect();
    assert!(read(&[done(0, Value::Object(wide)), completed(json!([]))]).failure.is_some());
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
}
