//! Rules of the message stream that no recorded body shows.

use serde_json::{Value, json};
use terret::core::assemble::{Assembler, Route};
use terret::core::chunk::{Chunk, Failure, FinishKind, code};
use terret::core::message::Block;
use terret::model::anthropic_messages::WIRE;
use terret::model::response::{Progress, Response};

/// A stream of these events, without their names.
fn stream(events: &[Value]) -> (Vec<Chunk>, Option<Failure>) {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    read(&body)
}

fn read(body: &str) -> (Vec<Chunk>, Option<Failure>) {
    let mut chunks = Vec::new();
    let mut response = Response::new(&WIRE, Some("key-12345678".to_owned()));
    let failure = match response.push(body.as_bytes(), &mut chunks) {
        Ok(Progress::Finished) => None,
        Ok(Progress::Open) => response.finish(&mut chunks).err(),
        Err(failure) => Some(failure),
    };
    (chunks, failure)
}

fn fold(chunks: &[Chunk]) -> Assembler {
    let mut fold = Assembler::new(Route::default());
    chunks.iter().for_each(|chunk| fold.push(chunk));
    fold
}

fn open(index: u32, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn text(index: u32, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}})
}

fn piece(index: u32, json: &str) -> Value {
    let delta = json!({"type": "input_json_delta", "partial_json": json});
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn close(index: u32) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn ending(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn words() -> [Value; 3] {
    [open(0, json!({"type": "text", "text": ""})), text(0, "a"), close(0)]
}

fn said(rest: &[Value]) -> (Assembler, Option<Failure>) {
    let (chunks, failure) = stream(&[&words()[..], rest].concat());
    (fold(&chunks), failure)
}

#[test]
fn names_of_events_are_not_needed_and_the_marker_is_not_missed() {
    let (fold, failure) = said(&[ending("end_turn"), stop()]);
    assert_eq!((fold.finish().unwrap().kind, failure), (FinishKind::Stop, None));
    assert!(fold.warnings().is_empty());
    let (fold, failure) = said(&[ending("end_turn")]);
    assert_eq!((fold.finish().unwrap().kind, failure), (FinishKind::Stop, None));
    assert_eq!(fold.warnings(), ["missing-done"]);
    // The name alone is enough, too.
    let (chunks, failure) =
        read("event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"pause_turn\"}}\n\n");
    assert_eq!((self::fold(&chunks).finish().unwrap().kind, failure), (FinishKind::Pause, None));
}

#[test]
fn no_reason_to_stop_or_an_open_block_is_no_success() {
    let closed = |failure: Option<Failure>| failure.unwrap().code == code::STREAM_CLOSED;
    assert!(closed(said(&[]).1) && closed(said(&[stop()]).1));
    assert!(closed(said(&[open(1, json!({"type": "text"})), ending("end_turn"), stop()]).1));
    let null = json!({"type": "message_delta", "delta": {"stop_reason": null}});
    assert!(closed(said(&[null.clone(), stop()]).1));
    assert_eq!(said(&[ending("end_turn"), null, stop()]).1, None, "the last word stands");
}

#[test]
fn every_reason_to_stop_has_its_kind() {
    for (word, kind) in [
        ("end_turn", FinishKind::Stop),
        ("stop_sequence", FinishKind::Stop),
        ("tool_use", FinishKind::Stop),
        ("max_tokens", FinishKind::MaxTokens),
        ("model_context_window_exceeded", FinishKind::ContextWindow),
        ("pause_turn", FinishKind::Pause),
        ("compaction", FinishKind::Pause),
        ("refusal", FinishKind::Refusal),
        ("sensitive", FinishKind::ContentFilter),
        ("brand_new", FinishKind::Other),
    ] {
        let (fold, failure) = said(&[ending(word), stop()]);
        assert_eq!((fold.finish().unwrap().kind, failure), (kind, None), "{word}");
        assert_eq!(fold.finish().unwrap().raw, word);
    }
    let call = open(1, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}));
    let (fold, _) = said(&[call, close(1), ending("end_turn"), stop()]);
    assert_eq!(fold.finish().unwrap().kind, FinishKind::ToolCalls);
    assert_eq!(fold.warnings(), ["finish-stop-with-tool-calls"]);
}

#[test]
fn a_refusal_says_why_and_needs_no_content() {
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "no exploits"});
    let delta = json!({"stop_reason": "refusal", "stop_details": details});
    let (chunks, failure) = stream(&[json!({"type": "message_delta", "delta": delta}), stop()]);
    assert_eq!((fold(&chunks).finish().unwrap().kind, failure), (FinishKind::Refusal, None));
    let said = chunks.iter().find_map(|chunk| match chunk {
        Chunk::Warning { code, detail } => Some((code.as_str(), detail.as_str())),
        _ => None,
    });
    assert_eq!(said, Some(("refusal", "cyber: no exploits")));
}

#[test]
fn blocks_may_be_written_side_by_side_and_keep_the_order_of_their_starts() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let (chunks, failure) = stream(&[
        open(3, call("a")),
        open(1, call("b")),
        piece(1, "{\"x\":"),
        piece(3, "{}"),
        piece(1, "1}"),
        close(1),
        close(3),
        ending("tool_use"),
        stop(),
    ]);
    assert_eq!(failure, None);
    let calls = fold(&chunks).content().into_iter().filter_map(|block| match block {
        Block::ToolCall { id, arguments, .. } => Some((id, arguments)),
        _ => None,
    });
    assert_eq!(
        calls.collect::<Vec<_>>(),
        [("a".to_owned(), "{}".to_owned()), ("b".to_owned(), "{\"x\":1}".to_owned())]
    );
}

