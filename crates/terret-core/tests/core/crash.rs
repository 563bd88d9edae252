//! After a crash: whatever was written last, every bracket is closed exactly once.

use terret_core::chunk::{Chunk, FinishKind, code};
use terret_core::effect::{Effect, Question};
use terret_core::fact::{CallMode, EffectClass, Fact, Lane, Outcome};
use terret_core::input::{Answer, Input, Recovery, Settled};
use terret_core::line::Event;
use terret_core::machine::Handled;

use crate::harness::{
    Session, admitted, broken, calls, close, enter, failed, prepared, ran, reject, resume, said, send,
    settled, short, text, user,
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

fn reopen(session: &Session) -> Session {
    Session::reopened(&session.log)
}

/// The log up to and with the last fact that reads like this.
fn torn_after(session: &Session, last: &str) -> Session {
    let at = session.log.iter().rposition(|e| short(&e.fact) == last).unwrap();
    Session::reopened(&session.log[..=at])
}

#[test]
fn opening_suspends() {
    let mut session = reopen(&streaming());
    assert!(session.machine.suspended());
    assert_eq!(session.effects(), []);
    assert_eq!(session.send("m2"), ["added m2"]);
    let late = Input::Answer(Question::Stream(1, 1, 1), text("late"));
    assert_eq!(session.try_feed(late), (Handled::Late, vec![]));
    assert_eq!(session.feed(close()), ["failed INTERRUPTED End", "step 1 end", "end interrupted"]);
    assert_eq!(session.try_feed(close()), (Handled::Late, vec![]));
    assert_eq!(session.pending(), ["m2"], "parked");
    session.assert_at_rest();
}

#[test]
fn closing_at_every_stage() {
    let closed = |session: &Session, expected: &[&str]| {
        let mut session = reopen(session);
        assert_eq!(session.feed(close()), expected);
        session.assert_at_rest();
        // A second opening has nothing to do.
        let mut again = reopen(&session);
        assert_eq!(again.try_feed(close()), (Handled::Late, vec![]));
    };
    let interrupted = "end interrupted";
    closed(&at(|q| matches!(q, Question::PreStep(..))), &["returned [m1]", interrupted]);
    closed(&at(|q| matches!(q, Question::Prepare(..))), &["step 1 end", interrupted]);
    let mut session = streaming();
    session.answer(said("par"));
    closed(&session, &["cut `par`", "step 1 end", interrupted]);
    let mut session = streaming();
    session.answer(failed(code::SERVER));
    closed(&session, &["step 1 end", interrupted]);
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[Parallel, Exclusive]));
    session.answer(admitted(EffectClass::Read));
    let results = ["result 1.1.0 unknown", "result 1.1.1 notstarted"];
    closed(&session, &[&results[..], &["step 1 end", interrupted]].concat());
    closed(&at(|q| matches!(q, Question::Stopping(..))), &[interrupted]);
    // A cancel in the log gives its cause, a failure that ends the turn gives its words.
    session.cancel(user());
    closed(&session, &[&results[..], &["step 1 end", "end aborted user"]].concat());
    let mut session = streaming();
    session.answer(broken(code::RECONSTRUCTION));
    let torn = torn_after(&session, "failed RECONSTRUCTION End");
    closed(&torn, &["step 1 end", "end error RECONSTRUCTION"]);
    let mut session = streaming();
    session.answer(failed(code::QUOTA));
    session.answer(Answer::GiveUp);
    // A failure still under judgement, or given up on in a torn write, does not.
    closed(&torn_after(&session, "step 1 end"), &[interrupted]);
}

#[test]
fn closing_ends_in_the_same_words_wherever_it_was_torn() {
    let mut whole = reopen(&streaming());
    whole.feed(close());
    let from = whole.log.iter().rposition(|e| short(&e.fact) == "opened").unwrap();
    for end in from + 1..whole.log.len() {
        for recovery in [close(), resume()] {
            let mut session = Session::reopened(&whole.log[..end]);
            let owed_again =
                end == from + 1 && matches!(recovery, Input::Recover(Recovery::ResumeTurn { .. }));
            session.feed(recovery);
            session.finish().assert_at_rest();
            let expected = if owed_again { "end completed" } else { "end interrupted" };
            assert_eq!(session.end(), expected, "after {}", short(&whole.log[end - 1].fact));
        }
    }
}

#[test]
fn a_returned_message_is_held_the_second_time() {
    let mut session = at(|q| matches!(q, Question::PreStep(..)));
    session = reopen(&session);
    session.feed(close());
    assert_eq!(session.pending(), ["m1"]);
    session.send("m2");
    session = reopen(&session);
    assert_eq!(session.feed(close()), ["returned [m1] held", "end interrupted"]);
    assert_eq!(session.send("m3")[1..], ["turn 3", "claimed [m2]"]);
}

