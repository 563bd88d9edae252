//! Projections: what the log amounts to for its readers.

use std::sync::Arc;

use terret_core::chunk::{Chunk, FinishKind};
use terret_core::digest::{RequestDigest, header_digest, message_digest};
use terret_core::effect::Question;
use terret_core::fact::{CallMode, EffectClass, EndReason, Fact, StepStart, SurfaceReplaced, UserMessage};
use terret_core::id::Digest;
use terret_core::input::{Answer, Input, Settled};
use terret_core::line::Event;
use terret_core::message::{Block, BlockKind, Form, Message, Role, Source};
use terret_core::project::{Brackets, Messages, OpenTurn, Request, TurnSummary, Turns};

use crate::harness::{
    Session, admitted, calls, close, enter, failed, prepared, reject, resume, settled, text,
};
use crate::samples::{call_id, header, usage};

fn messages(log: &[Event]) -> Messages {
    let mut messages = Messages::default();
    log.iter().for_each(|event| messages.fold(event));
    messages
}

fn ids(messages: &Messages) -> Vec<String> {
    messages.list().iter().map(|p| p.message.id.to_string()).collect()
}

fn event(seq: u64, fact: Fact) -> Event {
    Event { seq, time: 0, fact }
}

fn streaming() -> Session {
    let mut session = Session::new();
    session.send("m1");
    session.until(|q| matches!(q, Question::Stream(..)));
    session
}

/// A turn whose three calls settle in this order.
fn tool_round(order: [u32; 3]) -> Session {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[CallMode::Parallel; 3]));
    for n in 0..3 {
        session.feed(Input::Answer(Question::Admit(call_id(1, 1, n), 1), admitted(EffectClass::Read)));
    }
    for n in order {
        let question = Question::Run(call_id(1, 1, n), 1);
        session.feed(Input::Answer(question, settled(Settled::ok(format!("r{n}")))));
    }
    session
}

fn summary(id: &str) -> Message {
    let source = Source::Plugin { plugin: "compact".into(), form: Form::Notice };
    Message { id: id.into(), role: Role::User, content: vec![Block::text("so far")], source }
}

#[test]
fn a_turn_that_any_of_its_calls_concludes_has_nothing_left_to_read() {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[CallMode::Parallel; 2]));
    for n in 0..2 {
        session.feed(Input::Answer(Question::Admit(call_id(1, 1, n), 1), admitted(EffectClass::Read)));
    }
    for n in 0..2 {
        let ended = Settled { concludes: n == 0, ..Settled::ok("done") };
        session.feed(Input::Answer(Question::Run(call_id(1, 1, n), 1), settled(ended)));
    }
    session.answer(Answer::Voted);
    let mut brackets = Brackets::default();
    session.log.iter().for_each(|event| brackets.fold(event));
    assert_eq!((brackets.open_turn(), brackets.faults()), (None, &[][..]));
}

#[test]
fn results_come_in_the_order_of_the_calls() {
    let expected = ["m1", "answer", "result-1.1.0", "result-1.1.1", "result-1.1.2"];
    let mut digests = Vec::new();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let messages = messages(&tool_round(order).log);
        assert_eq!(ids(&messages), expected);
        digests.push(messages.list().iter().map(|p| p.digest).collect::<Vec<_>>());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "the order of settling changes no byte of a request");
}

#[test]
fn results_wait_for_the_end_of_their_step() {
    let log = tool_round([0, 1, 2]).log;
    let before = log.iter().position(|e| matches!(e.fact, Fact::StepEnd(_))).unwrap();
    assert_eq!(ids(&messages(&log[..before])), ["m1", "answer"]);
}

#[test]
fn only_success_is_no_error() {
    let mut session = streaming();
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[CallMode::Exclusive]));
    session.answer(Answer::Refused(Settled::notice(terret_core::fact::Outcome::Denied, "no")));
    let messages = messages(&session.log);
    let block = &messages.list().last().unwrap().message.content[0];
    assert!(matches!(block, Block::ToolResult { is_error: true, .. }));
}

