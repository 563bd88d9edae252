//! Lines: what is written is read back, and no byte changes unseen.

use terret_core::fact::{Class, Fact, PluginEvent, Rel, TurnStart};
use terret_core::id::Digest;
use terret_core::limits::MAX_LINE_BYTES;
use terret_core::line::{Line, LineError, SessionHeader, Tip};
use terret_core::message::Message;
use terret_core::raw::Raw;

use crate::samples::{every_fact, raw, session};

const GOLDEN: &str = include_str!("golden.jsonl");
const TIME: u64 = 1_790_000_000_200;

/// The sample log: `d` on every seventh line, a clock that goes back once.
fn log() -> Vec<u8> {
    let mut out = session().to_line().unwrap();
    let mut tip = Tip::default();
    for (at, fact) in every_fact().iter().enumerate() {
        let at = at as u64;
        let synced = (at % 7 == 6).then(|| at - 2);
        let time = if at == 5 { TIME - 1000 } else { TIME + at };
        assert_eq!(tip.encode(&mut out, time, fact, synced), Ok(at));
    }
    out
}

fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|b| *b == b'\n').map(|l| l.strip_suffix(b"\n").unwrap_or(l)).collect()
}

/// Index of the first bad line after the header, and what is wrong with it.
fn first_bad(lines: &[&[u8]]) -> Option<(usize, LineError)> {
    let mut tip = Tip::default();
    lines[1..].iter().enumerate().find_map(|(at, line)| tip.check(line).err().map(|e| (at + 1, e)))
}

