//! What a long stream costs: as much as it brings, and not more the longer it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use terret::agent::Agent;
use terret::core::chunk::Chunk;
use terret::core::fact::Fact;
use terret::model::openai_chat::{Progress, Response};
use terret::store::MemoryStore;
use terret::tool::tool;

use super::server::Server;

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
    /// Time of the processor, of this thread.
    work: Duration,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Written {
    /// Text.
    t: String,
}

async fn cost(pieces: usize) -> Cost {
    let (before, length) = (processor(), Arc::new(AtomicUsize::new(0)));
    let server = Server::playing([stream(pieces).as_str(), include_str!("018/r2.sse")]).await;
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
    Cost { log, shown, events, work: processor() - before }
}

/// Time this thread has had the processor; on machines that do not tell, time on the wall.
fn processor() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|text| text.split(' ').next()?.parse().ok());
    spent.map(Duration::from_nanos).unwrap_or_else(|| {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    })
}

/// 10,000, 20,000 and 40,000 pieces: the log, what observers are shown and the work grow as the stream does. What can
/// be counted is held to it tightly; of the work only that four times the pieces are not sixteen times the work.
#[tokio::test]
async fn case_086_the_cost_of_a_stream_grows_with_its_length() {
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
    }
    // 2.6 for each doubling.
    assert!(costs[2].work < costs[0].work * 27 / 4, "{costs:?}");
}

/// One line of a stream, `size` bytes long, in reads of a kilobyte: how long the thread worked on it.
fn line(size: usize) -> Duration {
    let head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    let tail = "\"},\"finish_reason\":null}]}\n\n";
    let body = [head, &"x".repeat(size), tail].concat();
    let before = processor();
    let (mut response, mut chunks) = (Response::new(None), Vec::new());
    for read in body.as_bytes().chunks(1024) {
        assert_eq!(response.push(read, &mut chunks), Ok(Progress::Open));
    }
    let work = processor() - before;
    let text = chunks.iter().map(|chunk| match chunk {
        Chunk::TextDelta { text, .. } => text.len(),
        _ => 0,
    });
    assert_eq!(text.sum::<usize>(), size);
    work
}

/// A line of eight megabytes in reads of a kilobyte: what was read is not looked through again at each read.
#[test]
fn case_086_a_long_line_is_looked_through_once() {
    let best = |size| (0..3).map(|_| line(size)).min().unwrap();
    let (two, eight) = (best(2 << 20), best(8 << 20));
    assert!(eight < two * 27 / 4, "2 MiB: {two:?}, 8 MiB: {eight:?}");
}
