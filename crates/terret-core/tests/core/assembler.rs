//! Chunks to blocks.

use terret_core::assemble::{Assembler, Route};
use terret_core::chunk::{Chunk, FinishKind};
use terret_core::limits::MAX_BLOCKS;
use terret_core::message::{Block, BlockKind, CallKind, ProviderData};

use crate::samples::{raw, usage};

fn start(index: u32, block_type: BlockKind) -> Chunk {
    Chunk::BlockStart { index, block_type, id: None, name: None }
}

fn delta(index: u32, text: &str) -> Chunk {
    Chunk::TextDelta { index, text: text.into() }
}

fn arguments(index: u32, text: &str, id: Option<&str>, name: Option<&str>) -> Chunk {
    Chunk::ToolCallDelta {
        index,
        arguments_delta: text.into(),
        id: id.map(Into::into),
        name: name.map(Into::into),
    }
}

fn end(index: u32, block: Option<Block>) -> Chunk {
    Chunk::BlockEnd { index, block }
}

fn opaque(data: &str) -> ProviderData {
    ProviderData { protocol: "w".into(), route: "p".into(), model: "m".into(), data: raw(data) }
}

fn signed(index: u32, data: &str) -> Chunk {
    Chunk::ProviderDelta { index, data: raw(data) }
}

fn call(id: &str, arguments: &str, kind: CallKind) -> Block {
    let (id, name, arguments) = (id.into(), "read".into(), arguments.into());
    Block::ToolCall { call: None, id, name, arguments, kind, provider: None }
}

fn fold(chunks: &[Chunk]) -> Assembler {
    let route = Route { protocol: "w".into(), provider: "p".into(), model: "m".into() };
    let mut assembler = Assembler::new(route);
    chunks.iter().for_each(|chunk| assembler.push(chunk));
    assembler
}

#[test]
fn blocks_come_in_order_whatever_the_order_of_their_deltas() {
    let whole = fold(&[
        start(0, BlockKind::Reasoning),
        start(1, BlockKind::Text),
        delta(1, "Hel"),
        Chunk::ReasoningDelta { index: 0, text: "hm".into(), channel: None },
        delta(1, "lo"),
        signed(0, "1"),
        signed(0, "2"),
        start(2, BlockKind::ToolCall),
        arguments(2, "{\"a\"", Some("p-1"), Some("read")),
        arguments(2, ":1}", Some("other"), Some("other")),
        start(3, BlockKind::Refusal),
        Chunk::RefusalDelta { index: 3, text: "no".into() },
        start(4, BlockKind::Provider),
        signed(4, "{}"),
    ]);
    let expected = [
        Block::Reasoning { text: "hm".into(), provider: Some(opaque("2")) },
        Block::text("Hello"),
        call("p-1", "{\"a\":1}", CallKind::Json),
        Block::Refusal { text: "no".into(), provider: None },
        Block::Provider { wire: raw("{}") },
    ];
    assert_eq!(whole.content(), expected);
}

#[test]
fn empty_arguments_are_an_empty_object() {
    for chunks in [
        vec![start(0, BlockKind::ToolCall), arguments(0, "", Some("a"), Some("read"))],
        vec![start(0, BlockKind::ToolCall), arguments(0, " ", Some("a"), Some("read")), end(0, None)],
        vec![start(0, BlockKind::ToolCall), end(0, Some(call("a", "", CallKind::Json)))],
    ] {
        assert_eq!(fold(&chunks).content(), [call("a", "{}", CallKind::Json)]);
    }
    // Free text may be empty.
    let custom = call("a", "", CallKind::Custom);
    assert_eq!(fold(&[start(0, BlockKind::ToolCall), end(0, Some(custom.clone()))]).content(), [custom]);
}

#[test]
fn an_end_with_a_block_is_the_last_word() {
    let whole = fold(&[
        start(0, BlockKind::Text),
        delta(0, "draft"),
        end(0, Some(Block::text("final"))),
        delta(0, " and more"),
        end(0, Some(Block::text("again"))),
        start(1, BlockKind::Text),
        delta(1, "kept"),
        end(1, None),
        delta(1, " and more"),
    ]);
    assert_eq!(whole.content(), [Block::text("final"), Block::text("kept")]);
}

