//! Any bytes as the body of a response, on every wire: no panic, little memory, time in proportion, and however the
//! network cuts it the same chunks come out.

use rustix::time::{ClockId, clock_gettime};
use terret::core::assemble::{Assembler, Route};
use terret::core::chunk::{Chunk, Failure};
use terret::model::response::{Progress, Response};
use terret::model::sse::{Flow, SseReader};
use terret::model::wire::{WIRES, Wire};

use crate::memory::within;

/// What one byte may become: `{},` is a call with nothing in it, and a list has room for twice what it holds.
const TIMES: usize = 120;
/// What costs the same for every body.
const FIXED_BYTES: usize = 256 << 10;
/// Limit of an event where it is tried what happens there.
const SMALL_EVENT: usize = 512;
/// A body that goes on and on: what costs the square of its length shows.
const LONG_BYTES: usize = 1 << 20;
/// One input in so many goes on and on.
const LONG_EVERY: u32 = 1024;
/// Seconds of the processor that no long body takes: the usual one takes a tenth of one.
const LONG_SECONDS: i64 = 3;

/// What the fuzzer and the tests run.
pub(crate) fn check(data: &[u8]) {
    for wire in WIRES {
        let whole = within(TIMES * data.len() + FIXED_BYTES, || play(wire, usize::MAX, [data]));
        let small = play(wire, SMALL_EVENT, [data]);
        for pieces in cuts(data) {
            assert_eq!(
                play(wire, usize::MAX, pieces.iter().copied()),
                whole,
                "{}: {pieces:?}",
                wire.protocol
            );
            assert_eq!(play(wire, SMALL_EVENT, pieces.iter().copied()), small, "{}, small", wire.protocol);
        }
        makes_sense(&whole);
    }
    if crc32c::crc32c(data).is_multiple_of(LONG_EVERY) {
        long(data);
    }
}

/// The same over and over again: the reader holds an event, the decoder what it has to, and neither takes more
/// time for a byte the more came before it.
pub(crate) fn long(data: &[u8]) {
    // What ends a stream would end it here.
    let data: Vec<u8> = String::from_utf8_lossy(data).replace("[DONE]", "{}").into_bytes();
    if data.is_empty() {
        return;
    }
    let reads = || std::iter::repeat_n(&data[..], LONG_BYTES / data.len());
    within(16 * (data.len() + SMALL_EVENT), || {
        let mut reader = SseReader::with_max_event(SMALL_EVENT);
        reads().try_for_each(|read| reader.push(read, |_| Flow::<()>::Continue(())).map(drop))
    })
    .ok();
    for wire in WIRES {
        let started = cpu_seconds();
        within(TIMES * (LONG_BYTES + data.len()) + FIXED_BYTES, || play(wire, usize::MAX, reads()));
        let spent = cpu_seconds() - started;
        assert!(spent < LONG_SECONDS, "{}: {spent} s", wire.protocol);
    }
}

fn cpu_seconds() -> i64 {
    clock_gettime(ClockId::ThreadCPUTime).tv_sec
}

/// What a body comes out as.
#[derive(Debug, PartialEq)]
struct Played {
    chunks: Vec<Chunk>,
    failure: Option<Failure>,
}

fn play<'a>(wire: &Wire, max_event: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Played {
    let mut response = Response::new(wire, Some("a-secret-of-ours".to_owned()));
    if max_event != usize::MAX {
        response = response.with_max_event(max_event);
    }
    let mut chunks = Vec::new();
    for piece in pieces {
        match response.push(piece, &mut chunks) {
            Ok(Progress::Open) => {}
            Ok(Progress::Finished) => return Played { chunks, failure: None },
            Err(failure) => return Played { chunks, failure: Some(failure) },
        }
    }
    let failure = response.finish(&mut chunks).err();
    Played { chunks, failure }
}

/// The body in single bytes, in two halves, and in pieces of every size up to a few dozen bytes.
fn cuts(data: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut state = crc32c::crc32c(data);
    let (mut pieces, mut rest) = (Vec::new(), data);
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (piece, tail) = rest.split_at(((state >> 24) as usize % 41).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    let (head, tail) = data.split_at(state as usize % (data.len() + 1));
    vec![data.chunks(1).collect(), vec![head, tail], pieces]
}

/// A stream that is no failure has one finish, at its end; counts come once, blocks in order, and a message can be
/// made of it.
fn makes_sense(played: &Played) {
    let mut fold = Assembler::new(Route::default());
    let (mut blocks, mut counts, mut finishes) = (0, 0, 0);
    for chunk in &played.chunks {
        assert_eq!(finishes, 0, "{chunk:?} came after the finish");
        match chunk {
            Chunk::BlockStart { index, .. } => {
                assert_eq!(*index, blocks);
                blocks += 1;
            }
            Chunk::Usage { .. } => counts += 1,
            Chunk::Finish { .. } => finishes += 1,
            Chunk::ResponseStart { .. } | Chunk::Warning { .. } => {}
            Chunk::TextDelta { index, .. }
            | Chunk::RefusalDelta { index, .. }
            | Chunk::ReasoningDelta { index, .. }
            | Chunk::ToolCallDelta { index, .. }
            | Chunk::ProviderDelta { index, .. }
            | Chunk::BlockEnd { index, .. } => assert!(*index < blocks, "{chunk:?} of no block"),
        }
        fold.push(chunk);
    }
    assert_eq!(finishes, usize::from(played.failure.is_none()), "{played:?}");
    assert!(counts <= 1, "{played:?}");
    assert!(fold.content().len() <= blocks as usize && fold.partial().len() <= blocks as usize);
    let text = |chunk: &Chunk| matches!(chunk, Chunk::TextDelta { text, .. } if text.is_empty());
    assert!(!played.chunks.iter().any(text), "an empty delta is none");
}
