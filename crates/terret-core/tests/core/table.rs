//! The table *stage × answer → facts*, row by row.

use terret_core::chunk::{Failure, FinishKind, code};
use terret_core::effect::{Effect, Question};
use terret_core::fact::{
    ApprovalAsked, ApprovalDecided, CallMode, EffectClass, Fact, Lane, Outcome, SeamChanged,
};
use terret_core::input::{Answer, Input, Record, Settled};
use terret_core::limits::MAX_PARALLEL_CALLS;
use terret_core::machine::Handled;
use terret_core::message::{Block, Message};

use crate::harness::{
    Session, admitted, broken, calls, enter, failed, finished, prepared, prepared_with, ran, reject, said,
    send, settled, text,
};
use crate::samples::{call_id, header};

use CallMode::{Exclusive, Parallel};

fn at(stage: impl Fn(&Question) -> bool) -> Session {
    let mut session = Session::new();
    session.send("m1");
    session.until(stage);
    session
}

fn pre_step() -> Session {
    at(|q| matches!(q, Question::PreStep(..)))
}

fn preparing() -> Session {
    at(|q| matches!(q, Question::Prepare(..)))
}

fn streaming() -> Session {
    at(|q| matches!(q, Question::Stream(..)))
}

fn recovering() -> Session {
    let mut session = streaming();
    assert_eq!(session.answer(failed(code::OVERLOADED)), ["failed OVERLOADED Recover"]);
    session
}

/// The model asked for calls of these modes.
fn tools(modes: &[CallMode]) -> Session {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, modes));
    session
}

/// After a tool round, before the second step.
fn second_pre_step() -> Session {
    let mut session = tools(&[Parallel]);
    session.until(|q| matches!(q, Question::PreStep(_, 2)));
    session
}

fn stopping() -> Session {
    at(|q| matches!(q, Question::Stopping(..)))
}

fn admit(session: &mut Session, ordinal: u32) {
    let question = Question::Admit(call_id(1, 1, ordinal), 1);
    session.feed(Input::Answer(question, admitted(EffectClass::Read)));
}

fn run(session: &mut Session, ordinal: u32, answer: Answer) -> Vec<String> {
    session.feed(Input::Answer(Question::Run(call_id(1, 1, ordinal), 1), answer))
}

#[test]
fn a_wake_starts_a_turn_and_claims() {
    let mut session = Session::new();
    assert_eq!(session.send("m1"), ["added m1", "turn 1", "claimed [m1]"]);
    let batch = vec!["m1".into()];
    assert_eq!(session.effects(), [Effect::PreStep { turn: 1, step: 1, batch }]);
}

#[test]
fn the_first_claim_takes_next_step_and_one_of_next_turn_later_ones_next_step() {
    let mut session = Session::new();
    session.feed(send("s1", Lane::NextStep, false));
    session.feed(send("t0", Lane::NextTurn, false));
    assert_eq!(session.send("t1")[1..], ["turn 1", "claimed [s1 t0]"]);
    session.feed(send("s2", Lane::NextStep, false));
    session.feed(send("s3", Lane::NextStep, true));
    session.until(|q| matches!(q, Question::Stream(..)));
    assert_eq!(session.answer(text("ok")), ["answer `ok` 0", "step 1 end", "claimed [s2 s3]"]);
}

#[test]
fn entering_admits_what_the_answer_says() {
    let mut session = pre_step();
    let facts = session.answer(enter(&["extra", "m1"]));
    assert_eq!(facts, ["step 1 admits 2", "user extra", "user m1"]);
    assert_eq!(session.effects(), [Effect::Prepare { turn: 1, step: 1, attempt: 1, delay_ms: 0 }]);
}

#[test]
fn entering_with_nothing() {
    assert_eq!(pre_step().answer(enter(&[])), ["end completed"]);
    assert_eq!(second_pre_step().answer(enter(&[])), ["step 2 admits 0"]);
    // A verdict that is present: the answer of step 1 needed no more.
    let mut session = stopping();
    session.feed(send("s", Lane::NextStep, false));
    assert_eq!(session.answer(Answer::Voted), ["claimed [s]"]);
    assert_eq!(session.answer(enter(&[])), ["end completed"]);
}

#[test]
fn rejecting() {
    assert_eq!(pre_step().answer(reject(false)), ["end blocked gate"]);
    assert_eq!(pre_step().answer(reject(true)), ["returned [m1] held", "end blocked gate"]);

    let mut session = stopping();
    session.feed(send("s", Lane::NextStep, false));
    session.answer(Answer::Voted);
    let facts = session.clone().answer(reject(false));
    assert_eq!(facts, ["seam gate reject: no", "end completed"]);
    assert_eq!(session.answer(reject(true)), ["seam gate reject: no", "returned [s] held", "end completed"]);

    let mut session = second_pre_step();
    assert_eq!(session.answer(reject(false)), ["seam gate reject: no", "end aborted hook"]);
    session.assert_at_rest();
}

