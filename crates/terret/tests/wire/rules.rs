//! Rules of the chat stream that no recorded body shows.

use serde_json::{Value, json};
use terret::core::assemble::{Assembler, Route};
use terret::core::chunk::{Chunk, Failure, FinishKind, code};
use terret::core::limits::MAX_BLOCKS;
use terret::core::message::Block;
use terret::limits::MAX_ANSWER_BYTES;
use terret::model::openai_chat::WIRE;
use terret::model::response::{Progress, Response};

fn read(body: &[u8]) -> (Assembler, Option<Failure>) {
    let mut chunks = Vec::new();
    let mut response = Response::new(&WIRE, Some("key-12345678".to_owned()));
    let failure = match response.push(body, &mut chunks) {
        Ok(Progress::Finished) => None,
        Ok(Progress::Open) => response.finish(&mut chunks).err(),
        Err(failure) => Some(failure),
    };
    let mut fold = Assembler::new(Route::default());
    chunks.iter().for_each(|chunk| fold.push(chunk));
    (fold, failure)
}

/// A stream of these payloads and the end marker.
fn stream(payloads: &[Value]) -> (Assembler, Option<Failure>) {
    let events: String = payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect();
    read(format!("{events}data: [DONE]\n\n").as_bytes())
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish(word: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]})
}

fn kinds(fold: &Assembler) -> Vec<String> {
    let content = serde_json::to_value(fold.content()).unwrap();
    let kind = |block: &Value| {
        format!("{} {}", block["type"].as_str().unwrap(), block["text"].as_str().unwrap_or(""))
    };
    content.as_array().unwrap().iter().map(kind).collect()
}

fn calls(fold: &Assembler) -> Vec<(String, String, String)> {
    let call = |block| match block {
        Block::ToolCall { id, name, arguments, .. } => Some((id, name, arguments)),
        _ => None,
    };
    fold.content().into_iter().filter_map(call).collect()
}

fn triple(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn every_way_to_end_a_line_and_a_mark_at_the_start_are_understood() {
    for end in ["\n", "\r", "\r\n"] {
        for mark in ["", "\u{FEFF}"] {
            let (one, two) = (delta(json!({"content": "a"})), finish("stop"));
            let body = format!("{mark}data: {one}{end}{end}data: {two}{end}{end}data: [DONE]{end}{end}");
            let (fold, failure) = read(body.as_bytes());
            assert_eq!((kinds(&fold), failure), (vec!["text a".to_owned()], None), "{end:?} {mark:?}");
        }
    }
}

#[test]
fn only_the_first_choice_counts() {
    let both = json!({"choices": [
        {"index": 1, "delta": {"content": "x"}, "finish_reason": "length"},
        {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"},
    ]});
    let (fold, failure) = stream(&[both, json!({"choices": [{"index": 1, "delta": {"content": "y"}}]})]);
    assert_eq!((kinds(&fold), failure), (vec!["text a".to_owned()], None));
    assert_eq!(fold.finish().unwrap().kind, FinishKind::Stop);
}

#[test]
fn text_before_and_after_calls_keeps_its_place() {
    let call = |index: u32| json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": {"name": "f"}}]});
    let deltas = [json!({"content": "a"}), call(0), json!({"content": "b", "tool_calls": []}), call(1)];
    let mut payloads: Vec<Value> = deltas.into_iter().map(delta).collect();
    payloads.push(finish("tool_calls"));
    let (fold, _) = stream(&payloads);
    assert_eq!(kinds(&fold), ["text a", "tool-call ", "text b", "tool-call "]);
}

#[test]
fn arguments_given_as_an_object_become_its_text() {
    let body = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\
                \"arguments\":{\"b\": 1.50, \"a\": \"x y\"}}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let (fold, failure) = read(body.as_bytes());
    assert_eq!((calls(&fold), failure), (vec![triple("c", "f", r#"{"b":1.50,"a":"x y"}"#)], None));
}

#[test]
fn a_call_without_index_and_id_continues_the_last_one() {
    let part = |call: Value| delta(json!({"tool_calls": [call]}));
    let (fold, _) = stream(&[
        part(json!({"function": {"name": "f", "arguments": "{\"a\":"}})),
        part(json!({"function": {"arguments": "1}"}})),
        part(json!({"function": {"name": "g", "arguments": "{}"}})),
        finish("tool_calls"),
    ]);
    assert_eq!(calls(&fold), [triple("call_0", "f", "{\"a\":1}"), triple("call_1", "g", "{}")]);
    assert_eq!(fold.warnings(), ["synthesised-tool-call-id"]);
}

#[test]
fn a_marker_without_a_finish_is_believed_only_if_all_calls_are_whole() {
    let call = |arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}]}),
        )
    };
    let (fold, failure) = stream(&[call("{}")]);
    assert_eq!((fold.finish().unwrap().kind, failure), (FinishKind::ToolCalls, None));
    for torn in ["", "1", "{\"a\"", "[]"] {
        assert_eq!(stream(&[call(torn)]).1.unwrap().code, code::STREAM_CLOSED, "{torn}");
    }
}

