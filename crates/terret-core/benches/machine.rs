//! What the loop's own work costs: no driver, no log, no network. Prints `NAME<tab>NANOSECONDS` a line, for
//! `cargo xtask bench`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use terret_core::chunk::{Chunk, Finish, FinishKind};
use terret_core::decided::Decided;
use terret_core::effect::{Effect, Question};
use terret_core::fact::{
    CallMode, CallRef, EffectClass, Header, Lane, RequestAttempt, RequestContext, ToolSpec, WriterOpened,
};
use terret_core::id::{CallId, Digest};
use terret_core::input::{Answer, Finished, Input, Ready, Send, Settled};
use terret_core::machine::Machine;
use terret_core::message::{Block, BlockKind, CallKind, Message, Role, Source};
use terret_core::raw::Raw;
use terret_core::state::State;

/// Steps of a turn that ask for tools, and calls of each.
const STEPS: u32 = 5;
const CALLS: u32 = 3;

/// Pieces of each answer.
const CHUNKS: u32 = 20;

fn main() {
    for (name, events) in [("100", 100), ("100,000", 100_000)] {
        let machine = after(events);
        println!("machine: handle and effects, {name} events behind\t{:.1}", turns(machine.clone()));
        println!("machine: a chunk, {name} events behind\t{:.1}", chunks(machine));
    }
}

/// A machine with so many events behind it, at rest.
fn after(events: usize) -> Machine {
    let mut machine = Machine::new(State::default());
    let (mut out, mut done) = (Vec::new(), 0);
    machine.handle(Input::Opened(opened()), &mut out);
    while done + out.len() < events {
        done += out.len();
        out.clear();
        for input in turn(machine.state().last_turn() + 1) {
            machine.handle(input, &mut out);
        }
    }
    assert!(machine.state().turn().is_none());
    machine
}

/// Nanoseconds of one input and of reading off what is owed, over whole turns of every kind of question.
fn turns(mut machine: Machine) -> f64 {
    let (mut out, mut owed): (Vec<Decided>, Vec<Effect>) = (Vec::new(), Vec::new());
    let (mut spent, mut inputs) = (0, 0);
    for round in 0..2_000 {
        let script = turn(machine.state().last_turn() + 1);
        let count = script.len();
        let started = Instant::now();
        for input in script {
            machine.handle(input, &mut out);
            owed.clear();
            machine.effects(&mut owed);
            black_box(&owed);
        }
        // The first rounds only warm up.
        if round >= 200 {
            spent += started.elapsed().as_nanos();
            inputs += count;
        }
        assert!(machine.state().turn().is_none(), "the script ends its turn");
        out.clear();
    }
    spent as f64 / inputs as f64
}

/// Nanoseconds of one piece of a stream.
fn chunks(mut machine: Machine) -> f64 {
    let number = machine.state().last_turn() + 1;
    let mut out = Vec::new();
    for input in turn(number).into_iter().take(4) {
        machine.handle(input, &mut out);
    }
    let question = Question::Stream(number, 1, 1);
    assert!(machine.asks(question));
    let (mut spent, mut count) = (0, 0);
    for round in 0..1_000 {
        let inputs: Vec<Input> = (0..100).map(|_| Input::Answer(question, delta())).collect();
        out.clear();
        let started = Instant::now();
        for input in inputs {
            machine.handle(input, &mut out);
        }
        if round >= 100 {
            spent += started.elapsed().as_nanos();
            count += 100;
        }
    }
    spent as f64 / f64::from(count)
}

fn delta() -> Answer {
    Answer::Chunks(vec![Chunk::TextDelta { index: 0, text: "a few words ".into() }])
}

