//! What a long stream costs: as much as it brings, and not more the longer it gets. A binary of its own: memory is
//! counted for the whole process.
#![allow(clippy::unwrap_used, missing_docs)]

// Half of what it can do is for other tests.
#[allow(dead_code)]
#[path = "agent/failures/server.rs"]
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terret::agent::Agent;
use terret::core::chunk::Chunk;
use terret::core::fact::Fact;
use terret::model::openai_chat::WIRE;
use terret::model::response::{Progress, Response};
use terret::store::MemoryStore;
use terret::tool::tool;

use server::Server;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

/// A stream with one call whose argument comes in this many pieces of one byte, each beside a piece of text.
fn stream(pieces: usize) -> String {
    let mut body = String::new();
    let mut delta = |delta: String| {
        body += &format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":null}}]}}\n\n"
        );
    };
    let call = |rest: &str| format!("\"tool_calls\":[{{\"index\":0,{rest}}}]");
    let arguments = |text: &str| call(&format!("\"function\":{{\"arguments\":\"{text}\"}}"));
    delta(call(r#""id":"c1","type":"function","function":{"name":"w","arguments":"{\"t\":\""}"#));
    for piece in 0..pieces {
        delta(arguments(&"abcdefghij"[piece % 10..=piece % 10]));
    }
    delta(arguments(r#"\"}"#));
    body += "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    body
}

/// What one such stream cost.
#[derive(Debug)]
struct Cost {
    /// Bytes of the log.
    log: usize,
    /// Bytes of the events that observers were shown.
    shown: usize,
    /// Events.
    events: usize,
    /// Bytes that were allocated, freed ones included: whatever is copied is counted.
    allocated: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Written {
    /// Text.
    t: String,
}

async fn cost(pieces: usize) -> Cost {
    let (before, length) = (dhat::HeapStats::get().total_bytes, Arc::new(AtomicUsize::new(0)));
    let server = Server::playing([stream(pieces).as_str(), include_str!("agent/failures/018/r2.sse")]).await;
    let (store, shown, events) =
        (MemoryStore::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (seen, count, written) = (shown.clone(), events.clone(), length.clone());
    let w = tool("w", "Takes text.", move |args: Written| {
        written.store(args.t.len(), Ordering::SeqCst);
        async { Ok::<_, String>("written") }
    });
    let agent: Agent = server
        .agent()
        .store(store.clone())
        .tool(w)
        .observe(move |event| {
            let mut data = Vec::new();
            event.fact.write_data(&mut data).unwrap();
            seen.fetch_add(data.len(), Ordering::SeqCst);
            count.fetch_add(usize::from(matches!(event.fact, Fact::AssistantChunk(_))), Ordering::SeqCst);
        })
        .create(None)
        .await
        .unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    assert_eq!(length.load(Ordering::SeqCst), pieces, "every piece arrived");
    let log = store.bytes(agent.id().as_str()).unwrap().len();
    let (shown, events) = (shown.load(Ordering::SeqCst), events.load(Ordering::SeqCst));
    Cost { log, shown, events, allocated: dhat::HeapStats::get().total_bytes - before }
}

/// 10,000, 20,000 and 40,000 pieces: the log, what observers are shown and what is copied on the way grow as the
/// stream does.
async fn streams() {
    let mut costs = Vec::new();
    for pieces in [10_000, 20_000, 40_000] {
        costs.push(cost(pieces).await);
    }
    for (pieces, cost) in [10_000, 20_000, 40_000].into_iter().zip(&costs) {
        assert!((pieces..pieces + 20).contains(&cost.events), "one event a piece: {cost:?}");
        assert!(cost.log < pieces * 260, "{cost:?}");
    }
    for two in costs.windows(2) {
        assert!(two[1].log * 10 < two[0].log * 21, "{costs:?}");
        assert!(two[1].shown * 10 < two[0].shown * 21, "{costs:?}");
        assert!(two[1].allocated * 10 < two[0].allocated * 26, "{costs:?}");
    }
}

/// One line of a stream, 8 MB long, in reads of a kilobyte: at no time is it held four times.
fn long_line() {
    const SIZE: usize = 8_000_000;
    let head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    let tail = "\"},\"finish_reason\":null}]}\n\n";
    let body = [head, &"x".repeat(SIZE), tail].concat();
    let before = dhat::HeapStats::get();
    let (mut response, mut chunks) = (Response::new(&WIRE, None), Vec::new());
    for read in body.as_bytes().chunks(1024) {
        assert_eq!(response.push(read, &mut chunks), Ok(Progress::Open));
    }
    let text = chunks.iter().map(|chunk| match chunk {
        Chunk::TextDelta { text, .. } => text.len(),
        _ => 0,
    });
    assert_eq!(text.sum::<usize>(), SIZE);
    let after = dhat::HeapStats::get();
    let peak = after.max_bytes.saturating_sub(before.curr_bytes);
    assert!(peak < 4 * SIZE, "{peak} bytes at the peak");
    // Growing by doubling copies a line about twice.
    let copied = after.total_bytes - before.total_bytes;
    assert!(copied < 8 * SIZE as u64, "{copied} bytes were allocated");
}

#[test]
fn case_086_the_cost_of_a_stream_grows_with_its_length() {
    let _profiler = dhat::Profiler::builder().testing().build();
    long_line();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(streams());
}