#[test]
fn what_cannot_be_told_apart_is_malformed() {
    let malformed = |events: &[Value]| stream(events).1.unwrap().code == code::MALFORMED_RESPONSE;
    assert!(malformed(&[text(0, "a")]), "a delta of no block");
    assert!(malformed(&[open(0, json!({"type": "text"})), open(0, json!({"type": "text"}))]));
    assert!(malformed(&[json!({"type": "content_block_start", "index": "x"})]));
    let many: Vec<Value> = (0..4100).map(|at| open(at, json!({"type": "text"}))).collect();
    assert!(malformed(&many));
}

#[test]
fn halves_of_characters_find_each_other_over_deltas() {
    let delta = |half: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"delta\":{{\"type\":\"text_delta\",\"text\":\"{half}\"}}}}\n\n"
        )
    };
    let [start, _, end] = words();
    let body = format!(
        "data: {start}\n\n{}{}{}data: {end}\n\ndata: {}\n\n",
        delta("x\\ud83d"),
        delta("\\ude00y"),
        delta("\\ud83d"),
        ending("end_turn")
    );
    let (chunks, failure) = read(&body);
    let [Block::Text { text, .. }] = &fold(&chunks).content()[..] else { panic!() };
    assert_eq!((text.as_str(), failure), ("x\u{1F600}y\u{FFFD}", None));
}

#[test]
fn a_call_without_an_id_gets_one_and_broken_input_of_the_servers_own_tool_is_named() {
    let (chunks, failure) = stream(&[
        open(0, json!({"type": "tool_use", "id": null, "name": "f", "input": {}})),
        close(0),
        open(1, json!({"type": "server_tool_use", "id": "s", "input": {}})),
        piece(1, "{\"q"),
        close(1),
        ending("tool_use"),
        stop(),
    ]);
    let fold = fold(&chunks);
    assert_eq!(failure, None);
    assert_eq!(fold.warnings(), ["synthesised-tool-call-id", "invalid-block-input"]);
    let [Block::ToolCall { id, arguments, .. }, Block::Provider { wire }] = &fold.content()[..] else {
        panic!()
    };
    assert_eq!((id.as_str(), arguments.as_str()), ("call_0", "{}"));
    assert_eq!(wire.get(), r#"{"id":"s","input":{},"type":"server_tool_use"}"#);
}

#[test]
fn thinking_that_was_cut_cannot_go_back_and_the_rest_is_kept() {
    let thinking = |index: u32, text: &str| {
        [
            open(index, json!({"type": "thinking", "thinking": "", "signature": ""})),
            json!({"type": "content_block_delta", "index": index, "delta": {"type": "thinking_delta", "thinking": text}}),
        ]
    };
    let sign = json!({"type": "content_block_delta", "index": 1, "delta": {"type": "signature_delta", "signature": "S"}});
    let events = [&words()[..], &thinking(1, "b"), &[sign, close(1)], &thinking(2, "c")].concat();
    let (chunks, failure) = stream(&events);
    assert_eq!(failure.unwrap().code, code::STREAM_CLOSED);
    let [Block::Text { .. }, Block::Reasoning { text, provider: Some(_) }] = &fold(&chunks).partial()[..]
    else {
        panic!()
    };
    assert_eq!(text, "b");
}

#[test]
fn failures_carry_the_request_and_no_key() {
    let error = json!({"type": "rate_limit_error", "message": "bad key-12345678"});
    let (_, failure) = stream(&[json!({"type": "error", "error": error, "request_id": "req_9"})]);
    let failure = failure.unwrap();
    assert_eq!((failure.code.as_str(), failure.request_id.as_deref()), (code::RATE_LIMIT, Some("req_9")));
    assert_eq!(failure.message, "bad ***");
    assert!(!failure.raw.unwrap().contains("12345678"));
    let (_, bare) = read("event: error\ndata: {\"type\":\"overloaded_error\",\"message\":\"busy\"}\n\n");
    assert_eq!(bare.unwrap().code, code::OVERLOADED);
}

/// What is kept until a block is whole has its limit, and no object may have members without end.
#[test]
fn a_block_cannot_grow_for_ever_in_silence() {
    let signature = json!({"type": "signature_delta", "signature": "A".repeat(1 << 20)});
    let piece = json!({"type": "content_block_delta", "index": 0, "delta": signature});
    let events: Vec<Value> = std::iter::once(open(0, json!({"type": "thinking", "thinking": ""})))
        .chain(vec![piece; 40])
        .collect();
    let (_, failure) = stream(&events);
    assert_eq!(failure.unwrap().code, code::MALFORMED_RESPONSE);
    let mut wide: serde_json::Map<String, Value> =
        (0..100_000).map(|n| (n.to_string(), Value::Null)).collect();
    wide.insert("type".to_owned(), json!("x"));
    let begin = std::time::Instant::now();
    let (_, failure) = stream(&[open(0, Value::Object(wide))]);
    assert_eq!(failure.unwrap().code, code::MALFORMED_RESPONSE);
    assert!(begin.elapsed() < std::time::Duration::from_secs(20));
}
