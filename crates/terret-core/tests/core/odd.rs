//! Odd moments and odd logs: what came beside a cancel, what a log not written by this machine may say.

use terret_core::assemble::{Assembler, Route};
use terret_core::chunk::{Chunk, FinishKind, code};
use terret_core::effect::Question;
use terret_core::fact::{CallMode, EffectClass, Fact, Lane};
use terret_core::input::{Answer, Input};
use terret_core::line::Event;
use terret_core::machine::Handled;
use terret_core::message::{Block, BlockKind};
use terret_core::project::{Brackets, Messages};

use crate::harness::{Session, admitted, calls, failed, ran, said, send, user};
use crate::samples::{every_fact, usage};

fn streaming() -> Session {
    let mut session = Session::new();
    session.send("m1");
    session.until(|q| matches!(q, Question::Stream(..)));
    session
}

/// A call runs.
fn running() -> Session {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[CallMode::Parallel]));
    session.answer(admitted(EffectClass::Unsafe));
    session
}

#[test]
fn without_a_cancel_an_aborted_stream_is_a_failure() {
    let mut session = streaming();
    assert_eq!(session.answer(failed(code::ABORTED)), ["failed ABORTED Recover"]);
    assert_eq!(session.answer(Answer::GiveUp), ["step 1 end", "end error ABORTED"]);
}

#[test]
fn an_answer_that_was_cut_keeps_the_tokens_it_cost() {
    let mut session = streaming();
    session.answer(said("par"));
    session.answer(Answer::Chunks(vec![Chunk::Usage { usage: usage(7, 1) }]));
    assert_eq!(session.cancel(user())[1], "cut `par`");
    let cost = session.log.iter().find_map(|e| match &e.fact {
        Fact::AssistantMessage(answer) => answer.usage.clone(),
        _ => None,
    });
    assert_eq!(cost, Some(usage(7, 1)));
}

#[test]
fn context_that_comes_while_a_cancel_converges_starts_no_turn() {
    let mut session = running();
    session.cancel(user());
    assert_eq!(session.feed(send("c", Lane::NextStep, false)), ["added c"]);
    assert_eq!(session.answer(ran()), ["result 1.1.0 ok", "step 1 end", "end aborted user"]);
    session.assert_at_rest();
    assert_eq!(session.pending(), ["c"]);
}

#[test]
fn a_second_cancel_takes_back_nothing_that_was_sent_after_the_first() {
    let mut session = running();
    session.cancel(user());
    session.send("m2");
    assert_eq!(session.try_feed(Input::Cancel { cause: user() }), (Handled::Late, vec![]));
    assert_eq!(session.answer(ran())[2..], ["end aborted user", "turn 2", "claimed [m2]"]);
}

#[test]
fn only_messages_reach_the_conversation() {
    for fact in every_fact() {
        let mut messages = Messages::default();
        let name = fact.type_name().to_owned();
        messages.fold(&Event { seq: 0, time: 0, fact });
        let expected = usize::from(name == "assistant/message");
        assert_eq!(messages.list().len(), expected, "{name} alone");
    }
}

/// What the checker says of a log without the event that reads like this.
fn faults_without(missing: &str) -> Vec<String> {
    let mut session = running();
    session.answer(ran());
    session.finish();
    let mut brackets = Brackets::default();
    for event in session.log.iter().filter(|e| crate::harness::short(&e.fact) != missing) {
        brackets.fold(event);
    }
    brackets.faults().iter().map(|(_, what)| what.clone()).collect()
}

#[test]
fn a_call_without_its_result_and_a_call_nobody_asked_for_are_named() {
    assert_eq!(faults_without("nothing"), [""; 0]);
    assert_eq!(faults_without("result 1.1.0 ok"), ["a step ends with a call open"]);
    let faults = faults_without("answer `` 1");
    assert!(faults.iter().any(|f| f.contains("a call starts that nobody asked for")), "{faults:?}");
}

#[test]
fn text_in_a_block_of_reasoning_is_reasoning_and_looking_twice_changes_nothing() {
    let mut assembler = Assembler::new(Route::default());
    let start = |index, block_type| Chunk::BlockStart { index, block_type, id: None, name: None };
    assembler.push(&start(0, BlockKind::Reasoning));
    assembler.push(&Chunk::TextDelta { index: 0, text: "hm".into() });
    assembler.push(&start(1, BlockKind::Text));
    assembler.push(&Chunk::TextDelta { index: 1, text: "so".into() });
    let expected = [Block::Reasoning { text: "hm".into(), provider: None }, Block::text("so")];
    assert_eq!(assembler.content(), expected);
    assert_eq!(assembler.content(), expected);
}
