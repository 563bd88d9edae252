//! Cancel at every stage, the closers and their order, and the full disk.

use terret_core::chunk::{FinishKind, code};
use terret_core::effect::{Effect, Question};
use terret_core::fact::{CallMode, Cause, EffectClass, Lane, Outcome};
use terret_core::input::{Answer, Input, Settled};
use terret_core::machine::Handled;

use crate::harness::{
    Session, admitted, broken, calls, close, enter, failed, ran, resume, said, send, settled, text, user,
};
use crate::samples::call_id;

use CallMode::{Exclusive, Parallel};

fn at(stage: impl Fn(&Question) -> bool) -> Session {
    let mut session = Session::new();
    session.send("m1");
    session.until(stage);
    session
}

fn streaming() -> Session {
    at(|q| matches!(q, Question::Stream(..)))
}

fn running() -> Session {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[Parallel, Parallel, Exclusive]));
    for n in [0, 1] {
        session.feed(Input::Answer(Question::Admit(call_id(1, 1, n), 1), admitted(EffectClass::Unsafe)));
    }
    session
}

#[test]
fn cancel_at_every_stage() {
    let by_budget = || Cause::Budget { which: "steps".into(), limit: 1 };
    let ended = |session: &mut Session, rest: &[&str]| {
        let facts = session.cancel(by_budget());
        let expected = [&["cancel budget"], rest, &["end aborted budget"]].concat();
        assert_eq!(facts, expected);
        session.assert_at_rest();
    };
    ended(&mut at(|q| matches!(q, Question::PreStep(..))), &["returned [m1]"]);
    ended(&mut at(|q| matches!(q, Question::Prepare(..))), &["step 1 end"]);
    ended(&mut streaming(), &["failed ABORTED End", "step 1 end"]);
    let mut session = streaming();
    session.answer(said("par"));
    ended(&mut session, &["cut `par`", "step 1 end"]);
    let mut session = streaming();
    session.answer(said(" \n"));
    ended(&mut session, &["failed ABORTED End", "step 1 end"]);
    let mut session = streaming();
    session.answer(failed(code::SERVER));
    ended(&mut session, &["step 1 end"]);
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[Parallel, Parallel]));
    ended(&mut session, &["result 1.1.0 notstarted", "result 1.1.1 notstarted", "step 1 end"]);
    ended(&mut at(|q| matches!(q, Question::Stopping(..))), &[]);
}

#[test]
fn running_tools_are_asked_to_stop_and_keep_their_own_outcome() {
    let mut session = running();
    assert_eq!(session.cancel(user()), ["cancel user"]);
    let stop = |n| Effect::Run { call: call_id(1, 1, n), run: 1, stop: true };
    assert_eq!(session.effects(), [stop(0), stop(1)]);
    let answer = |n, answer| Input::Answer(Question::Run(call_id(1, 1, n), 1), answer);
    assert_eq!(session.feed(answer(1, ran())), ["result 1.1.1 ok"]);
    let admit = Input::Answer(Question::Admit(call_id(1, 1, 2), 1), admitted(EffectClass::Read));
    assert_eq!(session.try_feed(admit), (Handled::Late, vec![]));
    let killed = settled(Settled::notice(Outcome::Unknown, "killed"));
    let facts = session.feed(answer(0, killed));
    let closers = ["result 1.1.0 unknown", "result 1.1.2 notstarted", "step 1 end", "end aborted user"];
    assert_eq!(facts, closers);
}

#[test]
fn the_first_cancel_wins() {
    let mut session = running();
    session.cancel(user());
    assert_eq!(session.try_feed(Input::Cancel { cause: Cause::Parent }), (Handled::Late, vec![]));
    session.finish();
    assert_eq!(session.end(), "end aborted user");
    assert_eq!(session.try_feed(Input::Cancel { cause: Cause::Parent }), (Handled::Late, vec![]));
}

#[test]
fn the_first_cancel_wins_in_any_log() {
    use terret_core::fact::{Fact, TurnCancel, TurnStart};
    let mut state = terret_core::state::State::default();
    state.apply(&Fact::TurnStart(TurnStart { turn: 1 }));
    for cause in [Cause::Parent, user()] {
        state.apply(&Fact::TurnCancel(TurnCancel { turn: 1, cause }));
    }
    assert_eq!(state.turn().unwrap().cancelled(), Some(terret_core::state::CauseKind::Other));
}

#[test]
fn the_words_of_the_first_cancel_are_told() {
    use terret_core::fact::{Fact, TurnCancel};
    use terret_core::line::Event;
    let mut session = running();
    session.cancel(user());
    // A log not written by this machine.
    let fact = Fact::TurnCancel(TurnCancel { turn: 1, cause: Cause::Parent });
    let mut words = terret_core::project::OpenTurn::default();
    let seq = session.log.len() as u64;
    session.log.iter().for_each(|event| words.fold(event));
    words.fold(&Event { seq, time: 0, fact });
    let reason = terret_core::fact::EndReason::Aborted { cause: Cause::Disposed };
    let fact = Fact::TurnEnd(terret_core::fact::TurnEnd { turn: 1, reason });
    let decided = terret_core::decided::Decided { fact, fill: terret_core::decided::Fill::Cause };
    assert_eq!(crate::harness::short(&words.complete(decided)), "end aborted user");
}

