//! What reading an answer and writing the next request cost. Prints `NAME<tab>FIGURE` a line, for
//! `cargo xtask bench`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use rustix::time::ClockId;
use terret::core::assemble::{Assembler, Route};
use terret::core::fact::{Fact, Header, StepStart, UserMessage};
use terret::core::line::Event;
use terret::core::message::Message;
use terret::core::project::Messages;
use terret::model::openai_chat::{WIRE, dialect::Dialect};
use terret::model::response::{Progress, Response};
use terret::model::{BodyCache, no_blobs};

/// Events of the stream: some nine megabytes.
const EVENTS: usize = 30_000;

/// One read of the network: what a TLS record holds.
const READ_BYTES: usize = 16 << 10;

/// Measured in turns, since a machine is seldom quiet: the best counts.
const TURNS: usize = 15;

/// Messages behind the request, a kilobyte each on the wire.
const MESSAGES: u64 = 1_000;

/// New messages whose requests are timed.
const ROUNDS: u64 = 200;

/// A delta of 100 bytes as it is in the text, and the same text in JSON: prose has none or few escapes, code has many.
const PROSE: &str =
    "The quick brown fox jumps over the lazy dog, turns round at the gate, and jumps back again. Then it ";
const CODE: &str = r#"fn main() {\n    println!(\"{}\", add(2, 3));\n}\n\nfn add(a: i64, b: i64) -> i64 {\n    a + b // f\u00fcr.\n}\n\n"#;

fn main() {
    for (name, envelope, words) in [
        ("an answer", OPENAI, PROSE),
        ("an answer of code", OPENAI, CODE),
        ("an answer with the shortest of envelopes", SHORTEST, PROSE),
    ] {
        let text: String = serde_json::from_str(&format!("\"{words}\"")).unwrap();
        assert_eq!(text.len(), 100);
        let body = stream(envelope, words);
        let spent = (0..TURNS).map(|_| read(&body)).min().unwrap();
        println!("wire: bytes of an event of {name}\t{:.0}", body.len() as f64 / EVENTS as f64);
        println!("wire: reading and assembling {name}, MB/s\t{:.0}", body.len() as f64 * 1e3 / spent as f64);
    }
    requests();
}

/// What stands before and behind a delta, as the provider of the chat completions sends it.
const OPENAI: [&str; 2] = [
    r#"{"id":"chatcmpl-CnbQ2mW0rT6vVdXGkPzYhB3fJ1aLs","object":"chat.completion.chunk","created":1796083200,"model":"gpt-5-2025-08-07","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":"#,
    r#"}],"usage":null,"obfuscation":"k3Jd0aQ"}"#,
];

/// The least that is understood.
const SHORTEST: [&str; 2] = [r#"{"choices":[{"delta":"#, "}]}"];

/// A stream of deltas.
fn stream([before, behind]: [&str; 2], words: &str) -> String {
    let event =
        |delta: &str, finish: &str| format!("data: {before}{delta},\"finish_reason\":{finish}{behind}\n\n");
    let mut body = event(r#"{"role":"assistant","content":"","refusal":null}"#, "null");
    for _ in 0..EVENTS - 2 {
        body += &event(&format!(r#"{{"content":"{words}"}}"#), "null");
    }
    body + &event("{}", r#""stop""#) + "data: [DONE]\n\n"
}

/// Nanoseconds of one reading, from bytes to blocks.
fn read(body: &str) -> u64 {
    let (mut response, mut fold) = (Response::new(&WIRE, None), Assembler::new(Route::default()));
    let mut chunks = Vec::new();
    let started = cpu_ns();
    let mut progress = Progress::Open;
    for read in body.as_bytes().chunks(READ_BYTES) {
        progress = response.push(read, &mut chunks).unwrap();
        for chunk in chunks.drain(..) {
            fold.push(&chunk);
        }
    }
    let spent = cpu_ns() - started;
    assert_eq!((progress, fold.bytes()), (Progress::Finished, (EVENTS - 2) * 100));
    spent
}

/// Microseconds from one new message to the body of a request with a thousand behind it, and to the digest of the
/// whole, which is taken once more before anything is sent.
fn requests() {
    let header = Arc::new(Header {
        provider: "openai".into(),
        model: "m".into(),
        wire: WIRE.codec.into(),
        dialect: terret::core::raw::Raw::from_value(&Dialect::built_in("openai", "gpt-x").unwrap()).unwrap(),
        parameters: Default::default(),
        defaults: Vec::new(),
        system: Some("You are an agent. ".repeat(100)),
        tools: Vec::new(),
    });
    let (mut messages, mut cache) = (Messages::default(), BodyCache::default());
    (0..MESSAGES).for_each(|at| enter(&mut messages, at));
    drop(cache.build(&header, &messages, &no_blobs).unwrap());
    let (mut built_ns, mut hashed_ns, mut bytes) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        enter(&mut messages, MESSAGES + round);
        let started = cpu_ns();
        let built = cache.build(&header, &messages, &no_blobs).unwrap().unwrap();
        built_ns.push(cpu_ns() - started);
        let started = cpu_ns();
        assert_eq!(black_box(terret::core::id::Digest::of(&built.bytes)), built.digest);
        hashed_ns.push(cpu_ns() - started);
        bytes = built.bytes.len();
    }
    let [built, hashed] = [built_ns, hashed_ns].map(|mut spent| {
        spent.sort_unstable();
        spent[spent.len() / 2] as f64 / 1e3
    });
    println!("wire: bytes of a request with 1,000 messages behind\t{bytes}");
    println!("wire: building its body\t{built:.1}");
    println!("wire: hashing the whole of it before it is sent\t{hashed:.1}");
    println!("wire: both\t{:.1}", built + hashed);
}

fn enter(messages: &mut Messages, at: u64) {
    let step = u32::try_from(at).unwrap() + 1;
    let message = Message::user(format!("m-{at}").as_str(), "a thousand bytes and more ".repeat(38));
    let start = Fact::StepStart(StepStart { turn: 1, step, admits: 1 });
    for fact in [start, Fact::UserMessage(UserMessage { turn: 1, step, message })] {
        messages.fold(&Event { seq: at, time: 0, fact });
    }
}

/// What this thread has cost so far.
fn cpu_ns() -> u64 {
    let spent = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec.cast_unsigned() * 1_000_000_000 + spent.tv_nsec.cast_unsigned()
}