#[test]
fn resuming_before_the_model() {
    let mut session = reopen(&at(|q| matches!(q, Question::PreStep(..))));
    session.feed(send("s", Lane::NextStep, false));
    assert_eq!(session.feed(resume()), ["returned [m1]", "claimed [s m1]"]);
    session.finish();
    assert_eq!(session.end(), "end completed");

    let mut session = reopen(&at(|q| matches!(q, Question::Prepare(..))));
    assert_eq!(session.feed(resume()), [""; 0]);
    assert_eq!(session.effects(), [Effect::Prepare { turn: 1, step: 1, attempt: 1, delay_ms: 0 }]);
    assert_eq!(session.answer(prepared())[0], "header initial");
}

#[test]
fn resuming_a_step_that_was_not_wholly_admitted() {
    let mut session = at(|q| matches!(q, Question::PreStep(..)));
    session.answer(enter(&["x", "m1"]));
    let mut session = torn_after(&session, "user x");
    // It never reached the model: what it claimed is claimed again, by the rules of a first step.
    assert_eq!(session.feed(resume()), ["returned [m1]", "step 1 end", "claimed [m1]"]);
    assert_eq!(session.effects(), [Effect::PreStep { turn: 1, step: 2, batch: vec!["m1".into()] }]);
    let nothing = session.clone().answer(enter(&[]));
    assert_eq!(nothing, ["end completed"]);
    let blocked = session.clone().answer(reject(false));
    assert_eq!(blocked, ["end blocked gate"]);
    session.answer(enter(&["m1"]));
    session.finish();
    assert_eq!(session.end(), "end completed");
}

#[test]
fn a_verdict_stands_until_a_later_step_is_wholly_admitted() {
    let mut session = at(|q| matches!(q, Question::Stopping(..)));
    session.feed(send("s", Lane::NextStep, false));
    session.answer(Answer::Voted);
    session.answer(enter(&["s"]));
    let mut session = torn_after(&session, "step 2 admits 1");
    assert_eq!(session.feed(resume()), ["returned [s]", "step 2 end", "claimed [s]"]);
    assert_eq!(session.answer(enter(&[])), ["end completed"]);
}

#[test]
fn resuming_an_open_attempt_asks_again() {
    let mut session = streaming();
    session.answer(said("par"));
    let mut session = reopen(&session);
    assert_eq!(session.feed(resume()), ["failed INTERRUPTED Retry"]);
    assert_eq!(session.effects(), [Effect::Prepare { turn: 1, step: 1, attempt: 2, delay_ms: 0 }]);
    assert_eq!(session.answer(prepared()), ["header resume", "attempt 1.1.2"]);

    let mut session = streaming();
    session.answer(failed(code::SERVER));
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 250 });
    let mut session = reopen(&session);
    session.feed(resume());
    assert_eq!(session.effects(), [Effect::Prepare { turn: 1, step: 1, attempt: 2, delay_ms: 250 }]);
}

#[test]
fn resuming_runs_again_only_what_may_run_twice() {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[Parallel; 6]));
    let classes = [
        EffectClass::Read,
        EffectClass::Idempotent,
        EffectClass::Keyed,
        EffectClass::Keyed,
        EffectClass::Unsafe,
    ];
    for (n, effect) in classes.into_iter().enumerate() {
        let question = Question::Admit(call_id(1, 1, n as u32), 1);
        session.feed(Input::Answer(question, admitted(effect)));
    }
    let mut session = reopen(&session);
    let keyed = vec![call_id(1, 1, 3)];
    let facts = session.feed(Input::Recover(Recovery::ResumeTurn { keyed }));
    assert_eq!(facts, ["result 1.1.2 unknown", "result 1.1.4 unknown"]);
    assert_eq!(session.questions(), [Question::Admit(call_id(1, 1, 0), 2)]);
    assert_eq!(session.answer(admitted(EffectClass::Read)), ["call 1.1.0 run 2"]);
    let next = Question::Admit(call_id(1, 1, 1), 2);
    assert_eq!(session.questions(), [Question::Run(call_id(1, 1, 0), 2), next]);
    // The first run's answer is not the second's.
    let late = Input::Answer(Question::Run(call_id(1, 1, 0), 1), ran());
    assert_eq!(session.try_feed(late), (Handled::Late, vec![]));
    // It did start once: a refusal now does not make that undone.
    let denied = Answer::Refused(Settled::notice(Outcome::Denied, "no"));
    assert_eq!(session.feed(Input::Answer(next, denied)), ["result 1.1.1 unknown"]);
    // A second crash in the middle of it.
    let mut session = reopen(&session);
    let keyed = vec![call_id(1, 1, 3)];
    assert_eq!(session.feed(Input::Recover(Recovery::ResumeTurn { keyed })), [""; 0]);
    assert_eq!(session.questions(), [Question::Admit(call_id(1, 1, 0), 3)]);
    session.finish();
    assert_eq!(session.end(), "end completed");
    assert_eq!(session.results().len(), 6);
}

