//! Logs for the corpus (`tests/corpus/`): scenarios played once, their bytes kept for good.
//!
//! `cargo test -p terret --test spec -- --ignored` plays those whose log is not there yet. A log that is there is never
//! written again: what scenarios do today says nothing about what was written then.

use std::path::{Path, PathBuf};

use terret::core::fact::Fact;
use terret::core::id::Digest;
use terret::core::line::{Line, Parent, SessionHeader, Tip};

use crate::page::Page;
use crate::{pages, scene};

/// Name in the corpus, and the scenario on its page.
const ON_PAGES: &[(&str, &str, &str)] = &[
    ("plain-turn", "turns.md", "A question and an answer"),
    ("tools-out-of-order", "steps-and-tools.md", "Side by side, and alone"),
    ("retried", "requests.md", "Asked again after a while"),
    ("cancelled-with-text", "cancel.md", "In a stream, with something to read"),
    ("crashed-and-closed", "crash.md", "In a tool, closed"),
    ("crashed-and-resumed", "crash.md", "In a tool that may run twice, resumed"),
    ("cancel-in-a-tool", "cancel.md", "In a tool that does not stop"),
    ("forked", "fork.md", "Inside a turn"),
    ("steered", "inbox.md", "Steering between steps"),
    ("headers", "requests.md", "When headers are written"),
    ("consent", "consent.md", "Allowed"),
    ("consent-refused", "consent.md", "Refused"),
    ("max-tokens", "requests.md", "The limit is remembered"),
    ("not-wholly-admitted", "crash.md", "Before a step is wholly admitted, resumed"),
    ("calls-that-cannot-start", "steps-and-tools.md", "Calls that cannot start"),
];

/// Name in the corpus, script, actions.
const OF_THEIR_OWN: &[(&str, &str, &str)] = &[
    (
        "queue",
        "say Hello.\n",
        "with reject 1.1 keep not yet\nsend one\nidle\ninject two\ninject three\nremove m3\nedit m2 two, better\n",
    ),
    ("replaced", "say Hello.\n", "send one\nidle\nreplace 5 15 Somebody said hello.\nsend two\n"),
    (
        "plugin-view",
        "say Hello.\n",
        "send one\nidle\nrecord view x/notes/kept {\"n\": 1.0, \"big\": 12345678901234567890}\nsend two\n",
    ),
    ("plugin-context", "say Hello.\n", "send one\nidle\nrecord context x/goal/set {\"goal\":\"tidy up\"}\n"),
    ("attachment", "say A cat.\n", "attach What is this?\n"),
    (
        "open-attempt",
        "say Hello,\nwait 10000\nsay world.\n",
        "send one\nuntil assistant/chunk\nuntil assistant/chunk\ncrash\n",
    ),
];

