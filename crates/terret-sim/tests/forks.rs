//! Some forks of a long session with every `cargo test`; `cargo xtask forks` makes one at every event.
#![allow(clippy::unwrap_used, missing_docs)]

use terret_sim::forks::Parent;

/// Events between two forks.
const EVERY: usize = 67;

#[test]
fn a_session_with_everything_in_it_can_be_forked_wherever() {
    let parent = Parent::live().unwrap();
    let log = String::from_utf8(parent.log().to_vec()).unwrap();
    for what in ["tool/call", "request/retry", "turn/cancel", "inbox/removed", "assistant/message"] {
        assert!(log.matches(&format!(r#""type":"{what}""#)).count() > 5, "{what}");
    }
    assert!(log.contains(r#""replaces":"#) && log.contains(r#""interrupted":true"#));
    assert_eq!(Parent::live().unwrap().log(), parent.log(), "it is the same every time");
    for at in (0..parent.events()).step_by(EVERY).chain([parent.events() - 1]) {
        parent.fork(at).unwrap_or_else(|what| panic!("cargo xtask forks --seq {at}: {what}"));
    }
    assert!(parent.fork(parent.events()).is_err(), "there is no event to fork it at");
}