#[test]
fn words_that_mean_the_server_gave_up_are_failures() {
    for (word, class) in [
        ("network_error", code::SERVER),
        ("abort", code::SERVER),
        ("error", code::PROVIDER_ERROR),
        ("insufficient_system_resource", code::OVERLOADED),
    ] {
        let (fold, failure) = stream(&[delta(json!({"content": "a"})), finish(word)]);
        assert_eq!((failure.unwrap().code.as_str(), fold.finish()), (class, None), "{word}");
    }
}

#[test]
fn usage_is_taken_from_wherever_it_stands_and_the_last_one_wins() {
    let usage = |prompt: u64| json!({"prompt_tokens": prompt, "completion_tokens": 1});
    let done = finish("stop");
    let text = delta(json!({"content": "a"}));
    let mut moonshot = done.clone();
    moonshot["choices"][0]["usage"] = usage(7);
    let mut groq = done.clone();
    groq["x_groq"] = json!({"usage": usage(7)});
    let mut running = text.clone();
    running["usage"] = usage(3);
    let mut null = done.clone();
    null["usage"] = Value::Null;
    let last = json!({"choices": [], "usage": usage(7)});
    for payloads in
        [vec![text.clone(), moonshot], vec![text, groq], vec![running.clone(), last.clone(), null.clone()]]
    {
        let (fold, _) = stream(&payloads);
        assert_eq!(fold.usage().unwrap().input_tokens, 7);
    }
    assert_eq!(stream(&[running, null]).0.usage().unwrap().input_tokens, 3, "null takes nothing back");
}

#[test]
fn details_without_a_thought_open_an_empty_one() {
    let details = json!([{"type": "reasoning.encrypted", "data": "E", "index": 0}]);
    let (fold, _) = stream(&[
        delta(json!({"reasoning_details": details})),
        delta(json!({"content": "a"})),
        finish("stop"),
    ]);
    let Block::Reasoning { text, provider: Some(provider) } = &fold.content()[0] else {
        panic!("no reasoning")
    };
    assert_eq!(text, "");
    assert_eq!(serde_json::from_str::<Value>(provider.data.get()).unwrap()["reasoning_details"], details);
}

#[test]
fn a_response_with_too_many_blocks_is_stopped() {
    let mut payloads = Vec::new();
    for _ in 0..2_100 {
        payloads.extend([delta(json!({"content": "a"})), delta(json!({"reasoning": "b"}))]);
    }
    assert_eq!(stream(&payloads).1.unwrap().code, code::MALFORMED_RESPONSE);
}

#[test]
fn a_compressed_or_plain_body_is_no_stream() {
    for body in [&b"\x1f\x8b\x08rest"[..], b"{\"choices\":[]}", b"[]"] {
        assert_eq!(read(body).1.unwrap().code, code::MALFORMED_RESPONSE);
    }
    assert_eq!(read(b"\n\n \n").1.unwrap().code, code::STREAM_CLOSED);
}

