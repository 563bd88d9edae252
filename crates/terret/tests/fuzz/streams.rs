//! Streams that no server sent: pieces of recorded ones, put together by chance, damaged, and cut anywhere.

use std::path::{Path, PathBuf};

use crate::stream;

/// A few hundred: two seconds.
const STREAMS: u64 = 300;

/// The recorded bodies of all wires.
pub(crate) fn recorded() -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false if path.extension().is_some_and(|ext| ext == "sse") => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// Chance from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What no server should send, and some do.
const JUNK: [&[u8]; 8] = [
    b": keep-alive\n\n",
    b"\r\r\n",
    b"data: {\n\n",
    b"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]}}]}\n\n",
    b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":-1}}\n\n",
    b"event: error\ndata: nothing\n\n",
    b"\xff\xfe\x00",
    b"data: [DONE]\n\n",
];

fn stream(dice: &mut Dice, bodies: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut made = Vec::new();
    for _ in 0..1 + dice.below(4) {
        let events = &bodies[dice.below(bodies.len())];
        let from = dice.below(events.len() / 2 + 1);
        for event in &events[from..(from + 1 + dice.below(20)).min(events.len())] {
            if dice.one_in(8) {
                made.extend_from_slice(JUNK[dice.below(JUNK.len())]);
            }
            let start = made.len();
            made.extend_from_slice(event);
            match dice.below(30) {
                0 => made.truncate(start + dice.below(event.len())),
                1 => made[start + dice.below(event.len())] = dice.below(256) as u8,
                2 => made.extend_from_slice(event),
                _ => {}
            }
        }
    }
    made
}

/// A body in its events, each with the blank line behind it.
fn events(body: &[u8]) -> Vec<Vec<u8>> {
    let (mut events, mut event) = (Vec::new(), Vec::new());
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        event.extend_from_slice(line);
        if line == b"\n" || line == b"\r\n" {
            events.push(std::mem::take(&mut event));
        }
    }
    events.push(event);
    events.retain(|event| !event.is_empty());
    events
}

/// A few hundred streams of one seed.
pub(crate) fn by_chance() {
    let bodies: Vec<_> = recorded().iter().map(|path| events(&std::fs::read(path).unwrap())).collect();
    let bodies: Vec<_> = bodies.into_iter().filter(|events| !events.is_empty()).collect();
    assert!(bodies.len() > 50, "the recorded bodies are not there");
    for seed in 0..STREAMS {
        // Shown when the test fails.
        eprintln!("seed {seed}");
        let mut body = stream(&mut Dice(seed), &bodies);
        body.truncate(20_000);
        stream::check(&body);
    }
}
