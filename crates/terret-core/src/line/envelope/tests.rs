//! The two readers of an envelope never differ about a line that both can read.

use super::{exact, json};
use crate::line::{CRC_TAIL, H_TAIL};

/// One line of every core type and of plugins, as written.
const GOLDEN: &str = include_str!("../../../tests/core/golden.jsonl");

/// Changes tried on each line.
const CHANGES: u32 = 4_000;

/// What a change puts in: pieces of lines, of JSON, and bytes that are neither.
const PIECES: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"\t",
    b"0",
    b"1",
    b"-",
    b".",
    b"e",
    b"+",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\xff",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"null",
    b"true",
    b"\\u0041",
    b"\\ud800",
    b"{}",
    br#""seq":1,"#,
    br#","time":2"#,
    br#","type":"turn/start""#,
    br#","rel":"view""#,
    br#","rel":"other""#,
    br#","v":2"#,
    br#","v":4294967296"#,
    br#","d":7"#,
    br#","d":07"#,
    br#","x":{}"#,
    br#","data":{}"#,
    br#"},"d":1"#,
    br#","d":18446744073709551615"#,
    br#","d":18446744073709551616"#,
    br#","crc":"00000000"}"#,
    br#","h":"0000000000000000000000000000000000000000000000000000000000000000""#,
    br#","h":"000000000000000000000000000000000000000000000000000000000000000A""#,
];

/// The reader by hand says nothing, or what the other says.
fn compare(line: &[u8]) -> bool {
    let by_hand = exact(line);
    if let Some(by_hand) = &by_hand {
        assert_eq!(json(line).as_ref(), Ok(by_hand), "{}", String::from_utf8_lossy(line));
    }
    by_hand.is_some()
}

#[test]
fn lines_as_written_are_read_by_hand() {
    let all = GOLDEN.lines().skip(1).filter(|line| !compare(line.as_bytes()));
    assert_eq!(all.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_changed_line_is_the_same_to_both() {
    let (mut dice, mut by_hand) = (Dice(0x2545_f491_4f6c_dd1d), 0);
    for line in GOLDEN.lines().skip(1) {
        for _ in 0..CHANGES {
            // The end is looked at with the checksum, before.
            let (body, crc) = line.as_bytes().split_at(line.len() - CRC_TAIL);
            let mut bytes = body.to_vec();
            for _ in 0..=dice.below(2) {
                change(&mut bytes, &mut dice);
            }
            bytes.extend_from_slice(crc);
            by_hand += u32::from(compare(&bytes));
        }
    }
    // Otherwise nothing was compared.
    assert!(by_hand > CHANGES, "only {by_hand} changed lines were read by hand");
}

/// Takes bytes out, puts a piece in, changes one, or doubles a stretch. Most often near what is read by hand.
fn change(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let length = bytes.len();
    let at = match dice.below(3) {
        0 => dice.below(70),
        1 => length.saturating_sub(dice.below(H_TAIL + 30)),
        _ => dice.below(length),
    };
    let at = at.min(length.saturating_sub(1));
    let to = (at + 1 + dice.below(12)).min(length);
    let piece = PIECES[dice.below(PIECES.len())];
    match dice.below(5) {
        0 => drop(bytes.drain(at..to)),
        1 => drop(bytes.splice(at..at, piece.iter().copied())),
        2 => drop(bytes.splice(at..to, piece.iter().copied())),
        3 => bytes[at] = dice.below(256) as u8,
        _ => drop(bytes.splice(at..at, bytes[at..to].to_vec())),
    }
}

#[test]
fn odd_lines_are_left_to_the_json_parser() {
    const CRC: &str = r#","crc":"00000000"}"#;
    let by_hand = |body: &str| compare(format!("{body}{CRC}").as_bytes());
    assert!(by_hand(r#"{"seq":0,"time":1,"type":"turn/start","data":{"turn":1}"#));
    assert!(by_hand(r#"{"seq":0,"time":1,"type":"turn/start","v":2,"data":{},"d":0"#));
    for legal in [
        r#"{"time":1,"seq":0,"type":"turn/start","data":{"turn":1}"#,
        r#"{ "seq":0,"time":1,"type":"turn/start","data":{"turn":1}"#,
        r#"{"seq":0,"time":1,"type":"turn\/start","data":{"turn":1}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data": {"turn":1}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{"turn":1} "#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{"turn":1},"x":{"d":1}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","x":0,"data":{"turn":1}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{"turn":1},"v":1,"d":1"#,
        r#"{"seq":0,"time":1,"type":"turn/start","v":null,"data":{"turn":1},"d":null"#,
        r#"{"seq":12345678901234567890,"time":1,"type":"turn/start","data":{"turn":1}"#,
    ] {
        assert!(!by_hand(legal), "{legal}");
        assert!(json(format!("{legal}{CRC}").as_bytes()).is_ok(), "{legal}");
    }
    for wrong in [
        r#"{"seq":00,"time":1,"type":"turn/start","data":{}"#,
        r#"{"seq":,"time":1,"type":"turn/start","data":{}"#,
        r#"{"seq":1.0,"time":1,"type":"turn/start","data":{}"#,
        r#"{"seq":18446744073709551616,"time":1,"type":"turn/start","data":{}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","rel":"nearby","data":{}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{}}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{"a":tru}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{"a":[}]}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{"a":1}{"b":2}"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{},"d":01"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{},"d":1,"d":2"#,
        r#"{"seq":0,"time":1,"type":"turn/start","data":{},"h":"00""#,
        "",
        "{",
    ] {
        assert!(!by_hand(wrong), "{wrong}");
        assert!(json(format!("{wrong}{CRC}").as_bytes()).is_err(), "{wrong}");
    }
    // Not an object, but JSON: what both say of it is for others to judge.
    assert!(!by_hand(r#"{"seq":0,"time":1,"type":"turn/start","data":[1]"#));
}

/// The same numbers each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit.max(1)
    }
}