#[test]
fn a_pre_step_that_fails_gives_its_claim_back_and_ends_the_turn() {
    let mut session = pre_step();
    assert_eq!(session.answer(broken(code::HOOK)), ["returned [m1]", "end error HOOK"]);
    // Parked, and held when it fails a second time: it blocks nothing.
    session.assert_at_rest();
    assert_eq!(session.send("m2")[1..], ["turn 2", "claimed [m1]"]);
    assert_eq!(session.answer(broken(code::HOOK)), ["returned [m1] held", "end error HOOK"]);
    assert_eq!(session.send("m3")[1..], ["turn 3", "claimed [m2]"]);
}

#[test]
fn preparing_writes_what_changed() {
    let mut session = preparing();
    assert_eq!(session.answer(prepared()), ["header initial", "context", "attempt 1.1.1"]);
    session.answer(failed(code::SERVER));
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 250 });
    assert_eq!(session.answer(prepared()), ["attempt 1.1.2"]);
    session.answer(failed(code::SERVER));
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 250 });
    let mut other = header();
    other.model = "n".into();
    assert_eq!(session.answer(prepared_with(other)), ["header change", "attempt 1.1.3"]);
}

#[test]
fn a_new_writer_writes_its_header_even_if_nothing_changed() {
    let mut session = streaming();
    session.finish();
    let mut session = Session::reopened(&session.log);
    session.send("m2");
    session.until(|q| matches!(q, Question::Prepare(..)));
    assert_eq!(session.answer(prepared()), ["header resume", "attempt 2.1.1"]);
    session.finish().send("m3");
    session.until(|q| matches!(q, Question::Prepare(..)));
    assert_eq!(session.answer(prepared()), ["attempt 3.1.1"]);
}

#[test]
fn preparing_that_fails_ends_the_turn() {
    assert_eq!(preparing().answer(broken(code::HOOK)), ["step 1 end", "end error HOOK"]);
}

#[test]
fn a_stream_that_comes_to_its_end() {
    let mut session = streaming();
    assert_eq!(session.answer(said("hi")), ["chunk", "chunk"]);
    assert_eq!(session.answer(text("hi")), ["answer `hi` 0", "step 1 end"]);
    assert_eq!(session.effects(), [Effect::Stopping { turn: 1, step: 1 }]);
    assert_eq!(session.answer(Answer::Voted), ["end completed"]);
    session.assert_at_rest();
}

#[test]
fn a_stream_that_fails() {
    let session = recovering();
    assert_eq!(session.questions(), [Question::Recover(1, 1, 1)]);
    let facts = streaming().answer(broken(code::RECONSTRUCTION));
    assert_eq!(facts, ["failed RECONSTRUCTION End", "step 1 end", "end error RECONSTRUCTION"]);
}

#[test]
fn a_failure_is_judged() {
    let mut session = recovering();
    let facts = session.answer(Answer::Retry { by: "retry".into(), delay_ms: 250 });
    assert_eq!(facts, ["retry after 1 in 250"]);
    assert_eq!(session.effects(), [Effect::Prepare { turn: 1, step: 1, attempt: 2, delay_ms: 250 }]);

    assert_eq!(recovering().answer(Answer::GiveUp), ["step 1 end", "end error OVERLOADED"]);
    assert_eq!(recovering().answer(broken(code::HOOK)), ["step 1 end", "end error HOOK"]);
}

#[test]
fn every_finish_has_one_meaning() {
    let finish = |kind| {
        let mut session = streaming();
        let mut facts = session.answer(finished(kind, vec![Block::text("x")], &[]));
        facts.extend(session.questions().iter().map(|q| format!("{q:?}")));
        facts
    };
    let asked_again = ["answer `x` 0", "step 1 end", "claimed []", "PreStep(1, 2)"];
    assert_eq!(finish(FinishKind::Stop), ["answer `x` 0", "step 1 end", "Stopping(1, 1)"]);
    assert_eq!(finish(FinishKind::ToolCalls), ["answer `x` 0", "step 1 end", "Stopping(1, 1)"]);
    assert_eq!(finish(FinishKind::MaxTokens), ["answer `x` 0", "step 1 end", "Stopping(1, 1)"]);
    assert_eq!(finish(FinishKind::Pause), asked_again);
    for (kind, code) in [
        (FinishKind::ContextWindow, code::CONTEXT_WINDOW_EXCEEDED),
        (FinishKind::Refusal, code::REFUSAL),
        (FinishKind::ContentFilter, code::CONTENT_FILTER),
        (FinishKind::Other, code::OTHER_FINISH),
    ] {
        assert_eq!(finish(kind), [format!("failed {code} Recover"), "Recover(1, 1, 1)".into()]);
    }
    let mut session = streaming();
    session.answer(finished(FinishKind::Other, vec![], &[]));
    let raw = session.log.iter().find_map(|e| match &e.fact {
        Fact::RequestFailed(failed) => failed.failure.raw.clone(),
        _ => None,
    });
    assert_eq!(raw.as_deref(), Some("raw"));
}