#[test]
fn messages_of_a_step_that_was_not_wholly_admitted_stay_out() {
    let start = |step, admits| Fact::StepStart(StepStart { turn: 1, step, admits });
    let user =
        |step, id: &str| Fact::UserMessage(UserMessage { turn: 1, step, message: Message::user(id, "text") });
    let facts = [start(1, 2), user(1, "a"), start(2, 2), user(2, "a"), user(2, "b"), start(3, 0)];
    let log: Vec<_> = facts.into_iter().zip(0..).map(|(fact, seq)| event(seq, fact)).collect();
    assert_eq!(ids(&messages(&log[..2])), [""; 0]);
    assert_eq!(ids(&messages(&log[..4])), [""; 0]);
    assert_eq!(ids(&messages(&log)), ["a", "b"]);

    // The same through the machine: returned, claimed again, seen once.
    let mut session = Session::new();
    session.send("m1");
    session.answer(enter(&["x", "m1"]));
    session.log.pop();
    let mut session = Session::reopened(&session.log);
    session.feed(resume());
    session.finish();
    assert_eq!(ids(&messages(&session.log)), ["m1", "answer"]);
}

#[test]
fn a_failed_attempt_and_an_empty_answer_leave_nothing() {
    let mut session = streaming();
    session.answer(crate::harness::said("partial"));
    session.answer(failed("SERVER"));
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 0 });
    session.answer(prepared());
    session.answer(crate::harness::finished(FinishKind::Stop, vec![], &[]));
    assert_eq!(ids(&messages(&session.log)), ["m1"]);
}

#[test]
fn cut_text_stays_in_the_conversation() {
    let mut session = streaming();
    session.answer(crate::harness::said("partial"));
    let mut session = Session::reopened(&session.log);
    session.feed(close());
    let messages = messages(&session.log);
    assert_eq!(messages.list().last().unwrap().message.text(), "partial");
    assert_eq!(ids(&messages), ["m1", "answer-1.1.1"]);
}

fn open_turn(log: &[Event]) -> OpenTurn {
    let mut open = OpenTurn::default();
    log.iter().for_each(|event| open.fold(event));
    open
}

#[test]
fn an_answer_names_the_chunks_of_its_own_attempt() {
    let mut session = streaming();
    session.answer(crate::harness::said("one"));
    session.answer(failed("SERVER"));
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 0 });
    session.answer(prepared());
    session.answer(crate::harness::said("two"));
    session.feed(crate::harness::send("m2", terret_core::fact::Lane::NextTurn, true));
    let call = vec![
        Chunk::BlockStart { index: 1, block_type: BlockKind::ToolCall, id: None, name: Some("read".into()) },
        Chunk::BlockStart { index: 2, block_type: BlockKind::ToolCall, id: None, name: Some("write".into()) },
    ];
    session.answer(Answer::Chunks(call));
    let mode = |name: &str, arguments: &str| match (name, arguments) {
        ("read", "{}") => CallMode::Parallel,
        _ => CallMode::Exclusive,
    };
    assert!(open_turn(&session.log).finished(mode).is_none(), "no finish, no answer");

    let mut cut = session.clone();
    cut.cancel(crate::harness::user());
    let first = session.log.iter().rposition(|e| matches!(e.fact, Fact::InboxAdded(_))).unwrap() as u64;
    let ranges = [[first - 2, first - 1], [first + 1, first + 2]];
    let interrupted = cut.log.iter().find_map(|e| match &e.fact {
        Fact::AssistantMessage(answer) => Some(answer.clone()),
        _ => None,
    });
    let interrupted = interrupted.unwrap();
    assert_eq!((interrupted.message.text().as_str(), interrupted.sources.as_slice()), ("two", &ranges[..]));

    let last = Chunk::Finish { reason: FinishKind::ToolCalls, raw: "tool_calls".into() };
    session.answer(Answer::Chunks(vec![last]));
    let done = open_turn(&session.log).finished(mode).unwrap();
    assert_eq!(done.sources, [ranges[0], [first + 1, first + 3]]);
    let calls: Vec<_> = done.calls.iter().map(|c| (c.call, c.name.as_str(), c.mode)).collect();
    let expected =
        [(call_id(1, 1, 0), "read", CallMode::Parallel), (call_id(1, 1, 1), "write", CallMode::Exclusive)];
    assert_eq!(calls, expected);
    assert_eq!(&*done.message.id.0, "answer-1.1.2");
    session.answer(Answer::Finished(Box::new(done)));
    assert_eq!(open_turn(&session.log).call(call_id(1, 1, 1)), Some(("write", "{}")));
}

