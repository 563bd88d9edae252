//! Whatever order the results of a step come in, and wherever a steer falls between them: the next request is one.

use terret_core::effect::Question;
use terret_core::fact::{CallMode, EffectClass, Lane};
use terret_core::id::{CallId, Digest};
use terret_core::input::{Answer, Input, Settled};
use terret_core::message::Message;
use terret_core::project::Messages;

use crate::harness::{Session, admitted, calls, enter, prepared, send};
use terret_core::chunk::FinishKind;

/// Every order of `0..n`.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(n - 1);
    let longer = |order: &Vec<usize>| {
        (0..n).map(|at| [&order[..at], &[n - 1], &order[at..]].concat()).collect::<Vec<_>>()
    };
    shorter.iter().flat_map(longer).collect()
}

fn call(ordinal: usize) -> CallId {
    CallId { turn: 1, step: 1, ordinal: ordinal as u32 }
}

/// A turn whose first step runs `n` calls side by side, up to where all of them run.
fn running(n: usize) -> Session {
    let mut session = Session::new();
    session.send("prompt");
    session.answer(enter(&["prompt"]));
    session.answer(prepared());
    session.answer(calls((1, 1), FinishKind::ToolCalls, &vec![CallMode::Parallel; n]));
    for ordinal in 0..n {
        session.feed(Input::Answer(Question::Admit(call(ordinal), 1), admitted(EffectClass::Read)));
    }
    session
}

fn settles(session: &mut Session, ordinal: usize) {
    let settled = Settled::ok(format!("result {ordinal}"));
    let answer = Answer::Settled { settled, contexts: Vec::new() };
    session.feed(Input::Answer(Question::Run(call(ordinal), 1), answer));
}

/// The conversation the next request carries.
fn conversation(session: &mut Session) -> Vec<(Message, Digest)> {
    let batch: Vec<String> = match &session.effects()[..] {
        [terret_core::effect::Effect::PreStep { batch, .. }] => {
            batch.iter().map(|id| id.to_string()).collect()
        }
        other => panic!("no step follows: {other:?}"),
    };
    session.answer(enter(&batch.iter().map(String::as_str).collect::<Vec<_>>()));
    let mut messages = Messages::default();
    session.log.iter().for_each(|event| messages.fold(event));
    messages.list().iter().map(|p| ((*p.message).clone(), p.digest)).collect()
}

#[test]
fn any_order_of_results_gives_the_same_next_request() {
    for n in 1..=5 {
        let mut requests = orders(n).into_iter().map(|order| {
            let mut session = running(n);
            order.iter().for_each(|ordinal| settles(&mut session, *ordinal));
            (order, conversation(&mut session))
        });
        let (_, first) = requests.next().expect("an order");
        assert_eq!(first.len(), 2 + n, "a prompt, an answer, {n} results");
        for (order, request) in requests {
            assert_eq!(request, first, "{order:?}");
        }
    }
}

#[test]
fn a_steer_between_results_comes_after_all_of_them() {
    let n = 4;
    for order in orders(n) {
        let mut requests = (0..n).map(|place| {
            let mut session = running(n);
            for (at, ordinal) in order.iter().enumerate() {
                if at == place {
                    session.feed(send("steer", Lane::NextStep, true));
                }
                settles(&mut session, *ordinal);
            }
            conversation(&mut session)
        });
        let first = requests.next().expect("a place");
        let last = first.last().map(|(message, _)| message.id.to_string());
        assert_eq!(last.as_deref(), Some("steer"));
        // Behind the last result the claim is made already: what comes then waits for the step after.
        for (place, request) in requests.enumerate() {
            assert_eq!(request, first, "{order:?}, {}", place + 1);
        }
    }
}