/// A line from everything before its checksum.
fn seal(body: &str) -> String {
    format!(r#"{body},"crc":"{:08x}"}}"#, crc32c::crc32c(body.as_bytes()))
}

fn reseal(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(line).unwrap();
    let body = &text[..text.rfind(r#","crc":"#).unwrap()];
    assert!(body.contains(from), "{body} has no {from}");
    seal(&body.replacen(from, to, 1)).into_bytes()
}

#[test]
fn every_fact_is_read_back_as_it_was_written() {
    let log = log();
    let lines = lines(&log);
    assert_eq!(SessionHeader::parse(lines[0]), Ok(session()));
    let mut tip = Tip::default();
    for (line, fact) in lines[1..].iter().zip(every_fact()) {
        let line = tip.check(line).unwrap();
        assert_eq!(line.event().unwrap().fact, fact);
        assert_eq!(line.h.is_some(), fact.class() == Class::Barrier, "{}", fact.type_name());
    }
    assert_eq!(tip.next_seq() as usize, every_fact().len());
}

#[test]
fn the_format_is_frozen() {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/core/golden.jsonl"), log()).unwrap();
        return;
    }
    assert_eq!(String::from_utf8(log()).unwrap(), GOLDEN);
    let mut again = Vec::new();
    let mut writer = Tip::default();
    let mut reader = Tip::default();
    for (at, line) in GOLDEN.lines().enumerate() {
        if at == 0 {
            again = SessionHeader::parse(line.as_bytes()).unwrap().to_line().unwrap();
            continue;
        }
        let line = reader.check(line.as_bytes()).unwrap();
        let event = line.event().unwrap();
        writer.encode(&mut again, event.time, &event.fact, line.d).unwrap();
    }
    assert_eq!(String::from_utf8(again).unwrap(), GOLDEN);
}

#[test]
fn keys_have_one_order() {
    let mut out = Vec::new();
    let mut tip = Tip::default();
    let plugin =
        every_fact().into_iter().find(|f| f.class() == Class::Plain && f.type_name().starts_with("x/"));
    tip.encode(&mut out, 5, &plugin.unwrap(), Some(3)).unwrap();
    let start = format!(
        r#"{{"seq":0,"time":5,"type":"x/goal/updated","rel":"context","v":2,"data":{},"d":3,"crc":""#,
        r#"{"b": 1.0, "a": []}"#
    );
    assert!(String::from_utf8(out.clone()).unwrap().starts_with(&start));
    out.clear();
    tip.encode(&mut out, 6, &every_fact()[1], Some(0)).unwrap();
    let text = String::from_utf8(out).unwrap();
    let places: Vec<usize> =
        ["{\"seq\":", ",\"time\":", ",\"type\":", ",\"data\":{", "},\"d\":0,", ",\"h\":\"", ",\"crc\":\""]
            .map(|key| text.find(key).unwrap())
            .into();
    assert!(places.is_sorted(), "{text}");
    assert!(text.ends_with("\"}\n"));
}

#[test]
fn every_flipped_bit_is_found_at_its_line() {
    let log = log();
    let lines = lines(&log);
    let mut start = 0;
    let mut tip = Tip::default();
    for (at, line) in lines.iter().enumerate() {
        let end = start + line.len() + 1;
        let next = lines.get(at + 1).map_or(0, |next| next.len());
        for bit in 0..(line.len() + 1) * 8 {
            let mut bytes = log[start..end + next].to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let first = bytes.split(|b| *b == b'\n').next().unwrap();
            let found = match at {
                0 => SessionHeader::parse(first).is_err(),
                _ => tip.clone().check(first).is_err(),
            };
            // Without its newline the last line is torn, not damaged: its bytes are all there.
            let unterminated = at + 1 == lines.len() && bit / 8 == line.len();
            assert!(found || unterminated, "line {at}, bit {bit}");
        }
        if at > 0 {
            tip.check(line).unwrap();
        }
        start = end;
    }
}

#[test]
fn a_line_removed_swapped_or_repeated_is_found() {
    let log = log();
    let all = lines(&log);
    for at in 1..all.len() - 1 {
        let mut removed = all.clone();
        removed.remove(at);
        let mut swapped = all.clone();
        swapped.swap(at, at + 1);
        let mut repeated = all.clone();
        repeated.insert(at, all[at]);
        let expected = at as u64 - 1;
        let seq = |expected, found| LineError::Seq { expected, found };
        assert_eq!(first_bad(&removed), Some((at, seq(expected, expected + 1))));
        assert_eq!(first_bad(&swapped), Some((at, seq(expected, expected + 1))));
        assert_eq!(first_bad(&repeated), Some((at + 1, seq(expected + 1, expected))));
    }
    assert_eq!(first_bad(&all), None);
}

#[test]
fn an_edit_with_a_new_checksum_is_found_at_the_next_chain_value() {
    let log = log();
    let all = lines(&log);
    let has_h = |line: &[u8]| Line::parse(line).unwrap().h.is_some();
    for at in 1..all.len() {
        let edited = reseal(all[at], r#""time":17"#, r#""time":16"#);
        let mut lines = all.clone();
        lines[at] = &edited;
        let next = (at..all.len()).find(|i| has_h(all[*i])).unwrap();
        let found = first_bad(&lines);
        assert!(matches!(found, Some((i, LineError::Chain { .. })) if i == next), "line {at}: {found:?}");
    }
}

#[test]
fn a_chain_value_cannot_be_left_out_or_added() {
    let log = log();
    let all = lines(&log);
    let last = all[all.len() - 1];
    let h = Line::parse(last).unwrap().h.unwrap();
    let stripped = reseal(last, &format!(r#","h":"{h}""#), "");
    let mut lines = all.clone();
    *lines.last_mut().unwrap() = &stripped;
    assert!(matches!(first_bad(&lines), Some((at, LineError::Form(_))) if at == all.len() - 1));

    let mut tip = Tip::default();
    let added = seal(&format!(r#"{{"seq":0,"time":1,"type":"turn/start","data":{{"turn":1}},"h":"{h}""#));
    assert!(matches!(tip.check(added.as_bytes()), Err(LineError::Form(_))));
}

#[test]
fn the_chain_runs_through_lines_without_a_value() {
    let log = log();
    let mut tip = Tip::default();
    let mut h = Digest::of(b"terret log chain, format 1");
    let mut since: Vec<u8> = Vec::new();
    for line in &lines(&log)[1..] {
        let stored = tip.check(line).unwrap().h;
        since.extend_from_slice(line);
        since.push(b'\n');
        if let Some(stored) = stored {
            let cut = since.len() - 1 - r#","h":"","crc":"00000000"}"#.len() - 64;
            since.truncate(cut);
            h = Digest::of(&[&h.0[..], &since].concat());
            assert_eq!(stored, h);
            since.clear();
        }
        let head = stored.unwrap_or_else(|| Digest::of(&[&h.0[..], &since].concat()));
        assert_eq!(tip.head(), head);
    }
}

#[test]
fn the_chain_is_one_to_readers_and_writers_whatever_the_lengths() {
    // Around the length that a reader gathers, with many short lines before and after, and links between.
    let lengths = [0, 1, 65_000, 3, 70_000, 200, 200_000, 65_300, 65_400, 10, 40_000, 40_000, 7];
    let (mut out, mut writer, mut heads) = (Vec::new(), Tip::default(), Vec::new());
    for (at, length) in lengths.iter().cycle().take(80).enumerate() {
        let plain = Fact::Plugin(PluginEvent {
            kind: "x/p/k".into(),
            rel: Rel::View,
            v: 1,
            data: raw(&format!(r#"{{"t":"{}"}}"#, "a".repeat(*length))),
        });
        let fact = if at % 17 == 16 { added(&"b".repeat(*length)) } else { plain };
        writer.encode(&mut out, 1, &fact, None).unwrap();
        heads.push(writer.head());
    }
    let mut reader = Tip::default();
    for (at, line) in lines(&out).iter().enumerate() {
        reader.check(line).unwrap();
        // A reader that becomes a writer takes the chain along, and one that asks on the way goes on as before.
        if at % 3 == 0 {
            assert_eq!(reader.head(), heads[at], "line {at}");
        }
        let mut copy = reader.clone();
        assert_eq!(copy.head(), heads[at], "line {at}");
        let (mut more, mut expected) = (Vec::new(), out[..].split_inclusive(|b| *b == b'\n').nth(at + 1));
        if let Some(next) = expected.take() {
            let event = Line::parse(&next[..next.len() - 1]).unwrap().event().unwrap();
            copy.encode(&mut more, event.time, &event.fact, None).unwrap();
            assert_eq!((more == next, copy.head()), (true, heads[at + 1]), "line {at}");
        }
    }
    assert_eq!(reader.head(), writer.head());
}

#[test]
fn after_an_error_the_tip_stands_where_it_stood() {
    let log = log();
    let all = lines(&log);
    let mut tip = Tip::default();
    for (at, line) in all[1..].iter().enumerate() {
        let before = (tip.next_seq(), tip.head());
        let odd = [
            reseal(line, r#""time":17"#, r#""time":16"#),
            reseal(line, &format!(r#""seq":{at}"#), r#""seq":999"#),
            reseal(line, r#","data":{"#, r#","data":{{"#),
            line[1..].to_vec(),
        ];
        for (kind, odd) in odd.iter().enumerate() {
            let refused = tip.read(odd, |_| Err::<(), _>(LineError::Form("not wanted".into())));
            assert!(refused.is_err());
            let chained = kind == 0 && Line::parse(line).unwrap().h.is_some();
            assert!(!chained || matches!(refused, Err(LineError::Chain { .. })), "line {at}: {refused:?}");
            assert_eq!((tip.next_seq(), tip.head()), before, "line {at}, {kind}");
        }
        tip.check(line).unwrap();
    }
}

#[test]
fn unknown_fields_survive_reading() {
    let data = r#"{"turn":1,"later":{"n": 1.0e5}}"#;
    let line = seal(&format!(r#"{{"seq":0,"time":1,"type":"turn/start","data":{data}"#));
    let mut tip = Tip::default();
    let line = tip.check(line.as_bytes()).unwrap();
    assert_eq!(line.data, data);
    assert_eq!(line.event().unwrap().fact, Fact::TurnStart(TurnStart { turn: 1 }));
}

#[test]
fn what_this_version_does_not_know_is_named() {
    let event = |body: &str| {
        let line = seal(body);
        Line::parse(line.as_bytes()).and_then(|line| line.event())
    };
    let unknown = event(r#"{"seq":0,"time":1,"type":"turn/paused","data":{}"#);
    assert_eq!(unknown, Err(LineError::UnknownType("turn/paused".into())));
    let newer = event(r#"{"seq":0,"time":1,"type":"turn/start","v":2,"data":{"turn":1}"#);
    assert_eq!(newer, Err(LineError::UnknownType("turn/start, version 2".into())));
    let header = seal(r#"{"type":"session","format":2,"shape":"other""#);
    assert_eq!(SessionHeader::parse(header.as_bytes()), Err(LineError::Newer { found: 2 }));
    assert!(LineError::Newer { found: 2 }.to_string().contains("upgrade terret"));
    let plugin = event(r#"{"seq":0,"time":1,"type":"x/goal/updated","rel":"view","data":{"a":1}"#);
    assert!(matches!(plugin.unwrap().fact, Fact::Plugin(PluginEvent { rel: Rel::View, v: 1, .. })));
}

#[test]
fn malformed_lines_are_refused() {
    let form = |body: &str| {
        let line = seal(body);
        let found = Line::parse(line.as_bytes()).and_then(|line| line.event());
        assert!(matches!(found, Err(LineError::Form(_))), "{body}: {found:?}");
    };
    form(r#"{"seq":0,"time":1,"type":"x/goal/updated","data":{}"#);
    form(r#"{"seq":0,"time":1,"type":"turn/start","rel":"view","data":{"turn":1}"#);
    form(r#"{"seq":0,"time":1,"type":"turn/start","data":[1]"#);
    form(r#"{"seq":0,"time":1,"type":"turn/start","data":{"turn":"1"}"#);
    form(r#"{"seq":0,"seq":0,"time":1,"type":"turn/start","data":{"turn":1}"#);
    form(r#"{"seq":0,"time":1,"type":"turn/start","data":{"turn":1,"turn":1}"#);
    form(r#"{"seq":-1,"time":1,"type":"turn/start","data":{"turn":1}"#);
    assert_eq!(Line::parse(b"").map(|_| ()), Err(LineError::NoCrc));
    assert_eq!(Line::parse(br#"{"seq":0}"#).map(|_| ()), Err(LineError::NoCrc));
}

#[test]
fn text_that_looks_like_trailers_is_only_text() {
    let text = r#"","d":1},"d":9,"h":"0000000000000000000000000000000000000000000000000000000000000000","crc":"00000000"}"#;
    let facts = [
        Fact::Plugin(PluginEvent {
            kind: "x/p/k".into(),
            rel: Rel::View,
            v: 1,
            data: raw(r#"{"d":1,"h":"00","crc":"00000000"}"#),
        }),
        added(text),
    ];
    let (mut out, mut tip) = (Vec::new(), Tip::default());
    for fact in &facts {
        tip.encode(&mut out, 1, fact, None).unwrap();
    }
    let mut tip = Tip::default();
    for (line, fact) in lines(&out).iter().zip(facts) {
        let line = tip.check(line).unwrap();
        assert_eq!((line.d, line.event().unwrap().fact), (None, fact));
    }
}

fn added(text: &str) -> Fact {
    Fact::InboxAdded(terret_core::fact::InboxAdded {
        message: Message::user("m", text),
        lane: terret_core::fact::Lane::NextTurn,
        wake: true,
        replaces: None,
    })
}

#[test]
fn a_line_may_be_this_long_and_no_longer() {
    let length = |text: usize| {
        let (mut out, mut tip) = (Vec::new(), Tip::default());
        tip.encode(&mut out, 1, &added(&"a".repeat(text)), None).map(|_| out)
    };
    let around = length(0).unwrap().len();
    let longest = length(MAX_LINE_BYTES - around).unwrap();
    assert_eq!(longest.len(), MAX_LINE_BYTES);
    assert!(Tip::default().check(longest.strip_suffix(b"\n").unwrap()).is_ok());
    assert_eq!(length(MAX_LINE_BYTES - around + 1), Err(LineError::TooLong(MAX_LINE_BYTES + 1)));

    let long = vec![b' '; MAX_LINE_BYTES + 1];
    assert_eq!(Line::parse(&long).map(|_| ()), Err(LineError::TooLong(MAX_LINE_BYTES + 1)));
}

#[test]
fn what_no_reader_would_take_is_not_written() {
    let plugin = |kind: &str, data: &str| {
        Fact::Plugin(PluginEvent { kind: kind.into(), rel: Rel::View, v: 1, data: raw(data) })
    };
    let (mut out, mut tip) = (b"before".to_vec(), Tip::default());
    for fact in [
        plugin("x/p/k", "[1]"),
        plugin("x/p/k", "null"),
        plugin("turn/start", r#"{"turn":1}"#),
        plugin("x/p", "{}"),
        plugin("x//k", "{}"),
        plugin("x/p/k\",\"data\":{}", "{}"),
        plugin("x/p/k\n", "{}"),
        added(&"a".repeat(MAX_LINE_BYTES)),
    ] {
        assert!(tip.encode(&mut out, 1, &fact, None).is_err());
        assert_eq!((out.as_slice(), tip.next_seq()), (&b"before"[..], 0));
    }
    assert_eq!(tip.encode(&mut out, 1, &plugin("x/p/k", "{}"), None), Ok(0));
}

#[test]
fn raw_json_over_several_lines_stays_on_one() {
    let spread = "{\n  \"a\": 1.0,\r\n\t\"b\": \"x\\ny\"\n}";
    let joined = "{   \"a\": 1.0,  \t\"b\": \"x\\ny\" }";
    assert_eq!(Raw::parse(spread).unwrap().get(), joined);
    assert_eq!(serde_json::from_str::<Raw>(spread).unwrap().get(), joined);
    assert!(Raw::parse("\"a\nb\"").is_err(), "a line break in a string is not JSON");
    let (mut out, mut tip) = (Vec::new(), Tip::default());
    let data = serde_json::from_str::<Raw>(spread).unwrap();
    let fact = Fact::Plugin(PluginEvent { kind: "x/p/k".into(), rel: Rel::View, v: 1, data });
    tip.encode(&mut out, 1, &fact, None).unwrap();
    assert_eq!(lines(&out).len(), 1);
}