#[test]
fn an_empty_answer_still_has_its_anchor() {
    let mut session = streaming();
    assert_eq!(session.answer(finished(FinishKind::Stop, vec![], &[]))[0], "answer `` 0");
}

#[test]
fn a_stop_with_calls_dispatches_and_a_cut_answer_drops_them() {
    let mut session = streaming();
    assert_eq!(session.answer(calls((1, 1), FinishKind::Stop, &[Parallel])), ["answer `` 1"]);
    for kind in [FinishKind::MaxTokens, FinishKind::Pause] {
        let mut session = streaming();
        assert_eq!(session.answer(calls((1, 1), kind, &[Parallel]))[0], "answer `` 0");
        let Some(Fact::AssistantMessage(answer)) =
            session.log.iter().map(|e| &e.fact).find(|f| matches!(f, Fact::AssistantMessage(_)))
        else {
            panic!("an answer");
        };
        assert_eq!(answer.message.content, [], "a call without a result is never sent");
    }
}

#[test]
fn max_tokens_sticks_to_the_turn_and_hides_no_result() {
    let mut session = streaming();
    session.answer(finished(FinishKind::MaxTokens, vec![Block::text("x")], &[]));
    session.feed(send("s", Lane::NextStep, false));
    session.answer(Answer::Voted);
    session.until(|q| matches!(q, Question::Stream(..)));
    session.answer(calls((1, 2), FinishKind::ToolCalls, &[Parallel]));
    // The results are read in a third step.
    session.until(|q| matches!(q, Question::Stream(_, 3, _)));
    session.finish();
    assert_eq!(session.end(), "end max-tokens");
}

#[test]
fn calls_are_admitted_in_order_and_run_together() {
    let mut session = tools(&[Parallel, Parallel, Exclusive, Parallel]);
    let call = |n| call_id(1, 1, n);
    let admit_of = |n| Question::Admit(call(n), 1);
    let run_of = |n| Question::Run(call(n), 1);
    assert_eq!(session.questions(), [admit_of(0)]);
    admit(&mut session, 0);
    assert_eq!(session.questions(), [run_of(0), admit_of(1)]);
    admit(&mut session, 1);
    assert_eq!(session.questions(), [run_of(0), run_of(1)], "the exclusive call waits");
    assert_eq!(run(&mut session, 1, ran()), ["result 1.1.1 ok"]);
    assert_eq!(session.questions(), [run_of(0)], "for every one of them");
    run(&mut session, 0, ran());
    assert_eq!(session.questions(), [admit_of(2)]);
    admit(&mut session, 2);
    assert_eq!(session.questions(), [run_of(2)], "nothing beside an exclusive call");
    run(&mut session, 2, ran());
    assert_eq!(session.questions(), [admit_of(3)]);
    admit(&mut session, 3);
    assert_eq!(run(&mut session, 3, ran()), ["result 1.1.3 ok", "step 1 end", "claimed []"]);
}

#[test]
fn no_more_run_at_once_than_the_cap() {
    let mut session = tools(&[Parallel; MAX_PARALLEL_CALLS + 1]);
    for n in 0..MAX_PARALLEL_CALLS as u32 {
        admit(&mut session, n);
    }
    let admits = |s: &Session| s.questions().iter().filter(|q| matches!(q, Question::Admit(..))).count();
    assert_eq!(admits(&session), 0);
    run(&mut session, 4, ran());
    assert_eq!(admits(&session), 1);
}

#[test]
fn a_call_that_may_not_start_has_a_result_and_the_turn_goes_on() {
    let mut session = tools(&[Exclusive, Exclusive]);
    let denied = Answer::Refused(Settled::notice(Outcome::Denied, "not allowed"));
    assert_eq!(session.answer(denied), ["result 1.1.0 denied"]);
    let thrown = Answer::Refused(Settled::error("guard", "hook", "the guard threw"));
    assert_eq!(session.answer(thrown), ["result 1.1.1 error", "step 1 end", "claimed []"]);
    assert_eq!(session.questions(), [Question::PreStep(1, 2)]);
}