#[test]
fn a_finish_behind_a_cancel_is_late() {
    let mut session = streaming();
    session.cancel(user());
    let late = Input::Answer(Question::Stream(1, 1, 1), text("late"));
    assert_eq!(session.try_feed(late), (Handled::Late, vec![]));
}

#[test]
fn visible_text_is_kept_however_it_came() {
    use terret_core::chunk::Chunk;
    use terret_core::message::{Block, BlockKind};
    let start = |block_type| Chunk::BlockStart { index: 0, block_type, id: None, name: None };
    let refusal = || Block::Refusal { text: "no".into(), provider: None };
    for chunks in [
        vec![start(BlockKind::Refusal), Chunk::RefusalDelta { index: 0, text: "no".into() }],
        vec![start(BlockKind::Refusal), Chunk::BlockEnd { index: 0, block: Some(refusal()) }],
        vec![start(BlockKind::Text), Chunk::BlockEnd { index: 0, block: Some(Block::text("no")) }],
    ] {
        let mut session = streaming();
        session.answer(Answer::Chunks(chunks));
        assert_eq!(session.cancel(user())[1], "cut `no`");
    }
    for chunks in [
        vec![
            start(BlockKind::Reasoning),
            Chunk::ReasoningDelta { index: 0, text: "hm".into(), channel: None },
        ],
        vec![start(BlockKind::Text), Chunk::BlockEnd { index: 0, block: None }],
    ] {
        let mut session = streaming();
        session.answer(Answer::Chunks(chunks));
        assert_eq!(session.cancel(user())[1], "failed ABORTED End");
    }
}

#[test]
fn an_open_attempt_keeps_the_tokens_it_cost() {
    use terret_core::chunk::Chunk;
    use terret_core::fact::Fact;
    let mut session = streaming();
    session.answer(Answer::Chunks(vec![Chunk::Usage { usage: crate::samples::usage(7, 1) }]));
    session.cancel(user());
    let usage = session.log.iter().find_map(|e| match &e.fact {
        Fact::RequestFailed(failed) => failed.usage.clone(),
        _ => None,
    });
    assert_eq!(usage, Some(crate::samples::usage(7, 1)));
}

#[test]
fn a_full_disk_closes_without_content_and_starts_nothing() {
    // A tool had reported, its result was not written.
    let session = running();
    let mut session = Session::refolded(&session.log);
    let reported = vec![
        (call_id(1, 1, 1), Outcome::Error),
        (call_id(1, 1, 1), Outcome::Ok),
        (call_id(9, 9, 9), Outcome::Ok),
    ];
    let facts = session.feed(Input::StoreFull { failure: full(), reported });
    let closers = [
        "result 1.1.1 error",
        "result 1.1.0 unknown",
        "result 1.1.2 notstarted",
        "step 1 end",
        "end error STORE_FULL",
    ];
    assert_eq!(facts, closers);
    session.assert_at_rest();

    let mut session = streaming();
    session.answer(said("long text"));
    let mut session = Session::refolded(&session.log);
    let facts = session.feed(Input::StoreFull { failure: full(), reported: vec![] });
    assert_eq!(facts, ["failed STORE_FULL End", "step 1 end", "end error STORE_FULL"]);
}

#[test]
fn on_a_full_disk_no_turn_starts_until_somebody_posts() {
    // The write that failed held the start of the turn; its message is in the log.
    let mut session = Session::new();
    session.send("m1");
    session.log.truncate(session.log.len() - 2);
    let mut session = Session::refolded(&session.log);
    assert_eq!(
        session.try_feed(Input::StoreFull { failure: full(), reported: vec![] }),
        (Handled::Late, vec![])
    );
    session.assert_at_rest();
    assert_eq!(session.feed(send("c", Lane::NextStep, false)), ["added c"]);
    assert_eq!(session.send("m2")[1..], ["turn 1", "claimed [c m1]"]);

    // Sent after the cancel, before the disk was full.
    let mut session = running();
    session.cancel(user());
    session.send("m2");
    let mut session = Session::refolded(&session.log);
    session.feed(Input::StoreFull { failure: full(), reported: vec![] });
    session.assert_at_rest();
    assert_eq!(session.end(), "end error STORE_FULL");
    assert_eq!(session.feed(Input::Release { msgs: vec!["m2".into()] })[1..], ["turn 2", "claimed [m2]"]);
}

#[test]
fn closers_that_were_torn_are_finished() {
    // Two returns, of a message given back before and of a new one: torn between them.
    let mut session = Session::new();
    session.send("m1");
    session.answer(broken(code::HOOK));
    session.feed(send("s", Lane::NextStep, true));
    let whole = session.clone().answer(broken(code::HOOK));
    assert_eq!(whole, ["returned [m1] held", "returned [s]", "end error HOOK"]);
    session.answer(broken(code::HOOK));
    session.log.truncate(session.log.len() - 2);
    for recovery in [close(), resume()] {
        let mut session = Session::reopened(&session.log);
        assert_eq!(session.feed(recovery)[0], "returned [s]");
        session.finish().assert_at_rest();
    }
}

#[test]
fn what_entered_is_never_returned() {
    let mut session = at(|q| matches!(q, Question::PreStep(..)));
    session.answer(enter(&["m1"]));
    session.cancel(user());
    assert_eq!(session.pending(), [""; 0]);
}

fn full() -> terret_core::chunk::Failure {
    terret_core::chunk::Failure::new(terret_core::chunk::code::STORE_FULL, "the disk is full")
}
