//! What a long conversation and many agents cost. Prints `NAME<tab>FIGURE` a line, for `cargo xtask bench`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terret::Agent;
use terret::core::fact::{Fact, Header, StepStart, UserMessage};
use terret::core::line::Event;
use terret::core::message::Message;
use terret::core::project::Request;
use terret::core::raw::Raw;
use terret::model::script::ScriptAdapter;
use terret::model::{BodyCache, Providers, no_blobs};
use terret::store::FileStore;

const AGENTS: usize = 1_000;

/// New messages whose requests are timed.
const ROUNDS: u32 = 100;

fn main() {
    // A few threads wait for the disk, whatever the number of agents.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(8).build().unwrap();
    // First: what other measures leave in memory would hide what agents need.
    runtime.block_on(agents());
    for (name, messages) in [("10", 10), ("1,000", 1_000), ("10,000", 10_000)] {
        let [derived, built] = request(messages);
        println!("request: digest, {name} messages behind\t{derived:.0}");
        println!("request: body, {name} messages behind\t{built:.0}");
    }
}

/// Nanoseconds from one new message to the digest and to the body of a request with so many behind it.
fn request(messages: u64) -> [f64; 2] {
    let header = Arc::new(Header {
        provider: "script".into(),
        model: "m".into(),
        wire: "script@1".into(),
        dialect: Raw::parse("{}").unwrap(),
        parameters: Default::default(),
        defaults: Vec::new(),
        system: Some("You are an agent. ".repeat(100)),
        tools: Vec::new(),
    });
    let (mut request, mut cache) = (Request::default(), BodyCache::default());
    for step in 0..messages {
        enter(&mut request, step);
    }
    request.digest(&header);
    drop(cache.build(&header, request.messages(), &no_blobs).unwrap());
    let (mut derived, mut built) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS {
        enter(&mut request, messages + u64::from(round));
        let started = Instant::now();
        black_box(request.digest(&header));
        derived += started.elapsed();
        let started = Instant::now();
        black_box(cache.build(&header, request.messages(), &no_blobs).unwrap());
        built += started.elapsed();
    }
    [derived, built].map(|spent| spent.as_nanos() as f64 / f64::from(ROUNDS))
}

fn enter(request: &mut Request, step: u64) {
    let at = u32::try_from(step).unwrap() + 1;
    let message = Message::user(format!("m-{step}").as_str(), "half a thousand bytes ".repeat(23));
    let start = Fact::StepStart(StepStart { turn: 1, step: at, admits: 1 });
    for fact in [start, Fact::UserMessage(UserMessage { turn: 1, step: at, message })] {
        request.fold(&Event { seq: step, time: 0, fact });
    }
}

/// A thousand agents in one process, logs in files, each streaming an answer of 50 pieces, one every 4 ms.
async fn agents() {
    let home = tempfile::tempdir().unwrap();
    let script = format!("pace 4\nsay {}", "word ".repeat(50));
    let player = ScriptAdapter::new().with("test", &script).unwrap();
    let models = Arc::new(Providers::new(Box::new(|_| None)).with_adapter("script", player));
    let before = resident();
    let mut agents = Vec::with_capacity(AGENTS);
    for _ in 0..AGENTS {
        let builder = Agent::builder(models.clone()).model("script:test").unwrap();
        let builder = builder.store(FileStore::new(home.path()));
        agents.push(builder.create(None).await.unwrap());
    }
    let each = |bytes: u64| bytes.saturating_sub(before) / AGENTS as u64;
    println!("agents: memory of one that did nothing yet\t{}", each(resident()));

    let started = Instant::now();
    let turns = agents.iter().map(|agent| async move {
        assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
        started.elapsed()
    });
    let ended = futures_util::future::join_all(turns).await;
    let (first, last) = (ended.iter().min().unwrap(), ended.iter().max().unwrap());
    println!("agents: the slowest turn beside the fastest\t{:.2}", last.div_duration_f64(*first));
    println!("agents: the slowest turn\t{}", last.as_millis());
    println!("agents: memory of an idle one after a turn\t{}", each(resident()));
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