#[test]
fn an_orphan_that_is_cancelled_is_unknown() {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[Exclusive]));
    session.answer(admitted(EffectClass::Read));
    let mut session = reopen(&session);
    session.feed(resume());
    let facts = session.cancel(user());
    assert_eq!(facts, ["cancel user", "result 1.1.0 unknown", "step 1 end", "end aborted user"]);
    // So does a cancel that comes before anybody decided.
    let mut session = reopen(&streaming());
    assert_eq!(session.cancel(user()), ["cancel user"]);
    assert_eq!(session.feed(resume())[2], "end aborted user");
}

#[test]
fn resuming_a_turn_that_only_closes_closes_it() {
    let mut session = streaming();
    session.answer(said("par"));
    session.cancel(user());
    for last in ["cancel user", "cut `par`", "step 1 end"] {
        let mut torn = torn_after(&session, last);
        torn.feed(resume());
        torn.assert_at_rest();
        assert_eq!(torn.end(), "end aborted user");
    }
    let mut session = streaming();
    session.answer(broken(code::RECONSTRUCTION));
    for last in ["failed RECONSTRUCTION End", "step 1 end"] {
        let mut torn = torn_after(&session, last);
        torn.feed(resume());
        torn.assert_at_rest();
        assert_eq!(torn.end(), "end error RECONSTRUCTION");
    }
}

/// A life with a bit of everything in it.
fn long_life() -> Vec<Event> {
    let mut session = Session::new();
    session.send("m1");
    session.feed(send("s1", Lane::NextStep, false));
    session.answer(enter(&["x", "m1", "s1"]));
    session.answer(prepared());
    session.answer(Answer::Chunks(vec![Chunk::Usage { usage: crate::samples::usage(1, 0) }]));
    session.answer(failed(code::SERVER));
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 1 });
    session.answer(prepared());
    session.answer(said("let me look"));
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[Parallel, Parallel, Exclusive]));
    let admit = |s: &mut Session, n, effect| {
        s.feed(Input::Answer(Question::Admit(call_id(1, 1, n), 1), admitted(effect)));
    };
    admit(&mut session, 0, EffectClass::Read);
    admit(&mut session, 1, EffectClass::Unsafe);
    let run = |n| Question::Run(call_id(1, 1, n), 1);
    session.feed(Input::Answer(run(1), settled(Settled::ok("b"))));
    session.feed(Input::Answer(run(0), settled(Settled::ok("a"))));
    session.send("m2");
    admit(&mut session, 2, EffectClass::Keyed);
    let contexts = vec![terret_core::message::Message::user("c", "context")];
    session.feed(Input::Answer(run(2), Answer::Settled { settled: Settled::ok("c"), contexts }));
    session.answer(enter(&["c"]));
    session.answer(prepared());
    session.answer(text("done"));
    session.feed(send("s2", Lane::NextStep, true));
    session.answer(Answer::Voted);
    session.answer(reject(true));
    session.answer(enter(&["m2"]));
    session.answer(prepared());
    session.answer(said("more"));
    session.cancel(user());
    session.log
}

#[test]
fn a_life_torn_between_any_two_facts_closes_every_bracket_once() {
    let life = long_life();
    for end in 1..=life.len() {
        let torn = Session::reopened(&life[..end]);
        let open = torn.machine.suspended();
        for recovery in [close(), resume()] {
            let mut session = torn.clone();
            assert_eq!(session.try_feed(recovery).0 == Handled::Yes, open);
            session.finish().assert_at_rest();
            // And again, torn inside the recovery.
            for again in end + 1..session.log.len() {
                for second in [close(), resume()] {
                    let mut session = Session::reopened(&session.log[..again]);
                    session.try_feed(second);
                    session.finish().assert_at_rest();
                }
            }
            assert_eq!(Session::reopened(&session.log).try_feed(close()), (Handled::Late, vec![]));
        }
    }
    assert!(life.iter().any(|e| matches!(e.fact, Fact::TurnCancel(_))));
}
