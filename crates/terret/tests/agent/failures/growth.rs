//! What a long line costs in work. What it costs in memory, and a stream of many pieces in both, is counted in
//! `tests/growth.rs`.

use std::time::{Duration, Instant};

use terret::model::openai_chat::WIRE;
use terret::model::response::{Progress, Response};

/// How long a line of 4 MiB takes in reads of this size.
fn work(read: usize) -> Duration {
    let head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    let body = [head, &"x".repeat(4 << 20), "\"},\"finish_reason\":null}]}\n\n"].concat();
    let start = Instant::now();
    let (mut response, mut chunks) = (Response::new(&WIRE, None), Vec::new());
    for read in body.as_bytes().chunks(read) {
        assert_eq!(response.push(read, &mut chunks), Ok(Progress::Open));
    }
    assert!(!chunks.is_empty());
    start.elapsed()
}

/// What was read of a line is not looked through again at each read: in four thousand reads it costs little more than
/// in one. Were it looked through each time, it would be a hundred times as much and more.
#[test]
fn case_086_a_long_line_is_looked_through_once() {
    let best = |read| (0..5).map(|_| work(read)).min().unwrap();
    let (many, one) = (best(1024), best(usize::MAX));
    assert!(many < one * 25, "in reads of a kilobyte: {many:?}, in one: {one:?}");
}
