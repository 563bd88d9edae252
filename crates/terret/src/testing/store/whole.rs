//! Whole logs: taken in complete or not at all, and forked.

use terret_core::id::SessionId;

use super::{Check, UnderTest, events, header, holds, well, written};
use crate::error::Error;
use crate::inspect::verify_scan;
use crate::store::Fork;

fn id(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|e| format!("{e}"))
}

pub(super) fn adopt(under: &dyn UnderTest) -> Check {
    let store = under.store();
    let bytes = written(under, "before")?;
    let line = header("adopted")?.to_line().map_err(|e| e.to_string())?;
    let start = memchr::memchr(b'\n', &bytes).map_or(0, |at| at + 1);
    let whole = [&line[..], &bytes[start..]].concat();
    let adopted = id("adopted")?;
    let fails = store.adopt(&adopted, &mut |out| {
        out.write_all(&whole[..whole.len() / 2])?;
        Err(std::io::Error::other("it fails midway"))
    });
    holds(
        fails.is_err() && under.bytes("adopted").is_none(),
        "a log that could not be written whole is not there",
    )?;
    well(store.adopt(&adopted, &mut |out| out.write_all(&whole)), "to take a log in")?;
    holds(under.bytes("adopted") == Some(whole.clone()), "a log that was taken in is what was written")?;
    let again = store.adopt(&adopted, &mut |out| out.write_all(b"other"));
    holds(matches!(again, Err(Error::Exists(_))), "an id that is taken takes no log in")?;
    holds(under.bytes("adopted") == Some(whole), "and the log there stays as it is")?;
    holds(events(under, "adopted")?.0.len() == 4, "nobody holds a log that was taken in")
}

pub(super) fn fork(under: &dyn UnderTest) -> Check {
    let store = under.store();
    let bytes = written(under, "parent")?;
    let (_, parent) = events(under, "parent")?;
    let plan = Fork { boundary: Some(2), id: id("child")?, now: 5, plugins: Vec::new() };
    let made = well(crate::store::fork(|| store.read("parent"), &*store, plan), "to fork beside a writer")?;
    holds(
        made.parent.is_some_and(|from| from.id == parent.header.id && from.seq == Some(2)),
        "a fork names its parent",
    )?;
    holds(under.bytes("parent") == Some(bytes.clone()), "a parent is only read")?;
    let child = under.bytes("child").unwrap_or_default();
    let lines =
        |bytes: &[u8]| bytes.split(|b| *b == b'\n').skip(1).take(3).map(<[u8]>::to_vec).collect::<Vec<_>>();
    holds(lines(&child) == lines(&bytes), "a fork begins with the lines of its parent as they stand")?;
    let report = well(store.read("child").and_then(|mut scan| verify_scan(&mut scan)), "to verify a fork")?;
    holds(report.holds(), "a fork can be proven")?;
    let (found, opened) = events(under, "child")?;
    holds(found.len() as u64 == opened.tip.next_seq() && opened.epoch == 3, "a fork opens like any other")
}
