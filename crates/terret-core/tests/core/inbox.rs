//! Arming, draining, parking, holding.

use terret_core::fact::{Lane, Removal};
use terret_core::input::{Answer, Input, Send};
use terret_core::machine::Handled;
use terret_core::message::Message;

use crate::harness::{Session, broken, close, enter, reject, resume, send, user};

fn queued(ids: &[&str]) -> Session {
    let mut session = Session::new();
    for id in ids {
        session.send(id);
    }
    session
}

fn release(ids: &[&str]) -> Input {
    Input::Release { msgs: ids.iter().map(|id| (*id).into()).collect() }
}

#[test]
fn context_alone_opens_no_turn() {
    let mut session = Session::new();
    assert_eq!(session.feed(send("c", Lane::NextStep, false)), ["added c"]);
    assert_eq!(session.feed(send("d", Lane::NextTurn, false)), ["added d"]);
    session.assert_at_rest();
    assert_eq!(session.feed(send("s", Lane::NextStep, true))[1..], ["turn 1", "claimed [c s d]"]);
}

#[test]
fn turns_that_are_done_drain_on() {
    let mut session = queued(&["m1", "m2", "m3", "m4"]);
    assert_eq!(session.answer(enter(&[])), ["end completed", "turn 2", "claimed [m2]"]);
    assert_eq!(session.answer(reject(false)), ["end blocked gate", "turn 3", "claimed [m3]"]);
    session.finish();
    session.assert_at_rest();
    assert_eq!(session.pending(), [""; 0]);
}

#[test]
fn turns_that_failed_park_the_queue_until_a_wake() {
    let mut session = queued(&["m1", "m2"]);
    assert_eq!(session.answer(reject(true)), ["returned [m1] held", "end blocked gate"]);
    assert_eq!(session.pending(), ["m1 held", "m2"]);
    session.assert_at_rest();
    // Context does not wake, a wake drains everything parked in order.
    session.feed(send("c", Lane::NextStep, false));
    session.assert_at_rest();
    assert_eq!(session.send("m3")[1..], ["turn 2", "claimed [c m2]"]);
    assert_eq!(session.answer(broken("HOOK")), ["returned [c m2]", "end error HOOK"]);
    assert_eq!(session.pending(), ["c", "m2", "m1 held", "m3"]);
    session.assert_at_rest();
}

#[test]
fn cancel_parks_what_was_there_and_obeys_what_came_after() {
    let mut session = queued(&["m1", "m2"]);
    let facts = session.cancel(user());
    assert_eq!(facts, ["cancel user", "returned [m1] held", "end aborted user"]);
    assert_eq!(session.pending(), ["m1 held", "m2"]);
    session.assert_at_rest();

    let mut session = queued(&["m1"]);
    session.until(|q| matches!(q, terret_core::effect::Question::Stream(..)));
    session.answer(crate::harness::calls(
        (1, 1),
        terret_core::chunk::FinishKind::ToolCalls,
        &[terret_core::fact::CallMode::Parallel],
    ));
    session.until(|q| matches!(q, terret_core::effect::Question::Run(..)));
    session.send("m2");
    session.cancel(user());
    let mut latched = session.clone();
    assert_eq!(session.answer(crate::harness::ran()), ["result 1.1.0 ok", "step 1 end", "end aborted user"]);
    session.assert_at_rest();
    // A wake while the cancel converges goes to the next turn, and there is one.
    assert_eq!(latched.feed(send("m3", Lane::NextStep, true)), ["added m3"]);
    latched.feed(send("c", Lane::NextStep, false));
    // So it is with a release.
    let mut released = session.clone();
    released.log.truncate(released.log.len() - 3);
    let mut released = Session::refolded(&released.log);
    released.feed(release(&["m2"]));
    assert_eq!(released.answer(crate::harness::ran())[3..], ["turn 2", "claimed [m2]"]);
    let facts = latched.answer(crate::harness::ran());
    assert_eq!(facts[2..], ["end aborted user", "turn 2", "claimed [c m2]"]);
}

#[test]
fn a_new_writer_parks_even_what_was_sent_after_the_cancel() {
    let mut session = queued(&["m1"]);
    session.until(|q| matches!(q, terret_core::effect::Question::Stream(..)));
    session.answer(crate::harness::calls(
        (1, 1),
        terret_core::chunk::FinishKind::ToolCalls,
        &[terret_core::fact::CallMode::Parallel],
    ));
    session.until(|q| matches!(q, terret_core::effect::Question::Run(..)));
    session.cancel(user());
    session.send("m2");
    let mut session = Session::reopened(&session.log);
    assert_eq!(session.feed(close()), ["result 1.1.0 unknown", "step 1 end", "end aborted user"]);
    session.assert_at_rest();
    assert_eq!(session.send("m3")[1..], ["turn 2", "claimed [m2]"]);
}