#[test]
fn a_tools_contexts_wait_for_the_next_step() {
    let mut session = tools(&[Parallel]);
    session.answer(admitted(EffectClass::Read));
    let concludes = Settled { concludes: true, ..Settled::ok("done") };
    let contexts = vec![Message::user("c1", "look"), Message::user("c2", "too")];
    let facts = session.answer(Answer::Settled { settled: concludes, contexts });
    // Even a tool that says the work is done: its own contexts are read first.
    assert_eq!(facts, ["result 1.1.0 ok", "added c1", "added c2", "step 1 end", "claimed [c1 c2]"]);
}

#[test]
fn a_success_may_conclude_a_failure_may_not() {
    let with = |outcome| {
        let mut session = tools(&[Parallel, Parallel]);
        admit(&mut session, 0);
        admit(&mut session, 1);
        let first = Settled { concludes: true, ..Settled::notice(outcome, "x") };
        run(&mut session, 0, settled(first));
        run(&mut session, 1, ran());
        session.questions()
    };
    assert_eq!(with(Outcome::Ok), [Question::Stopping(1, 1)]);
    assert_eq!(with(Outcome::Error), [Question::PreStep(1, 2)]);
}

#[test]
fn votes() {
    assert_eq!(stopping().answer(Answer::Voted), ["end completed"]);
    assert_eq!(stopping().answer(broken(code::HOOK)), ["end error HOOK"]);
    let mut session = stopping();
    session.feed(send("s", Lane::NextStep, true));
    assert_eq!(session.answer(Answer::Voted), ["claimed [s]"]);
}

#[test]
fn late_and_wrong_answers_change_nothing() {
    let mut session = recovering();
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 0 });
    session.answer(prepared());
    let before = session.log.len();
    for (question, answer, handled) in [
        (Question::Stream(1, 1, 1), text("late"), Handled::Late),
        (Question::Prepare(1, 1, 2), prepared(), Handled::Late),
        (Question::PreStep(1, 1), enter(&[]), Handled::Late),
        (Question::Run(call_id(1, 1, 0), 1), ran(), Handled::Late),
        (Question::Stream(1, 1, 2), ran(), Handled::Refused),
    ] {
        assert_eq!(session.try_feed(Input::Answer(question, answer)), (handled, vec![]));
    }
    let mut session_at_hooks = pre_step();
    let wrong = Input::Answer(Question::PreStep(1, 1), Answer::Voted);
    assert_eq!(session_at_hooks.try_feed(wrong), (Handled::Refused, vec![]));
    assert_eq!(session.log.len(), before);
}

#[test]
fn records_are_taken_in_until_only_closers_may_follow() {
    let record = || {
        Input::Record(Record::Seam(SeamChanged { seam: "s".into(), plugin: "p".into(), what: "w".into() }))
    };
    let mut session = tools(&[Parallel]);
    session.answer(admitted(EffectClass::Unsafe));
    assert_eq!(session.feed(record()), ["seam p w"]);
    let mut dead = Session::reopened(&session.log);
    assert_eq!(dead.try_feed(record()), (Handled::Refused, vec![]));
    session.cancel(crate::harness::user());
    assert_eq!(session.try_feed(record()), (Handled::Refused, vec![]));
    session.finish();
    assert_eq!(session.feed(record()), ["seam p w"]);
}

#[test]
fn consent_is_recorded_only_of_the_call_that_is_judged() {
    let asked =
        |call| Input::Record(Record::Asked(ApprovalAsked { call, what: "w".into(), choices: vec![] }));
    let decided = |call| {
        Input::Record(Record::Decided(ApprovalDecided { call, decision: "allow".into(), by: "me".into() }))
    };
    let (first, second) = (call_id(1, 1, 0), call_id(1, 1, 1));
    let mut session = tools(&[Parallel, Parallel]);
    for input in [asked(second), decided(second)] {
        assert_eq!(session.try_feed(input), (Handled::Refused, vec![]), "it is not its turn");
    }
    assert_eq!((session.feed(asked(first)).len(), session.feed(decided(first)).len()), (1, 1));
    session.answer(admitted(EffectClass::Unsafe));
    assert_eq!(session.try_feed(decided(first)), (Handled::Refused, vec![]), "it started");
    assert_eq!(session.feed(asked(second)).len(), 1);
}

#[test]
fn the_failure_of_a_turn_is_the_one_that_was_given_up_on() {
    let mut session = recovering();
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 0 });
    session.answer(prepared());
    let usage = Some(crate::samples::usage(5, 0));
    session.answer(Answer::Failed { failure: Failure::new(code::QUOTA, "no credit"), usage });
    assert_eq!(session.answer(Answer::GiveUp), ["step 1 end", "end error QUOTA"]);
}
