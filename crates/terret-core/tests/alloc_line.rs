//! Writing the line of a piece allocates nothing, and reading it next to nothing. A binary of its own: it counts for
//! the whole process.
#![allow(clippy::unwrap_used, missing_docs)]

use terret_core::chunk::Chunk;
use terret_core::fact::{AssistantChunk, Fact};
use terret_core::line::Tip;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

const PIECES: u64 = 1_000;

#[test]
fn the_line_of_a_piece_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let chunk = Chunk::TextDelta { index: 0, text: "a few words ".into() };
    let fact = Fact::AssistantChunk(AssistantChunk { turn: 1, step: 1, attempt: 1, chunk });
    let (mut writer, mut out) = (Tip::default(), Vec::with_capacity(PIECES as usize * 200));
    let before = dhat::HeapStats::get().total_blocks;
    for time in 0..PIECES {
        writer.encode(&mut out, time, &fact, None).unwrap();
        writer.head();
    }
    assert_eq!(dhat::HeapStats::get().total_blocks, before, "writing allocated something");

    let mut reader = Tip::default();
    let mut lines = out.split_inclusive(|b| *b == b'\n').map(|line| &line[..line.len() - 1]);
    // A reader gets its buffer with its first line.
    reader.check(lines.next().unwrap()).unwrap();
    let before = dhat::HeapStats::get().total_bytes;
    for line in lines {
        reader.read(line, |line| Ok(line.seq)).unwrap();
    }
    // The JSON parser notes how deep it is.
    let bytes = dhat::HeapStats::get().total_bytes - before;
    assert!(bytes <= PIECES * 8, "reading allocated {bytes} bytes");
    assert_eq!((reader.next_seq(), reader.head()), (PIECES, writer.head()));
}
