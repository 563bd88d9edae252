//! Every recorded body, cut in every way, must give the same chunks, and they must mean what the file beside
//! it says.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use terret::core::assemble::{Assembler, Route};
use terret::core::chunk::{Chunk, Failure, FinishKind, Usage, code};
use terret::core::message::Block;
use terret::model::failure::{Secret, from_http, retryable};
use terret::model::response::{Progress, Response};
use terret::model::retry_hint::Headers;
use terret::model::wire::wire;

struct Fixture {
    name: String,
    body: Vec<u8>,
    expected: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

fn fixtures() -> Vec<Fixture> {
    let mut all = Vec::new();
    for provider in std::fs::read_dir(folder()).unwrap() {
        let provider = provider.unwrap().path();
        let Ok(files) = std::fs::read_dir(&provider) else {
            continue;
        };
        for file in files {
            let body = file.unwrap().path();
            if body.extension().is_none_or(|ext| ext != "sse") {
                continue;
            }
            let stem = body.file_stem().unwrap().to_str().unwrap();
            let name = format!("{}/{stem}", provider.file_name().unwrap().to_str().unwrap());
            let expected = std::fs::read(body.with_file_name(format!("{stem}.expected.json"))).unwrap();
            let expected = serde_json::from_slice(&expected).unwrap();
            all.push(Fixture { name, body: std::fs::read(&body).unwrap(), expected });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// What a body in pieces comes out as: chunks, and the failure if it ended with one.
fn play(fixture: &Fixture, pieces: &[&[u8]]) -> (Vec<Chunk>, Option<Failure>) {
    let status = fixture.expected["http"]["status"].as_u64().unwrap() as u16;
    if status != 200 {
        return (Vec::new(), Some(http_failure(fixture, status, &pieces.concat())));
    }
    let mut chunks = Vec::new();
    let protocol = fixture.expected["protocol"].as_str().unwrap();
    let mut response = Response::new(wire(protocol).unwrap(), None);
    for piece in pieces {
        match response.push(piece, &mut chunks) {
            Ok(Progress::Open) => {}
            Ok(Progress::Finished) => return (chunks, None),
            Err(failure) => return (chunks, Some(failure)),
        }
    }
    if !fixture.expected["http"]["transport_error"].is_null() {
        let failure = response.broken(Failure::new(code::TRANSPORT, "reset"), &mut chunks);
        return (chunks, Some(failure));
    }
    let failure = response.finish(&mut chunks).err();
    (chunks, failure)
}

fn http_failure(fixture: &Fixture, status: u16, body: &[u8]) -> Failure {
    let headers = &fixture.expected["http"]["headers"];
    let get = |name: &str| headers.get(name)?.as_str().map(str::to_owned);
    from_http(status, Headers(&get), body, 0.0, Secret(None))
}

/// The same picture the `expect` of a fixture draws.
fn picture(chunks: &[Chunk], failure: Option<&Failure>) -> Value {
    let mut fold = Assembler::new(Route::default());
    chunks.iter().for_each(|chunk| fold.push(chunk));
    let mut picture = Map::new();
    let mut put = |key: &str, value: Value| picture.insert(key.to_owned(), value);
    if let Some(failure) = failure {
        put("outcome", json!("error"));
        put("error", json!({"code": failure.code, "retryable": retryable(&failure.code)}));
        let partial = fold.partial();
        if !partial.is_empty() {
            put("partial", partial.iter().map(block).collect());
        }
    } else {
        let finish = fold.finish().unwrap();
        put("outcome", json!("ok"));
        let mut content = fold.content();
        if finish.kind == FinishKind::MaxTokens {
            // What the loop does with calls an output limit cut.
            content.retain(|block| !matches!(block, Block::ToolCall { .. }));
        }
        let content: Value = content.iter().map(block).collect();
        put("message", json!({"role": "assistant", "content": content}));
        let raw = Some(finish.raw.as_str()).filter(|raw| !raw.is_empty());
        put("finish", json!({"kind": finish.kind, "raw": raw}));
        if let (Some(id), Some(model)) = (fold.response_id(), fold.response_model()) {
            put("response", json!({"id": id, "model": model}));
        }
        if !fold.warnings().is_empty() {
            put("warnings", json!(fold.warnings()));
        }
    }
    if let Some(counts) = fold.usage() {
        put("usage", usage(counts));
    }
    Value::Object(picture)
}

fn block(block: &Block) -> Value {
    let mut value = serde_json::to_value(block).unwrap();
    if let Some(provider) = value.get_mut("provider") {
        *provider = provider["data"].take();
    }
    value
}

fn usage(usage: &Usage) -> Value {
    let counts = [
        ("inputTokens", Some(usage.input_tokens)),
        ("outputTokens", Some(usage.output_tokens)),
        ("cacheReadTokens", usage.cache_read_tokens),
        ("cacheWriteTokens", usage.cache_write_tokens),
        ("reasoningTokens", usage.reasoning_tokens),
    ];
    counts.into_iter().filter_map(|(name, count)| Some((name.to_owned(), json!(count?)))).collect()
}

fn cut_at<'a>(body: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for at in places.iter().copied().chain([body.len()]) {
        pieces.push(&body[from..at]);
        from = at;
    }
    pieces
}

#[test]
fn every_body_means_what_is_written_beside_it() {
    let all = fixtures();
    assert!(all.len() >= 103, "fixtures are missing: {}", all.len());
    let mut wrong = Vec::new();
    for fixture in &all {
        let (chunks, failure) = play(fixture, &[&fixture.body]);
        let got = picture(&chunks, failure.as_ref());
        let expected = &fixture.expected["expect"];
        if got != *expected {
            wrong.push(format!("{}\n  expected {expected}\n  got      {got}", fixture.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} bodies are read wrong:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

#[test]
fn no_cut_changes_a_body() {
    for fixture in fixtures() {
        let whole = play(&fixture, &[&fixture.body]);
        let places: Vec<usize> = fixture.expected["splits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|split| split["at"].as_u64().unwrap() as usize)
            .collect();
        for at in &places {
            assert_eq!(play(&fixture, &cut_at(&fixture.body, &[*at])), whole, "{} cut at {at}", fixture.name);
        }
        let name = &fixture.name;
        assert_eq!(play(&fixture, &cut_at(&fixture.body, &places)), whole, "{name} cut at every place");
        let bytes: Vec<&[u8]> = fixture.body.chunks(1).collect();
        assert_eq!(play(&fixture, &bytes), whole, "{name} byte by byte");
    }
}

#[test]
fn every_delta_on_the_wire_is_one_delta_chunk() {
    let delta = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let body: String = ["a", "", "b", "c"].map(delta).concat();
    let mut chunks = Vec::new();
    Response::new(wire("openai-chat").unwrap(), None).push(body.as_bytes(), &mut chunks).unwrap();
    let texts: Vec<&str> = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::TextDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["a", "b", "c"]);
}