#[test]
fn a_replaced_range_is_one_message() {
    let mut session = tool_round([2, 1, 0]);
    session.finish();
    session.send("m2");
    session.finish();
    let mut folded = messages(&session.log);
    let list: Vec<u64> = folded.list().iter().map(|p| p.seq).collect();
    let replace = |first, last, id: &str| {
        let range = [first, last];
        Fact::SurfaceReplaced(SurfaceReplaced { range, message: summary(id), by: "compact".into() })
    };
    // First message of the first step to the last of its results; results are not in the order of seqs.
    let last = *list[..5].iter().max().unwrap();
    folded.fold(&event(1000, replace(list[0], last, "c1")));
    assert_eq!(ids(&folded), ["c1", "answer", "m2", "answer"]);
    assert_eq!(folded.rewrites(), 1);
    // A later one may take the first in.
    folded.fold(&event(1001, replace(list[0], list[5], "c2")));
    assert_eq!(ids(&folded), ["c2", "m2", "answer"]);
    // Nothing there: nothing happens.
    folded.fold(&event(1002, replace(2000, 2001, "c3")));
    assert_eq!((ids(&folded).len(), folded.rewrites()), (3, 2));
}

#[test]
fn only_whole_closed_steps_may_be_replaced() {
    let mut session = tool_round([2, 1, 0]);
    session.finish();
    let folded = messages(&session.log);
    let list: Vec<u64> = folded.list().iter().map(|p| p.seq).collect();
    let may = |first, last| {
        let (range, by) = ([first, last], "compact".to_owned());
        folded.may_replace(&SurfaceReplaced { range, message: summary("c"), by })
    };
    let (first, answer) = (list[0], *list.last().unwrap());
    let results = *list[..5].iter().max().unwrap();
    assert_eq!((may(first, results), may(answer, answer), may(first, answer)), (Ok(()), Ok(()), Ok(())));
    // Every cut through the batch, from either side.
    for seq in first..results {
        assert!(may(first, seq).is_err() && may(seq + 1, answer).is_err(), "cut at {seq}");
    }
    assert!(may(first, results + 1).is_err(), "that is no message");
    assert!(may(answer, first).is_err(), "the wrong way round");
    let calls = folded.list()[1].message.as_ref().clone();
    let calls = SurfaceReplaced { range: [first, results], message: calls, by: "compact".into() };
    assert!(folded.may_replace(&calls).is_err(), "its calls would have no results");
    let blank = Message { content: vec![Block::text(" \n")], ..summary("c") };
    let blank = SurfaceReplaced { range: [first, results], message: blank, by: "compact".into() };
    assert!(folded.may_replace(&blank).is_err(), "it says nothing");
    let open = session.log.iter().rposition(|e| matches!(e.fact, Fact::StepEnd(_))).unwrap();
    let open = messages(&session.log[..open]);
    let reaches = SurfaceReplaced { range: [answer, answer], message: summary("c"), by: "compact".into() };
    assert!(open.may_replace(&reaches).is_err(), "its step is open");
}

fn from_scratch(messages: &Messages) -> Digest {
    let mut digest = RequestDigest::new(&header());
    messages.list().iter().for_each(|p| digest.push(message_digest(&p.message)));
    digest.value()
}

