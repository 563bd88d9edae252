//! Older payloads are read as today's would be written; newer ones are named and left alone.

use terret_core::fact::{Fact, PluginEvent, Rel, StepEnd, TurnStart, Versions};
use terret_core::line::{Event, Line, LineError, Tip};

use crate::samples::raw;

/// `turn/start` said `{"number":1}` at first, then `{"turn":"1"}`.
const VERSIONS: Versions =
    Versions::new(&[("step/end", 1, unused), ("turn/start", 2, number), ("turn/start", 1, renamed)]);

fn renamed(data: &str) -> Result<String, String> {
    let number = data.strip_prefix(r#"{"number":"#).and_then(|rest| rest.strip_suffix('}'));
    number.map(|number| format!(r#"{{"turn":"{number}"}}"#)).ok_or_else(|| "it has no number".into())
}

fn number(data: &str) -> Result<String, String> {
    let number = data.strip_prefix(r#"{"turn":""#).and_then(|rest| rest.strip_suffix(r#""}"#));
    number.map(|number| format!(r#"{{"turn":{number}}}"#)).ok_or_else(|| "its turn is no text".into())
}

fn unused(_: &str) -> Result<String, String> {
    Err("a step of another type was taken".into())
}

/// What a line says that has this between its type and its trailers.
fn said(versions: Versions, kind: &str, rest: &str) -> Result<Fact, LineError> {
    let body = format!(r#"{{"seq":0,"time":1,"type":"{kind}",{rest}"#);
    let line = format!(r#"{body},"crc":"{:08x}"}}"#, crc32c::crc32c(body.as_bytes()));
    let event: Event = Line::parse(line.as_bytes())?.event_by(versions)?;
    Ok(event.fact)
}

#[test]
fn an_older_payload_goes_through_every_step_to_today() {
    let turn = Ok(Fact::TurnStart(TurnStart { turn: 7 }));
    assert_eq!(said(VERSIONS, "turn/start", r#""data":{"number":7}"#), turn, "two steps");
    assert_eq!(said(VERSIONS, "turn/start", r#""v":2,"data":{"turn":"7"}"#), turn, "one step");
    assert_eq!(said(VERSIONS, "turn/start", r#""v":3,"data":{"turn":7}"#), turn, "as it is");
    // Types without a step, and plugins' own versions, are none of this.
    let end = said(VERSIONS, "turn/cancel", r#""data":{"turn":1,"cause":{"type":"parent"}}"#);
    assert!(end.is_ok());
    let plugin = said(VERSIONS, "x/p/k", r#""rel":"view","v":9,"data":{}"#).unwrap();
    assert_eq!(
        plugin,
        Fact::Plugin(PluginEvent { kind: "x/p/k".into(), rel: Rel::View, v: 9, data: raw("{}") })
    );
}

#[test]
fn a_newer_version_is_not_guessed_at() {
    let newer = said(VERSIONS, "turn/start", r#""v":4,"data":{"turn":7}"#);
    assert_eq!(newer, Err(LineError::UnknownType("turn/start, version 4".into())));
    let newer = said(Versions::default(), "turn/start", r#""v":2,"data":{"turn":7}"#);
    assert_eq!(newer, Err(LineError::UnknownType("turn/start, version 2".into())));
    assert!(matches!(said(VERSIONS, "turn/start", r#""v":0,"data":{"turn":7}"#), Err(LineError::Form(_))));
}

#[test]
fn a_step_that_fails_says_which() {
    let form = |versions, rest: &str| match said(versions, "turn/start", rest) {
        Err(LineError::Form(why)) => why,
        other => panic!("{other:?}"),
    };
    let first = form(VERSIONS, r#""data":{"turn":7}"#);
    assert!(first.contains("turn/start") && first.contains("version 1: it has no number"), "{first}");
    assert!(form(VERSIONS, r#""v":2,"data":{"number":7}"#).contains("version 2: its turn is no text"));
    // What the last step makes is looked at like any payload.
    assert!(form(VERSIONS, r#""v":2,"data":{"turn":"seven"}"#).contains("payload of `turn/start`"));
    const GAP: Versions = Versions::new(&[("turn/start", 1, renamed), ("turn/start", 3, number)]);
    assert!(form(GAP, r#""data":{"number":7}"#).contains("nothing leads on from version 2"));
}

#[test]
fn what_is_written_says_its_version_unless_it_is_the_first() {
    let facts = [Fact::TurnStart(TurnStart { turn: 7 }), Fact::StepEnd(StepEnd { turn: 7, step: 1 })];
    let written = |mut tip: Tip| {
        let mut out = Vec::new();
        for fact in &facts {
            tip.encode(&mut out, 1, fact, None).unwrap();
        }
        String::from_utf8(out).unwrap()
    };
    let today = written(Tip::of(VERSIONS));
    assert!(today.contains(r#""type":"turn/start","v":3,"data":{"turn":7}"#), "{today}");
    assert!(today.contains(r#""type":"step/end","v":2,"data":"#), "{today}");
    assert!(!written(Tip::default()).contains(r#""v":"#));
    let line = today.lines().next().unwrap();
    assert_eq!(Line::parse(line.as_bytes()).unwrap().event_by(VERSIONS).unwrap().fact, facts[0]);
}
