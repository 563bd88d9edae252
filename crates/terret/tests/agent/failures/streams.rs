//! Streams of chat completions that were read wrong elsewhere: the same answer comes out of every cut of the bytes.

use serde_json::{Value, json};
use terret::agent::Outcome;
use terret::core::assemble::{Assembler, Route};
use terret::core::chunk::{Chunk, FinishKind, Usage, code};
use terret::core::fact::Fact;
use terret::core::line::Event;
use terret::core::message::Block;
use terret::model::openai_chat::WIRE;
use terret::model::response::{Progress, Response};
use terret::store::MemoryStore;
use terret::tool::tool;

use super::server::Server;
use crate::support::events;

/// What one body amounts to.
#[derive(Debug, PartialEq)]
struct Read {
    blocks: Vec<Block>,
    finish: FinishKind,
    usage: Option<Usage>,
    warnings: Vec<String>,
}

fn read(pieces: &[&[u8]]) -> Read {
    let (mut response, mut chunks) = (Response::new(&WIRE, None), Vec::<Chunk>::new());
    let mut open = true;
    for piece in pieces {
        open = open && response.push(piece, &mut chunks).unwrap() == Progress::Open;
    }
    if open {
        response.finish(&mut chunks).unwrap();
    }
    let mut fold = Assembler::new(Route::default());
    chunks.iter().for_each(|chunk| fold.push(chunk));
    let finish = fold.finish().unwrap().kind;
    let warnings = fold.warnings().to_vec();
    Read { blocks: fold.content(), finish, usage: fold.usage().cloned(), warnings }
}

/// The same, however the bytes are cut: at these places, at each place alone, byte by byte.
fn read_all_ways(body: &str, lengths: &[usize]) -> Read {
    let body = body.as_bytes();
    let whole = read(&[body]);
    let (mut pieces, mut rest) = (Vec::new(), body);
    for length in lengths {
        let (piece, more) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    assert_eq!(read(&pieces), whole);
    assert_eq!(read(&body.chunks(1).collect::<Vec<_>>()), whole);
    for at in 0..body.len() {
        assert_eq!(read(&[&body[..at], &body[at..]]), whole, "cut at {at}");
    }
    whole
}

/// Its blocks in few words: text, or a call's id, name and arguments.
fn blocks(read: &Read) -> Value {
    let short = |block: &Block| match block {
        Block::Text { text, .. } => json!(text),
        Block::ToolCall { id, name, arguments, .. } => {
            json!([id, name, serde_json::from_str::<Value>(arguments).unwrap()])
        }
        other => panic!("{other:?}"),
    };
    read.blocks.iter().map(short).collect()
}

/// Reads may end inside a character.
#[test]
fn case_024_characters_cut_by_reads_come_whole() {
    let got = read_all_ways(include_str!("024/stream.sse"), &[304, 166, 5, 2, 252, 202]);
    assert_eq!(blocks(&got), json!(["价格是 €5 🦀 e\u{301}", ["c1", "note", {"t": "雪"}]]));
    // What is no character in a whole line is one replaced character, and not the end of the turn.
    let broken = include_bytes!("024/stream.sse").map(|b| if b == 0xE9 { 0xFF } else { b });
    let text = format!("{:?}", read(&[&broken]).blocks);
    assert!(text.contains('\u{FFFD}') && text.contains("note"), "{text}");
}

/// Lines end with LF, CR or both, with and without a blank behind the colon.
#[test]
fn case_025_every_line_end_ends_a_line() {
    let got = read_all_ways(include_str!("025/stream.sse"), &[]);
    assert_eq!((blocks(&got), got.finish), (json!(["ABC"]), FinishKind::Stop));
}

/// Comments are nothing, wherever they stand.
#[test]
fn case_027_comments_are_no_events() {
    let got = read_all_ways(include_str!("027/stream.sse"), &[]);
    assert_eq!((blocks(&got), got.finish), (json!(["okay"]), FinishKind::Stop));
    let mut chunks = Vec::new();
    let comments = b": hi\n\n: OPENROUTER PROCESSING\n\n";
    assert_eq!(Response::new(&WIRE, None).push(comments, &mut chunks).unwrap(), Progress::Open);
    assert_eq!(chunks, []);
}

/// Without an index a delta goes on with the last call, unless it brings an id.
#[test]
fn case_031_calls_without_an_index() {
    let got = read_all_ways(include_str!("031/stream.sse"), &[]);
    assert_eq!(blocks(&got), json!([["call_a", "get", {"q": "a1"}], ["call_b", "get", {"q": "b2"}]]));
}

/// One index for all: an id that is new opens a call, an empty one goes on.
#[test]
fn case_032_one_index_for_several_calls() {
    let got = read_all_ways(include_str!("032/stream.sse"), &[]);
    let call =
        |id: &str, path: &str, content: &str| json!([id, "write_file", {"path": path, "content": content}]);
    assert_eq!(
        blocks(&got),
        json!([call("call_1", "x", "1"), call("call_2", "y", "2"), call("call_3", "z", "3")])
    );
}

/// Id and name again in every delta are said once.
#[test]
fn case_034_id_and_name_in_every_delta() {
    let got = read_all_ways(include_str!("034/stream.sse"), &[]);
    assert_eq!(blocks(&got), json!([["call_7", "read_file", {"path": "src"}]]));
}

/// Fragments of two calls mixed, with text between: each finds its own.
#[test]
fn case_039_fragments_of_two_calls_mixed() {
    let got = read_all_ways(include_str!("039/stream.sse"), &[]);
    assert_eq!(blocks(&got), json!([["ca", "w", {"k": "A"}], ["cb", "w", {"k": "B"}], "(meanwhile)"]));
}

/// Usage in every place: the last one holds, nothing is added up; the end marker may be missing behind a finish.
#[test]
fn case_040_the_last_usage_counts() {
    let got = read_all_ways(include_str!("040/stream.sse"), &[]);
    assert_eq!((blocks(&got), got.finish), (json!(["hi"]), FinishKind::Stop));
    let usage = got.usage.unwrap();
    // Seven in all, of which four came from the cache.
    assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.output_tokens), (3, Some(4), 2));
    assert_eq!(got.warnings, ["missing-done"]);
    let none = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(read(&[none.as_bytes()]).usage, None, "unknown is not zero");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Any {
    #[allow(dead_code)]
    command: Option<String>,
}