#[test]
fn a_digest_kept_up_is_a_digest_made_from_scratch() {
    let mut log = tool_round([1, 2, 0]);
    log.finish().send("m2");
    log.finish();
    let mut log = log.log;
    let first = messages(&log).list()[0].seq;
    let range = [first, first];
    let replaced = SurfaceReplaced { range, message: summary("c1"), by: "compact".into() };
    log.push(event(log.len() as u64, Fact::SurfaceReplaced(replaced)));
    let message = UserMessage { turn: 9, step: 1, message: Message::user("m3", "after") };
    log.push(event(log.len() as u64, Fact::StepStart(StepStart { turn: 9, step: 1, admits: 1 })));
    log.push(event(log.len() as u64, Fact::UserMessage(message)));

    let same = Arc::new(header());
    let mut other = header();
    other.model = "n".into();
    let other = Arc::new(other);
    let (mut request, mut scratch) = (Request::default(), Messages::default());
    for event in &log {
        request.fold(event);
        scratch.fold(event);
        assert_eq!(request.digest(&same), from_scratch(&scratch), "{event:?}");
        // Another header in between spoils nothing, and an equal one elsewhere is the same.
        if event.seq % 3 == 0 {
            assert_ne!(request.digest(&other), request.digest(&Arc::new(header())));
        }
    }
    assert_eq!(request.header(), Some(&same));
    assert_eq!(request.context().unwrap().model, "m");
}

#[test]
fn digests_are_frozen() {
    assert_eq!(header_digest(&header()).to_string(), HEADER);
    assert_eq!(message_digest(&Message::user("m1", "Hello")).to_string(), MESSAGE);
    let mut digest = RequestDigest::new(&header());
    assert_eq!(digest.value().to_string(), EMPTY);
    digest.push(message_digest(&Message::user("m1", "Hello")));
    assert_eq!(digest.value().to_string(), REQUEST);
}

const HEADER: &str = "2d50d84f8fa35e6f2d819da18f5e3781cb93907390ffe49b4baaa799e4423d38";
const MESSAGE: &str = "a31ba1d7cb6736ff668d281b78702cc9ffd2c7736343d61bc845f4fc7d6f1c3c";
const EMPTY: &str = "ebdff913f99e83fbb6f9f591f3a28345bfa1326a8413fbf20f771d8eaab8c774";
const REQUEST: &str = "91f3451baf9270d4a46339291561f22fe733d25387f4087d63bf1b4a784ffd09";

#[test]
fn turns_are_summed_up() {
    let mut session = Session::new();
    session.send("m1");
    session.send("m2");
    session.until(|q| matches!(q, Question::Stream(..)));
    session.answer(Answer::Failed {
        failure: terret_core::chunk::Failure::new("SERVER", "x"),
        usage: Some(usage(5, 0)),
    });
    session.answer(Answer::Retry { by: "retry".into(), delay_ms: 0 });
    session.answer(prepared());
    session.answer(calls((1, 1), FinishKind::ToolCalls, &[CallMode::Parallel, CallMode::Parallel]));
    session.until(|q| matches!(q, Question::Stream(_, 2, _)));
    let Answer::Finished(mut last) = text("done") else { panic!() };
    last.usage = Some(usage(7, 2));
    session.answer(Answer::Finished(last));
    session.answer(Answer::Voted);
    session.answer(reject(true));

    let mut turns = Turns::default();
    let ended: Vec<TurnSummary> = session.log.iter().filter_map(|event| turns.fold(event)).collect();
    assert!(turns.open().is_none());
    let place =
        |word: &str| session.log.iter().position(|e| crate::harness::short(&e.fact) == word).unwrap() as u64;
    let first = TurnSummary {
        turn: 1,
        start: place("turn 1"),
        end: Some(place("end completed")),
        reason: Some(EndReason::Completed),
        steps: 2,
        attempts: 3,
        calls: 2,
        usage: Some(usage(12, 2)),
        text: "done".into(),
        claimed: vec!["m1".into()],
    };
    assert_eq!(ended[0], first);
    let second = &ended[1];
    assert_eq!((second.turn, second.steps, second.attempts, &second.usage), (2, 0, 0, &None));
    assert_eq!(second.claimed, [], "given back");
    assert!(matches!(second.reason, Some(EndReason::Blocked { .. })));
}

#[test]
fn counts_of_a_hostile_log_stop_at_the_top() {
    let mut sum = usage(u64::MAX, u64::MAX);
    sum.cache_read_tokens = Some(u64::MAX);
    let other = sum.clone();
    sum.add(&other);
    assert_eq!((sum.input_tokens, sum.cache_read_tokens, sum.total()), (u64::MAX, Some(u64::MAX), u64::MAX));
}