#[test]
fn a_repeated_block_keeps_the_opaque_data_its_deltas_brought() {
    let repeated = |provider| Block::Text { text: "final".into(), provider };
    let fold =
        |own| fold(&[start(0, BlockKind::Text), signed(0, "1"), end(0, Some(repeated(own)))]).content();
    assert_eq!(fold(None), [repeated(Some(opaque("1")))]);
    assert_eq!(fold(Some(opaque("2"))), [repeated(Some(opaque("2")))], "its own comes first");
    let custom = call("a", "", CallKind::Custom);
    let whole = self::fold(&[start(0, BlockKind::ToolCall), signed(0, "1"), end(0, Some(custom))]).content();
    let Block::ToolCall { arguments, kind: CallKind::Custom, provider, .. } = &whole[0] else {
        panic!("{whole:?}");
    };
    assert_eq!((arguments.as_str(), provider), ("", &Some(opaque("1"))));
}

#[test]
fn empty_blocks_and_strangers_are_left_out() {
    let whole = fold(&[
        delta(0, "no block yet"),
        start(1, BlockKind::Text),
        delta(1, "index 1 cannot come first"),
        start(0, BlockKind::Text),
        start(1, BlockKind::Reasoning),
        start(2, BlockKind::Reasoning),
        signed(2, "1"),
        start(0, BlockKind::Text),
        delta(9, "never opened"),
    ]);
    assert_eq!(whole.content(), [Block::Reasoning { text: String::new(), provider: Some(opaque("1")) }]);
}

#[test]
fn a_runaway_stream_stops_at_the_limit() {
    let mut assembler = Assembler::default();
    for index in 0..MAX_BLOCKS as u32 + 10 {
        assembler.push(&start(index, BlockKind::Text));
        assembler.push(&delta(index, "x"));
    }
    assert_eq!(assembler.content().len(), MAX_BLOCKS);
}

#[test]
fn of_a_cut_stream_text_and_signed_reasoning_stay() {
    let cut = fold(&[
        start(0, BlockKind::Reasoning),
        Chunk::ReasoningDelta { index: 0, text: "unsigned".into(), channel: None },
        start(1, BlockKind::Reasoning),
        signed(1, "1"),
        start(2, BlockKind::Text),
        delta(2, " \n"),
        start(3, BlockKind::Text),
        delta(3, "kept"),
        start(4, BlockKind::ToolCall),
        arguments(4, "{}", Some("a"), Some("read")),
        end(4, None),
        start(5, BlockKind::Refusal),
        Chunk::RefusalDelta { index: 5, text: "no".into() },
        start(6, BlockKind::Provider),
        signed(6, "{}"),
    ]);
    let expected = [
        Block::Reasoning { text: String::new(), provider: Some(opaque("1")) },
        Block::text("kept"),
        Block::Refusal { text: "no".into(), provider: None },
    ];
    assert_eq!(cut.partial(), expected);
}

#[test]
fn what_is_said_about_the_stream() {
    let response = |id: &str| Chunk::ResponseStart { response_id: Some(id.into()), model: Some("m2".into()) };
    let whole = fold(&[
        response("r-1"),
        response("r-2"),
        Chunk::Usage { usage: usage(1, 0) },
        Chunk::Usage { usage: usage(2, 1) },
        Chunk::Warning { code: "missing-done".into(), detail: "".into() },
        Chunk::Finish { reason: FinishKind::Stop, raw: "stop".into() },
    ]);
    assert_eq!(whole.response_id(), Some("r-1"));
    assert_eq!(whole.response_model(), Some("m2"));
    assert_eq!(whole.usage(), Some(&usage(2, 1)), "the last one counts, they never add up");
    assert_eq!(whole.warnings(), ["missing-done"]);
    assert_eq!(whole.finish().unwrap().raw, "stop");
    assert!(fold(&[]).finish().is_none());
}
