//! Opening passes over the pieces of whole answers, and takes the others in.

use std::io::Cursor;

use terret::core::chunk::{Chunk, Failure};
use terret::core::fact::{AssistantChunk, Fact, Next, RequestAttempt, RequestFailed, StepStart, TurnStart};
use terret::core::id::Digest;
use terret::core::line::{Event, Line, LineError, Tip};
use terret::error::Error;
use terret::inspect;
use terret::limits::MAX_HELD_BYTES;
use terret::store::{Bad, Scan, Store};

use crate::support::{Home, ID, assert_damaged, header, lines, whole_log};

/// A log of one step: this many pieces in an attempt that failed, and in one that is open.
fn log(failed: usize, open: usize, text: &str) -> Vec<u8> {
    let mut facts = vec![
        Fact::TurnStart(TurnStart { turn: 1 }),
        Fact::StepStart(StepStart { turn: 1, step: 1, admits: 0 }),
        attempt(1),
    ];
    facts.extend((0..failed).map(|_| piece(1, text)));
    let failure = Failure::new("SERVER_ERROR", "no");
    facts.push(Fact::RequestFailed(RequestFailed {
        turn: 1,
        step: 1,
        attempt: 1,
        failure,
        next: Next::Retry,
        usage: None,
    }));
    facts.push(attempt(2));
    facts.extend((0..open).map(|_| piece(2, text)));
    let (mut log, mut tip) = (header().to_line().unwrap(), Tip::default());
    for fact in &facts {
        tip.encode(&mut log, 1, fact, None).unwrap();
    }
    log
}

fn attempt(attempt: u32) -> Fact {
    let digest = Digest::of(b"");
    let (wire, wire_digest, bytes) = (None, None, None);
    Fact::RequestAttempt(RequestAttempt { turn: 1, step: 1, attempt, digest, wire, wire_digest, bytes })
}

fn piece(attempt: u32, text: &str) -> Fact {
    let chunk = Chunk::TextDelta { index: 0, text: text.into() };
    Fact::AssistantChunk(AssistantChunk { turn: 1, step: 1, attempt, chunk })
}

/// The same log with another payload in one of its lines, every checksum and chain value right.
fn with_payload(log: &[u8], at: usize, data: &str) -> Vec<u8> {
    changed(log, at, |body| format!(r#"{},"data":{data}"#, &body[..body.find(r#","data":"#).unwrap()]))
}

/// The same log with one line changed, every checksum and chain value right.
fn changed(log: &[u8], at: usize, change: impl Fn(&str) -> String) -> Vec<u8> {
    let all = lines(log);
    let line = std::str::from_utf8(all[at]).unwrap();
    let mut out = all[..at].concat();
    out.extend_from_slice(sealed(&change(&line[..line.rfind(r#","crc""#).unwrap()])).as_bytes());
    let mut tip = Tip::default();
    for line in &lines(&out)[1..] {
        tip.check(&line[..line.len() - 1]).unwrap();
    }
    // What stands behind it may carry a chain value: it is written again.
    for line in &all[at + 1..] {
        let event = Line::parse(&line[..line.len() - 1]).unwrap().event().unwrap();
        tip.encode(&mut out, event.time, &event.fact, None).unwrap();
    }
    out
}

/// A line from everything before its checksum.
fn sealed(body: &str) -> String {
    format!("{body},\"crc\":\"{:08x}\"}}\n", crc32c::crc32c(body.as_bytes()))
}

/// What a writer is handed, and the first bad line.
fn folded(log: &[u8]) -> (Vec<Event>, Option<Bad>) {
    let mut events = Vec::new();
    let mut scan = Scan::new(Cursor::new(log), "log".as_ref()).unwrap();
    let bad = scan.fold(&mut |event| events.push(event.clone())).unwrap();
    (events, bad)
}

fn pieces(events: &[Event]) -> Vec<u32> {
    let attempt = |event: &Event| match &event.fact {
        Fact::AssistantChunk(piece) => Some(piece.attempt),
        _ => None,
    };
    events.iter().filter_map(attempt).collect()
}

#[tokio::test]
async fn the_pieces_of_whole_answers_are_passed_over() {
    let (events, bad) = folded(&log(3, 2, "words"));
    assert!(bad.is_none());
    assert_eq!(pieces(&events), [2, 2]);
    assert_eq!(events.len(), 5 + 2);
    let whole = whole_log().await;
    let (events, _) = folded(&whole);
    assert_eq!(pieces(&events), Vec::<u32>::new());
    assert!(events.len() < lines(&whole).len() - 1, "the log has pieces");
    // An attempt that nothing closed is over when the next begins.
    let mut log = log(0, 2, "words");
    let mut tip = Tip::default();
    lines(&log)[1..].iter().for_each(|line| drop(tip.check(&line[..line.len() - 1]).unwrap()));
    tip.encode(&mut log, 1, &attempt(3), None).unwrap();
    assert_eq!(pieces(&folded(&log).0), Vec::<u32>::new());
}

#[test]
fn a_wrong_payload_in_an_attempt_that_failed_is_for_verify_to_find() {
    let log = with_payload(&log(3, 2, "words"), 5, r#"{"turn":"one"}"#);
    let home = Home::with(&log);
    home.open().unwrap();
    let bad = inspect::verify(&home.log()).unwrap().bad.unwrap();
    assert_eq!((bad.seq, bad.line, matches!(bad.cause, LineError::Form(_))), (4, 6, true));
}

#[test]
fn a_wrong_payload_in_the_open_attempt_is_damage_to_all() {
    let whole = log(3, 3, "words");
    let last = lines(&whole).len() - 1;
    for at in [last - 1, last] {
        let log = with_payload(&whole, at, r#"{"turn":"one"}"#);
        let home = Home::with(&log);
        assert_damaged(&home, at as u64 - 1, "a payload of another type");
        let Err(Error::Damaged { line, offset, .. }) = home.store.open(ID, &mut |_| {}) else {
            panic!("it opened");
        };
        let before: usize = lines(&log)[..at].iter().map(|line| line.len()).sum();
        assert_eq!((line, offset), (at as u64 + 1, before as u64));
    }
}

#[test]
fn the_first_bad_line_is_named_though_a_later_one_was_seen_before() {
    let whole = log(0, 3, "words");
    let last = lines(&whole).len() - 1;
    let mut log = with_payload(&whole, last - 1, r#"{"turn":"one"}"#);
    log.truncate(log.len() - 10);
    assert_damaged(&Home::with(&log), last as u64 - 2, "with a torn line behind it");
}

#[test]
fn a_piece_of_a_newer_version_is_not_passed_over() {
    let newer = |body: &str| body.replacen(r#","data":"#, r#","v":2,"data":"#, 1);
    let log = changed(&log(3, 0, "words"), 5, newer);
    let bad = folded(&log).1.unwrap();
    assert_eq!(bad.cause, LineError::UnknownType("assistant/chunk, version 2".into()));
}

#[test]
fn an_answer_too_long_to_be_held_is_taken_in_as_it_comes() {
    let text = "a".repeat(100_000);
    let many = MAX_HELD_BYTES / text.len() + 3;
    let (events, bad) = folded(&log(1, many, &text));
    assert!(bad.is_none());
    assert_eq!(pieces(&events), vec![2; many]);
    assert!(events.is_sorted_by_key(|event| event.seq), "each piece once, in order");
    // Of one that failed, what was taken in before is no harm.
    let (events, _) = folded(&log(many, 1, &text));
    assert!((2..many).contains(&pieces(&events).len()), "no more is held than may be");
    assert_eq!(pieces(&events).last(), Some(&2));
}