/// What a prompt comes to whose requests are answered with these bodies, and which tools ran.
async fn played<const N: usize>(bodies: [&str; N]) -> (Outcome, Vec<Event>, Vec<Value>, Vec<&'static str>) {
    let (server, store) = (Server::playing(bodies).await, MemoryStore::default());
    let ran = std::sync::Arc::<std::sync::Mutex<Vec<&'static str>>>::default();
    let mut builder = server.agent().store(store.clone());
    for name in ["bash", "now", "rm"] {
        let ran = ran.clone();
        builder = builder.tool(tool(name, "Notes that it ran.", move |_: Any| {
            ran.lock().unwrap().push(name);
            async { Ok::<_, String>("ran") }
        }));
    }
    let agent = builder.create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let ran = ran.lock().unwrap().clone();
    (outcome, events, server.requests(), ran)
}

/// A clean end without a finish is a failed attempt: its call does not run, its text is not in the next request.
#[tokio::test]
async fn case_029_an_end_without_a_finish_is_asked_again() {
    let bodies = [include_str!("029/stream.sse"), include_str!("029/r2.sse")];
    let (outcome, events, requests, ran) = played(bodies).await;
    assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", "Done another way."));
    assert!(ran.is_empty(), "{ran:?}");
    let failed: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::RequestFailed(failed) => Some(failed.failure.code.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [code::STREAM_CLOSED]);
    assert_eq!(requests[0], requests[1], "the same request");
    let kept = events.iter().filter(|e| matches!(&e.fact, Fact::AssistantChunk(c) if c.attempt == 1)).count();
    assert!(kept > 0, "what came stays in the log");

    let (outcome, _, requests, ran) = played([include_str!("029/stream.sse")]).await;
    assert_eq!((outcome.ending.word(), requests.len()), ("error", 4), "and given up in the end");
    assert!(ran.is_empty());
}

/// No arguments are an empty object, run and sent back as one.
#[tokio::test]
async fn case_036_empty_arguments_are_an_empty_object() {
    let (outcome, _, requests, ran) =
        played([include_str!("036/stream.sse"), include_str!("029/r2.sse")]).await;
    assert_eq!((outcome.ending.word(), &ran[..]), ("completed", &["now"][..]));
    let messages = requests[1]["messages"].as_array().unwrap();
    let call = messages.iter().find_map(|m| m["tool_calls"].as_array()).unwrap();
    assert_eq!(call[0]["function"]["arguments"], "{}");
}

/// A finish behind every fragment closes nothing before the end.
#[tokio::test]
async fn case_038_a_finish_behind_every_fragment() {
    let got = read_all_ways(include_str!("038/stream.sse"), &[]);
    assert_eq!(blocks(&got), json!([["call_f", "bash", {"command": "ls"}]]));
    let (outcome, _, _, ran) = played([include_str!("038/stream.sse"), include_str!("029/r2.sse")]).await;
    assert_eq!((outcome.ending.word(), &ran[..]), ("completed", &["bash"][..]));
}