/// Every input of a turn: a prompt, steps with tools, an answer.
fn turn(turn: u32) -> Vec<Input> {
    let user = || Message::user(format!("m-{turn}").as_str(), "do it");
    let mut inputs =
        vec![Input::Send(Send { message: user(), lane: Lane::NextTurn, wake: true, replaces: None })];
    for step in 1..=STEPS + 1 {
        let calls = if step <= STEPS { CALLS } else { 0 };
        let mut answer = |question, answer| inputs.push(Input::Answer(question, answer));
        let batch = if step == 1 { vec![user()] } else { Vec::new() };
        answer(Question::PreStep(turn, step), Answer::Enter(batch));
        answer(Question::Prepare(turn, step, 1), Answer::Prepared(Box::new(ready())));
        let start = Chunk::BlockStart { index: 0, block_type: BlockKind::Text, id: None, name: None };
        answer(Question::Stream(turn, step, 1), Answer::Chunks(vec![start]));
        for _ in 0..CHUNKS {
            answer(Question::Stream(turn, step, 1), delta());
        }
        answer(Question::Stream(turn, step, 1), Answer::Finished(Box::new(finished(turn, step, calls))));
        for ordinal in 0..calls {
            let id = CallId { turn, step, ordinal };
            let (name, arguments, key) = ("t".into(), "{}".into(), "k".into());
            let admitted = Answer::Admitted { name, arguments, effect: EffectClass::Read, key };
            answer(Question::Admit(id, 1), admitted);
        }
        for ordinal in 0..calls {
            let id = CallId { turn, step, ordinal };
            let (settled, contexts) = (Settled::ok("ran"), Vec::new());
            answer(Question::Run(id, 1), Answer::Settled { settled, contexts });
        }
    }
    inputs.push(Input::Answer(Question::Stopping(turn, STEPS + 1), Answer::Voted));
    inputs
}

fn finished(turn: u32, step: u32, calls: u32) -> Finished {
    let id = |ordinal| CallId { turn, step, ordinal };
    let refs = (0..calls).map(|i| CallRef { call: id(i), name: "t".into(), mode: CallMode::Parallel });
    let blocks = (0..calls).map(|i| Block::ToolCall {
        call: Some(id(i)),
        id: format!("p{i}"),
        name: "t".into(),
        arguments: "{}".into(),
        kind: CallKind::Json,
        provider: None,
    });
    let source = Source::Model { provider: "p".into(), model: "m".into(), wire: None, response_id: None };
    let content = std::iter::once(Block::text("let me look")).chain(blocks).collect();
    let kind = if calls > 0 { FinishKind::ToolCalls } else { FinishKind::Stop };
    Finished {
        message: Message {
            id: format!("a-{turn}.{step}").as_str().into(),
            role: Role::Assistant,
            content,
            source,
        },
        calls: refs.collect(),
        finish: Finish { kind, raw: "stop".into() },
        usage: None,
        sources: vec![[0, 1]],
    }
}

/// A request with a system text and tools of a usual size.
fn ready() -> Ready {
    let tool = |i: i32| ToolSpec {
        name: format!("tool-{i}"),
        description: "What it does, when to use it, and what it gives back. ".repeat(4),
        parameters: Raw::parse(r#"{"type":"object","properties":{"path":{"type":"string"}}}"#).unwrap(),
    };
    let header = Header {
        provider: "p".into(),
        model: "m".into(),
        wire: "w".into(),
        dialect: Raw::parse("{}").unwrap(),
        parameters: Default::default(),
        defaults: Vec::new(),
        system: Some("You are an agent. ".repeat(100)),
        tools: (0..8).map(tool).collect(),
    };
    let context = RequestContext {
        provider: "p".into(),
        model: "m".into(),
        context_window: Some(128_000),
        prices: None,
        table: None,
    };
    let attempt = RequestAttempt {
        turn: 0,
        step: 0,
        attempt: 0,
        digest: Digest::of(b"request"),
        wire: None,
        wire_digest: None,
        bytes: None,
    };
    Ready { header, context, attempt }
}

fn opened() -> WriterOpened {
    let (host, boot, by) = ("h".into(), "b".into(), "bench".into());
    WriterOpened { epoch: 1, pid: 1, host, boot, by, header_hash: Digest::of(b"h"), cut_bytes: None }
}