#[test]
fn failures_carry_evidence_and_no_key() {
    let (_, failure) =
        stream(&[json!({"error": {"message": "bad key-12345678", "code": 500, "pad": "é".repeat(3_000)}})]);
    let failure = failure.unwrap();
    assert_eq!((failure.code.as_str(), failure.status), (code::SERVER, Some(500)));
    assert_eq!(failure.message, "bad ***");
    let raw = failure.raw.unwrap();
    assert!(raw.len() <= 2048 && raw.len() > 2000 && !raw.contains("12345678"));
}

#[test]
fn one_start_and_one_end() {
    let payload =
        |text: &str| json!({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]});
    let mut chunks = Vec::new();
    let body = format!(
        "data: {}\n\ndata: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        payload("a"),
        payload("b"),
        finish("stop")
    );
    let progress = Response::new(&WIRE, None).push(body.as_bytes(), &mut chunks);
    assert_eq!(progress, Ok(Progress::Finished));
    assert!(matches!(chunks.first(), Some(Chunk::ResponseStart { .. })));
    assert!(matches!(chunks.last(), Some(Chunk::Finish { .. })));
    let ends = |chunk: &&Chunk| matches!(chunk, Chunk::ResponseStart { .. } | Chunk::Finish { .. });
    assert_eq!(chunks.iter().filter(ends).count(), 2);
}

#[test]
fn what_no_answer_needs_is_too_much() {
    let many = |entry: Value| Value::from(vec![entry; MAX_BLOCKS + 1]);
    let calls: Vec<Value> = (0..=MAX_BLOCKS).map(|index| json!({"index": index, "id": "x"})).collect();
    let (one, other) = calls.split_at(9);
    let detail = |index: usize, key: &str| {
        delta(json!({"reasoning_details": [{"type": "reasoning.text", "index": index, key: "1"}]}))
    };
    let half = "x".repeat(MAX_ANSWER_BYTES / 2 + 1);
    for (what, payloads, words) in [
        ("choices", vec![json!({ "choices": many(json!({})) })], "a list of more than 128 entries"),
        ("calls at once", vec![delta(json!({ "tool_calls": calls }))], "a list of more than 4096 entries"),
        ("parts", vec![delta(json!({ "content": many(json!({})) }))], "a list of more than 4096 entries"),
        (
            "calls",
            vec![delta(json!({ "tool_calls": one })), delta(json!({ "tool_calls": other }))],
            "the response opened more than 4096 blocks",
        ),
        (
            "details",
            (0..=MAX_BLOCKS).map(|index| detail(index, "text")).collect(),
            "reasoning details of more",
        ),
        (
            "bytes",
            vec![delta(json!({"reasoning_details": [{"text": half}]})); 2],
            "reasoning details of more",
        ),
        ("fields", (0..64).map(|n| detail(0, &format!("k{n}"))).collect(), "reasoning details of more"),
    ] {
        let (_, failure) = stream(&payloads);
        let failure = failure.unwrap_or_else(|| panic!("{what} without end are taken"));
        assert_eq!(failure.code, code::MALFORMED_RESPONSE, "{what}: {failure:?}");
        assert!(failure.message.contains(words), "{what}: {}", failure.message);
    }
}

/// The answer of another protocol, or of nobody: a person is told where to look.
#[test]
fn a_stream_of_another_protocol_says_so() {
    let hint = "is it the right `wire`";
    let read = |body: &str| {
        let (mut response, mut chunks) = (Response::new(&WIRE, None), Vec::new());
        let open = response.push(body.as_bytes(), &mut chunks).unwrap();
        assert_eq!(open, Progress::Open);
        chunks.clear();
        response.finish(&mut chunks).unwrap_err().message
    };
    assert!(read("event: message_start\ndata: {\"type\":\"message_start\"}\n\n").contains(hint));
    assert!(read(": nothing\n\n").contains(hint));
    let cut = read("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n");
    assert!(!cut.contains(hint), "{cut}");
}