#[test]
fn without_an_open_turn_opening_parks() {
    let mut session = Session::new();
    session.send("m1");
    session.send("m2");
    // Torn between the end of the first turn and the start of the second.
    session.answer(enter(&[]));
    session.log.truncate(session.log.len() - 2);
    let mut session = Session::reopened(&session.log);
    assert!(!session.machine.suspended());
    session.assert_at_rest();
    assert_eq!(session.try_feed(close()), (Handled::Late, vec![]));
    assert_eq!(session.send("m3")[1..], ["turn 2", "claimed [m2]"]);
}

#[test]
fn held_messages_are_passed_over_until_named() {
    let mut session = queued(&["m1", "m2"]);
    session.answer(reject(true));
    // Released by name, and that is a wake.
    assert_eq!(session.clone().feed(release(&["m1"]))[1..], ["turn 2", "claimed [m1]"]);
    // Any release wakes what else is parked.
    assert_eq!(session.clone().feed(release(&["m2"]))[1..], ["turn 2", "claimed [m2]"]);
    // Edited by name.
    let message = Message::user("m9", "better");
    let edit = Send { message, lane: Lane::NextTurn, wake: true, replaces: Some("m1".into()) };
    assert_eq!(session.clone().feed(Input::Send(edit))[1..], ["turn 2", "claimed [m9]"]);
    // Removed by name.
    let remove = Input::Remove { msgs: vec!["m1".into(), "gone".into()], why: Removal::Canceled };
    assert_eq!(session.feed(remove.clone()), ["removed m1"]);
    assert_eq!(session.try_feed(remove), (Handled::Late, vec![]));
    assert_eq!(session.try_feed(release(&["m1"])), (Handled::Late, vec![]));
    session.assert_at_rest();
}

#[test]
fn held_context_does_not_open_another_step() {
    let mut session = queued(&["m1"]);
    session.feed(send("s", Lane::NextStep, false));
    session.until(|q| matches!(q, terret_core::effect::Question::PreStep(_, 2)));
    session.answer(reject(true));
    assert_eq!(session.pending(), ["s held"]);
    session.send("m2");
    assert_eq!(session.questions(), [terret_core::effect::Question::PreStep(2, 1)]);
    session.until(|q| matches!(q, terret_core::effect::Question::Stream(..)));
    session.answer(crate::harness::text("done"));
    assert_eq!(session.questions(), [terret_core::effect::Question::Stopping(2, 1)]);
    session.finish();
    assert_eq!(session.pending(), ["s held"]);
}

#[test]
fn a_message_that_is_claimed_already_cannot_be_replaced() {
    let mut session = queued(&["m1", "m2"]);
    let message = Message::user("m3", "new");
    let edit = Send { message, lane: Lane::NextTurn, wake: true, replaces: Some("m1".into()) };
    assert_eq!(session.try_feed(Input::Send(edit)), (Handled::Refused, vec![]));
    assert_eq!(session.pending(), ["m2"]);
}

#[test]
fn blocked_drains_on_after_a_return_of_an_earlier_life() {
    let mut session = queued(&["m1", "m2"]);
    session = Session::reopened(&session.log);
    assert_eq!(session.feed(resume()), ["returned [m1]", "claimed [m1]"]);
    session.send("m3");
    assert_eq!(session.answer(reject(false)), ["end blocked gate", "turn 2", "claimed [m2]"]);
}

#[test]
fn removing_and_cancelling_are_two_requests() {
    let mut session = queued(&["m1", "m2"]);
    session.cancel(terret_core::fact::Cause::Disposed);
    assert_eq!(session.pending(), ["m1", "m2"]);
    assert_eq!(session.try_feed(Input::Cancel { cause: user() }), (Handled::Late, vec![]));
    assert_eq!(session.send("m3")[1..], ["turn 2", "claimed [m1]"]);
    assert_eq!(session.answer(Answer::Enter(vec![]))[0], "end completed");
}

#[test]
fn a_tools_context_starts_no_turn() {
    let mut session = queued(&["m1"]);
    session.until(|q| matches!(q, terret_core::effect::Question::Stream(..)));
    let modes = [terret_core::fact::CallMode::Parallel; 2];
    session.answer(crate::harness::calls((1, 1), terret_core::chunk::FinishKind::ToolCalls, &modes));
    session.until(|q| matches!(q, terret_core::effect::Question::Run(..)));
    session.cancel(user());
    let settled = terret_core::input::Settled::ok("ran");
    let contexts = vec![Message::user("c", "context")];
    session.answer(Answer::Settled { settled, contexts });
    session.assert_at_rest();
    assert_eq!(session.pending(), ["c"]);
}
