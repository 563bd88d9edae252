//! What this version does not know is kept, byte for byte; and what a writer leaves unread changes nothing.

use std::io::Cursor;
use std::path::Path;

use terret::core::fact::Fact;
use terret::core::line::Event;
use terret::core::project::{OpenTurn, Request, Turns};
use terret::core::state::State;
use terret::error::Error;
use terret::store::{Fork, MemoryStore, Scan, Store, fork};

use crate::logs;

/// Logs that cannot be forked at their end, and why.
const NOT_WHOLE: [&str; 3] = ["damaged-line", "newer-event", "plugin-context"];

fn scan(log: &[u8]) -> Scan<Cursor<Vec<u8>>> {
    Scan::new(Cursor::new(log.to_vec()), Path::new("log")).unwrap()
}

fn without_header(log: &[u8]) -> &[u8] {
    &log[log.iter().position(|b| *b == b'\n').unwrap() + 1..]
}

#[test]
fn a_fork_has_every_byte_of_its_parent() {
    let mut unknown = 0;
    for (name, log) in logs() {
        let store = MemoryStore::default();
        store.put("parent", log.clone());
        let plan = Fork { boundary: None, id: "child".parse().unwrap(), now: 1, plugins: vec![] };
        let made = fork(|| store.read("parent"), &store, plan);
        if NOT_WHOLE.contains(&name.as_str()) {
            let refused = made.err().unwrap_or_else(|| panic!("{name} was forked"));
            assert!(
                matches!(refused, Error::Damaged { .. } | Error::MissingPlugin { .. }),
                "{name}: {refused}"
            );
            continue;
        }
        made.unwrap_or_else(|e| panic!("{name}: {e}"));
        let child = store.bytes("child").unwrap();
        let whole = &log[..log.iter().rposition(|b| *b == b'\n').unwrap() + 1];
        // The last line of a torn log is not whole.
        assert!(without_header(&child).starts_with(without_header(whole)), "{name}");
        for strange in [r#""later":{"n":1.50,"b":[]}"#, r#""mood":"curious""#, r#"{"n": 1.0e0, "n2":-0.0,"#] {
            unknown += usize::from(String::from_utf8_lossy(&child).contains(strange));
        }
    }
    assert!(unknown >= 3, "no log has anything strange in it");
}

#[test]
fn what_a_plugin_wrote_is_read_as_it_wrote_it() {
    let (_, log) = logs().into_iter().find(|(name, _)| name == "unknown-fields").unwrap();
    let mut scan = scan(&log);
    let mut data = Vec::new();
    while let Some(event) = scan.next_event().unwrap() {
        if let Fact::Plugin(event) = event.unwrap().fact {
            data.push(event.data.get().to_owned());
        }
    }
    assert_eq!(data, [r#"{"n": 1.0e0, "n2":-0.0, "big": 12345678901234567890}"#]);
}

/// What goes on from a log: state and projections.
#[derive(Default)]
struct Folds {
    state: State,
    open: OpenTurn,
    request: Request,
    turns: Turns,
}

impl Folds {
    fn fold(&mut self, event: &Event) {
        self.state.apply(&event.fact);
        self.open.fold(event);
        self.request.fold(event);
        self.turns.fold(event);
    }

    fn shown(&self) -> String {
        format!("{:?}\n{:?}\n{:?}\n{:?}", self.state, self.open, self.request, self.turns)
    }
}

#[test]
fn a_writer_knows_what_a_reader_knows_wherever_the_log_ends() {
    let (mut passed_over, mut taken_in) = (0, 0);
    for (name, log) in logs() {
        let ends = log.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
        for end in ends {
            let (mut reader, mut writer) = (Folds::default(), Folds::default());
            let (mut read, mut folded) = (0, 0);
            let mut all = scan(&log[..end]);
            while let Some(Ok(event)) = all.next_event().unwrap() {
                read += 1;
                reader.fold(&event);
            }
            let mut opening = scan(&log[..end]);
            opening
                .fold(&mut |event| {
                    folded += 1;
                    taken_in += usize::from(matches!(event.fact, Fact::AssistantChunk(_)));
                    writer.fold(event);
                })
                .unwrap();
            passed_over += read - folded;
            assert_eq!(writer.shown(), reader.shown(), "{name}, its first {end} bytes");
            assert_eq!(opening.tip().head(), all.tip().head(), "{name}, its first {end} bytes");
        }
    }
    assert!(passed_over > 1000 && taken_in > 500, "{passed_over} passed over, {taken_in} taken in");
}