#[test]
#[ignore = "writes logs that the corpus does not have yet"]
fn the_corpus_is_added_to() {
    let pages: Vec<(String, Page)> = pages()
        .iter()
        .map(|path| (name(path), Page::parse(&std::fs::read_to_string(path).unwrap()).unwrap()))
        .collect();
    for (log, page, wanted) in ON_PAGES {
        let (_, page) = pages.iter().find(|(name, _)| name == page).unwrap();
        let scenario = page.scenarios.iter().find(|scenario| scenario.name == *wanted);
        let scenario = scenario.unwrap_or_else(|| panic!("there is no \"{wanted}\""));
        keep(log, || scene::play(&scenario.script.text, &scenario.actions.text));
    }
    for (log, script, actions) in OF_THEIR_OWN {
        keep(log, || scene::play(script, actions));
    }
    // What no agent of today writes: said by a newer one, or by nobody.
    let whole = |name: &str| std::fs::read(place(name)).unwrap();
    put("unknown-fields", || sealed(&whole("plugin-view"), newer_fields));
    put("newer-event", || {
        let add = |line: String| match line.contains(r#""type":"turn/end""#) {
            true => line.replace(r#""turn/end","data":{"#, r#""turn/end","v":2,"data":{"again":true,"#),
            false => line,
        };
        sealed(&whole("plain-turn"), add)
    });
    put("torn-tail", || {
        let log = whole("open-attempt");
        log[..log.len() - 40].to_vec()
    });
    put("damaged-line", || {
        String::from_utf8(whole("plain-turn")).unwrap().replacen("Hello", "Hallo", 1).into()
    });
}

/// A line with more in it than this version knows: fields in payloads, and a plugin's numbers as it spelled them.
fn newer_fields(line: String) -> String {
    let spelled = [
        (r#""data":{"turn":"#, r#""data":{"later":{"n":1.50,"b":[]},"turn":"#),
        (r#""data":{"message":{"#, r#""data":{"message":{"mood":"curious","#),
        (r#""data":{"n": 1.0,"#, r#""data":{"n": 1.0e0, "n2":-0.0,"#),
        (r#""data":{"epoch":"#, r#""data":{"container":null,"epoch":"#),
    ];
    spelled.iter().fold(line, |line, (from, to)| line.replacen(from, to, 1))
}

/// The log with its lines changed, and every chain value and checksum made to fit.
fn sealed(log: &[u8], change: impl Fn(String) -> String) -> Vec<u8> {
    let mut lines = log.split_inclusive(|b| *b == b'\n');
    let mut out = lines.next().unwrap().to_vec();
    let (mut link, mut since) = (Digest::of(b"terret log chain, format 1").0.to_vec(), Vec::new());
    for line in lines {
        let line = std::str::from_utf8(line).unwrap();
        let body = &line[..line.rfind(r#","crc":"#).unwrap()];
        let linked = Line::parse(line.trim_end().as_bytes()).unwrap().h.map(|h| format!(r#","h":"{h}""#));
        let body = linked.as_ref().map_or(body, |h| body.strip_suffix(h.as_str()).unwrap());
        let mut body = change(body.to_owned());
        if linked.is_some() {
            since.extend_from_slice(body.as_bytes());
            let h = Digest::of(&[&link[..], &since].concat());
            (link, since) = (h.0.to_vec(), Vec::new());
            body += &format!(r#","h":"{h}""#);
        }
        let line = format!("{body},\"crc\":\"{:08x}\"}}\n", crc32c::crc32c(body.as_bytes()));
        if linked.is_none() {
            since.extend_from_slice(line.as_bytes());
        }
        out.extend_from_slice(line.as_bytes());
    }
    out
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn place(log: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs").join(format!("{log}.jsonl"))
}

fn put(log: &str, make: impl FnOnce() -> Vec<u8>) {
    if !place(log).exists() {
        std::fs::write(place(log), make()).unwrap();
    }
}

fn keep(log: &str, play: impl FnOnce() -> Result<scene::Played, (usize, String)>) {
    put(log, || anywhere(&play().unwrap_or_else(|e| panic!("{log}: {e:?}")).bytes));
}

/// The log as it would have been written on a machine of no name.
fn anywhere(log: &[u8]) -> Vec<u8> {
    let mut lines = log.split_inclusive(|b| *b == b'\n').map(|line| line.strip_suffix(b"\n").unwrap());
    let mut header = SessionHeader::parse(lines.next().unwrap()).unwrap();
    let lines: Vec<Line<'_>> = lines.map(|line| Line::parse(line).unwrap()).collect();
    let taken = header.parent.as_ref().map_or(0, Parent::taken);
    if let Some(parent) = &mut header.parent {
        let (mut tip, mut out) = (Tip::default(), Vec::new());
        write(&lines[..taken as usize], None, &mut tip, &mut out);
        parent.h = tip.head();
    }
    let (mut tip, mut out) = (Tip::default(), header.to_line().unwrap());
    let hash = Digest::of(&out[..out.len() - 1]);
    let (before, own) = lines.split_at(taken as usize);
    write(before, None, &mut tip, &mut out);
    write(own, Some(hash), &mut tip, &mut out);
    out
}

fn write(lines: &[Line<'_>], header: Option<Digest>, tip: &mut Tip, out: &mut Vec<u8>) {
    for line in lines {
        let mut event = line.event().unwrap();
        if let Fact::WriterOpened(opened) = &mut event.fact {
            (opened.pid, opened.host, opened.boot) = (1, "somewhere".into(), "some-boot".into());
            opened.header_hash = header.unwrap_or(opened.header_hash);
        }
        tip.encode(out, event.time, &event.fact, line.d).unwrap();
    }
}
