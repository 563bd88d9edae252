//! What a long line costs in work. What it costs in memory, and a stream of many pieces in both, is counted in
//! `tests/growth.rs`.

use std::time::{Duration, Instant};

use terret::model::openai_chat::{Progress, Response};

/// Time this thread has had the processor; where the machine does not tell, time on the wall.
fn processor(start: Instant) -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|text| text.split(' ').next()?.parse().ok());
    spent.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// How long a line of this size, in reads of a kilobyte, is worked on.
fn work(size: usize) -> Duration {
    let head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    let body = [head, &"x".repeat(size), "\"},\"finish_reason\":null}]}\n\n"].concat();
    let start = Instant::now();
    let before = processor(start);
    let (mut response, mut chunks) = (Response::new(None), Vec::new());
    for read in body.as_bytes().chunks(1024) {
        assert_eq!(response.push(read, &mut chunks), Ok(Progress::Open));
    }
    assert!(!chunks.is_empty());
    processor(start) - before
}

/// What was read of a line is not looked through again at each read: four times the line is four times the work, and
/// not sixteen times.
#[test]
fn case_086_a_long_line_is_looked_through_once() {
    let best = |size| (0..5).map(|_| work(size)).min().unwrap();
    let (small, large) = (best(1 << 20), best(4 << 20));
    assert!(large < small * 8, "1 MiB: {small:?}, 4 MiB: {large:?}");
}
