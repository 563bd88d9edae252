//! Stored logs, written as a person would: without the numbers and checksums that a writer adds.

use terret::core::fact::{Fact, WriterOpened};
use terret::core::id::Digest;
use terret::core::line::{Event, FORMAT, SessionHeader, SessionTag, Tip};
use terret::core::message::Source;
use terret::core::project::Request;

pub(crate) const ID: &str = "s-1";

/// The log of these events, one a line: `TIME TYPE DATA`. Its header and its writer's first event come by
/// themselves.
pub(crate) fn log(facts: &str) -> Vec<u8> {
    begun(facts).0
}

/// The same, with the end its next line goes on from.
pub(crate) fn begun(facts: &str) -> (Vec<u8>, Tip) {
    let header = SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: ID.parse().unwrap(),
        created: 1_700_000_000_000,
        cwd: "/w".into(),
        by: "a test".into(),
        parent: None,
        origin: None,
    };
    let mut log = header.to_line().unwrap();
    let header_hash = Digest::of(&log[..log.len() - 1]);
    let (host, boot, by) = ("h".into(), "b".into(), "a test".into());
    let opened = WriterOpened { epoch: 1, pid: 1, host, boot, by, header_hash, cut_bytes: None };
    let mut tip = Tip::default();
    tip.encode(&mut log, 1_700_000_000_000, &Fact::WriterOpened(opened), None).unwrap();
    append(&mut log, &mut tip, facts);
    (log, tip)
}

/// Adds these events, as a writer does that knows this end of the log.
pub(crate) fn append(log: &mut Vec<u8>, tip: &mut Tip, facts: &str) {
    for line in facts.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        let (time, kind, data) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let fact = Fact::parse(kind, data).unwrap_or_else(|| panic!("{kind} is no event"));
        let fact = fact.unwrap_or_else(|e| panic!("{line}: {e}"));
        tip.encode(log, time.parse().unwrap(), &fact, None).unwrap();
    }
}

/// The conversation a log amounts to.
pub(crate) fn conversation(events: &[Event]) -> Request {
    let mut request = Request::default();
    events.iter().for_each(|event| request.fold(event));
    request
}

/// What people said in it, in order.
pub(crate) fn said(events: &[Event]) -> Vec<String> {
    let request = conversation(events);
    let messages = request.messages().list().iter();
    messages.filter(|p| p.message.source == Source::User).map(|p| p.message.text()).collect()
}
