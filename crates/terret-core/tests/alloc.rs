//! Taking in a piece of a stream allocates nothing. A binary of its own: it counts for the whole process.
#![allow(clippy::unwrap_used, missing_docs)]

use terret_core::chunk::Chunk;
use terret_core::effect::{Effect, Question};
use terret_core::fact::{Header, Lane, RequestAttempt, RequestContext, WriterOpened};
use terret_core::id::Digest;
use terret_core::input::{Answer, Input, Ready, Send};
use terret_core::machine::Machine;
use terret_core::message::{BlockKind, Message};
use terret_core::raw::Raw;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

const PIECES: usize = 1_000;

#[test]
fn a_piece_of_a_stream_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut machine = Machine::default();
    let mut out = Vec::with_capacity(PIECES + 100);
    let user = || Message::user("m", "hi");
    let (host, boot, by) = (String::new(), String::new(), String::new());
    let hash = Digest::of(b"h");
    let opened = WriterOpened { epoch: 1, pid: 1, host, boot, by, header_hash: hash, cut_bytes: None };
    machine.handle(Input::Opened(opened), &mut out);
    let send = Send { message: user(), lane: Lane::NextTurn, wake: true, replaces: None };
    machine.handle(Input::Send(send), &mut out);
    machine.handle(Input::Answer(Question::PreStep(1, 1), Answer::Enter(vec![user()])), &mut out);
    let ready = Answer::Prepared(Box::new(ready(hash)));
    machine.handle(Input::Answer(Question::Prepare(1, 1, 1), ready), &mut out);
    let question = Question::Stream(1, 1, 1);
    let start = Chunk::BlockStart { index: 0, block_type: BlockKind::Text, id: None, name: None };
    machine.handle(Input::Answer(question, Answer::Chunks(vec![start])), &mut out);

    let delta = || Answer::Chunks(vec![Chunk::TextDelta { index: 0, text: "a few words ".into() }]);
    let inputs: Vec<Input> = (0..PIECES).map(|_| Input::Answer(question, delta())).collect();
    let mut owed: Vec<Effect> = Vec::with_capacity(4);
    let (facts, before) = (out.len(), dhat::HeapStats::get().total_blocks);
    for input in inputs {
        machine.handle(input, &mut out);
        owed.clear();
        machine.effects(&mut owed);
    }
    assert_eq!(dhat::HeapStats::get().total_blocks, before, "something was allocated");
    assert_eq!(out.len() - facts, PIECES, "every piece became a fact");
}

fn ready(digest: Digest) -> Ready {
    let (provider, model) = (String::from("p"), String::from("m"));
    Ready {
        context: RequestContext {
            provider: provider.clone(),
            model: model.clone(),
            context_window: None,
            prices: None,
            table: None,
        },
        header: Header {
            provider,
            model,
            wire: String::new(),
            dialect: Raw::parse("{}").unwrap(),
            parameters: Default::default(),
            defaults: Vec::new(),
            system: None,
            tools: Vec::new(),
        },
        attempt: RequestAttempt {
            turn: 0,
            step: 0,
            attempt: 0,
            digest,
            wire: None,
            wire_digest: None,
            bytes: None,
        },
    }
}
