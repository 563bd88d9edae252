//! Any bytes as lines and as a log that is read from its start. No panic, little memory, and what is taken for good
//! is what the bytes say.

use std::io::{Cursor, Read};
use std::path::Path;

use serde_json::Value;
use terret::core::id::Seq;
use terret::core::limits::MAX_LINE_BYTES;
use terret::core::line::{Line, LineError, Tip};
use terret::store::{Bad, Scan};

use crate::mend::versions;

/// How long a file is that goes on and on: some lines at their longest.
const ENDLESS_BYTES: u64 = 4 * MAX_LINE_BYTES as u64;
/// One input in so many goes on and on: each takes a good part of a second.
const ENDLESS_EVERY: u32 = 4096;
/// The boot of the machine that logs here call this one.
const HERE: &str = "HERE";

/// What the fuzzer and the tests run.
pub(crate) fn check(data: &[u8]) {
    for log in versions(data, HERE) {
        log.split(|b| *b == b'\n').for_each(one_line);
        in_order(&log);
        scan(&log);
    }
    if crc32c::crc32c(data).is_multiple_of(ENDLESS_EVERY) {
        endless(data);
    }
}

/// A log that begins like this and never ends. Whoever counts the memory sees that a reader holds a few lines of it.
pub(crate) fn endless(start: &[u8]) {
    for more in *b"x\0" {
        let file = start.chain(std::io::repeat(more).take(ENDLESS_BYTES));
        let Ok(mut scan) = Scan::new(file, Path::new("endless")) else { continue };
        while let Some(next) = scan.next_event().unwrap() {
            if let Err(bad) = next {
                scan.is_torn(&bad, false, HERE).unwrap();
                break;
            }
        }
    }
}

/// A line whose fact is known says the same when it is written again, and from then on in the same bytes.
fn one_line(bytes: &[u8]) {
    let Ok(line) = Line::parse(bytes) else { return };
    let Ok(event) = line.event() else { return };
    let (mut tip, mut again) = (Tip::default(), Vec::new());
    if tip.encode(&mut again, event.time, &event.fact, line.d).is_err() {
        assert!(again.is_empty() && tip.next_seq() == 0, "what is refused leaves nothing");
        return;
    }
    let again = &again[..again.len() - 1];
    let second = Line::parse(again).unwrap();
    assert_eq!((&*second.kind, second.rel, second.v), (&*line.kind, line.rel, line.v));
    assert_eq!((second.time, second.d), (line.time, line.d));
    let fact = second.event().unwrap().fact;
    assert_eq!(fact, event.fact);
    let mut third = Vec::new();
    Tip::default().encode(&mut third, line.time, &fact, line.d).unwrap();
    assert_eq!(&third[..third.len() - 1], again, "written twice, it differs");
    // Nested deeper than a generic reader goes: compared as facts above.
    if let (Ok(was), Ok(is)) = (serde_json::from_str(line.data), serde_json::from_str(second.data)) {
        assert!(says_no_more(&is, &was), "{was}\nbecame\n{is}");
    }
}

/// Whether everything in `is` stands in `was`: fields may be unknown here and left out, none is made up.
fn says_no_more(is: &Value, was: &Value) -> bool {
    match (is, was) {
        (Value::Object(is), Value::Object(was)) => is.iter().all(|(key, value)| match was.get(key) {
            Some(was) => says_no_more(value, was),
            // Absent, it meant this.
            None => matches!(value, Value::Null | Value::Bool(false)) || *value == Value::Array(Vec::new()),
        }),
        (Value::Array(is), Value::Array(was)) => {
            is.len() == was.len() && is.iter().zip(was).all(|(is, was)| says_no_more(is, was))
        }
        _ => is == was,
    }
}

/// The end of a log goes on by one for each good line, and stays where it was at a bad one.
fn in_order(log: &[u8]) {
    let mut tip = Tip::default();
    for bytes in log.split(|b| *b == b'\n') {
        let before = (tip.next_seq(), tip.head());
        match tip.check(bytes) {
            Ok(line) => {
                assert_eq!((line.seq, tip.next_seq()), (before.0, before.0 + 1));
                assert!(line.h.is_none_or(|h| h == tip.head()));
                assert_ne!(tip.head(), before.1);
            }
            Err(LineError::Chain { .. }) => return,
            Err(_) => assert_eq!((tip.next_seq(), tip.head()), before),
        }
    }
}

fn scan(log: &[u8]) {
    let Ok(mut scan) = Scan::new(Cursor::new(log), Path::new("scanned")) else { return };
    let (mut behind, mut events) = (scan.offset() as usize, 0);
    let bad = loop {
        match scan.next_event().unwrap() {
            None => break None,
            Some(Err(bad)) => break Some(bad),
            Some(Ok(event)) => {
                assert_eq!(event.seq, events);
                events += 1;
                let end = behind + scan.bytes().len();
                assert_eq!(scan.bytes(), &log[behind..end]);
                assert_eq!(scan.unterminated(), end == log.len());
                behind = (end + 1).min(log.len());
            }
        }
        assert_eq!((scan.offset(), scan.tip().next_seq()), (behind as u64, events));
    };
    match bad {
        None => assert_eq!(behind, log.len()),
        Some(bad) => {
            assert_eq!((bad.offset, bad.seq), (behind as u64, events));
            let line = log[..behind].iter().filter(|b| **b == b'\n').count() + 1;
            assert_eq!(bad.line, line as u64);
            torn(log, &bad);
        }
    }
}

/// Nothing that a sync covered is ever called torn, nor anything that no crash can leave.
fn torn(log: &[u8], bad: &Bad) {
    let rest = &log[bad.offset as usize..];
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    // Not the header: it is no line of the chain.
    let lines = log.split(|b| *b == b'\n').skip(1);
    let synced: Option<Seq> = lines.filter_map(|line| Line::parse(line).ok()?.d).max();
    let ask = |sync_failed: bool, boot: &str| {
        let mut scan = Scan::new(Cursor::new(log), Path::new("scanned")).unwrap();
        while let Some(Ok(_)) = scan.next_event().unwrap() {}
        let torn = scan.is_torn(bad, sync_failed, boot).unwrap();
        assert!(!torn || synced.is_none_or(|d| d < bad.seq), "torn at {}, synced {synced:?}", bad.seq);
        assert!(!torn || Line::parse(line).is_err(), "a whole line is called torn");
        (torn, scan.boot() == Some(boot))
    };
    let (here, same_boot) = ask(false, HERE);
    let (elsewhere, _) = ask(false, "another boot");
    let (failed, _) = ask(true, HERE);
    assert!(failed || !here && !elsewhere, "a failed sync leaves more in doubt, not less");
    assert!(!(here && same_boot && rest.contains(&b'\n')), "only a last line without its end is torn here");
}
