//! One log: begun, opened, written, read beside its writer, found torn or damaged.

use terret_core::fact::{Fact, PluginEvent, Rel};

use super::{Check, UnderTest, all_of, events, header, holds, message, well, writer, written};
use crate::error::Error;
use crate::store::Journal;

pub(super) fn create(under: &dyn UnderTest) -> Check {
    let store = under.store();
    let (head, line) = (header("create")?, header("create")?.to_line().map_err(|e| e.to_string())?);
    let opened = well(store.create(head.clone()), "to create")?;
    holds(opened.header == head, "a new log has the header it was given")?;
    holds(
        (opened.epoch, opened.cut_bytes) == (1, None),
        "the first writer of a log has epoch 1 and cuts nothing",
    )?;
    holds(opened.tip.next_seq() == 0, "the first line of a new log has seq 0")?;
    holds(opened.log.length() == line.len() as u64, "a new log is as long as its header line")?;
    holds(under.bytes("create") == Some(line), "a new log holds its header line")?;
    holds(
        matches!(store.create(head.clone()), Err(Error::Exists(_) | Error::Busy { .. })),
        "an id is given once",
    )?;
    drop(opened);
    holds(matches!(store.create(head), Err(Error::Exists(_))), "an id stays taken when its writer is gone")
}

pub(super) fn open(under: &dyn UnderTest) -> Check {
    let store = under.store();
    let none = store.open("open", &mut |_| {});
    holds(matches!(none, Err(Error::NoSession(_))), "what is not there cannot be opened, and that is said")?;
    holds(store.read("open").is_err() && under.bytes("open").is_none(), "to look for a session makes none")?;
    let bytes = written(under, "open")?;
    let (found, opened) = events(under, "open")?;
    let busy = store.open("open", &mut |_| {});
    holds(matches!(busy, Err(Error::Busy { .. })), "a log has one writer")?;
    let told: Vec<Fact> = (0..3).map(message).collect();
    let same = found.iter().skip(1).map(|event| &event.fact).eq(&told);
    holds(
        same && matches!(found[0].fact, Fact::WriterOpened(_)),
        "opening gives exactly the events, in order",
    )?;
    holds(found.iter().map(|event| event.seq).eq(0..4), "and each with its seq")?;
    holds(opened.epoch == 2, "each writer's epoch is one more than the last")?;
    let Fact::WriterOpened(first) = &found[0].fact else { return Err("no writer".into()) };
    holds(first.header_hash == opened.header_hash, "the hash of the header line is what it was")?;
    drop(opened);
    holds(under.bytes("open") == Some(bytes), "to open a log and write nothing changes nothing")?;
    drop(writer(events(under, "open")?.1, 1)?);
    let (found, opened) = events(under, "open")?;
    holds(
        (found.len(), opened.epoch) == (6, 3),
        "what the second writer wrote follows what the first one did",
    )
}

pub(super) async fn append_and_read(under: &dyn UnderTest) -> Check {
    let mut journal = writer(well(under.store().create(header("append")?), "to create")?, 1)?;
    let before = well(journal.log().reader(0), "to read")?;
    let end = journal.log().length();
    let behind = well(journal.log().reader(end), "to read from the end")?;
    well(journal.push(2, &message(7)), "to encode")?;
    well(journal.write(), "to append")?;
    well(journal.sync().await, "to sync")?;
    let bytes = under.bytes("append").unwrap_or_default();
    holds(journal.log().length() == bytes.len() as u64, "a log is as long as what was appended")?;
    holds(all_of(before)? == bytes, "a reader sees what is appended later")?;
    holds(all_of(behind)? == bytes[end as usize..], "a reader begins at the byte it was given")?;
    let beyond = well(journal.log().reader(bytes.len() as u64 + 9), "to read behind the end")?;
    holds(all_of(beyond)?.is_empty(), "there is nothing behind the end")?;
    if under.adopts() {
        let mut scan = well(under.store().read("append"), "to read beside the writer")?;
        let mut seen = 0;
        while let Some(next) = well(scan.next_event(), "to read beside the writer")? {
            next.map_err(|bad| format!("a reader beside the writer finds {bad:?}"))?;
            seen += 1;
        }
        holds(seen == 3, "a log can be read beside its writer")?;
    }
    Ok(())
}

pub(super) async fn poison(under: &dyn UnderTest) -> Check {
    let bytes = written(under, "poison")?;
    let mut opened = events(under, "poison")?.1;
    let poisoned = opened.log.poison("a check");
    holds(matches!(poisoned, Error::Poisoned { .. }), "a log that was given up says so")?;
    let refused = |done: &Result<(), Error>| matches!(done, Err(Error::Poisoned { .. }));
    holds(refused(&opened.log.append(b"{}\n")), "nothing is appended to a log that was given up")?;
    holds(refused(&opened.log.sync().await), "nor is it synced")?;
    holds(under.bytes("poison") == Some(bytes), "nor changed")?;
    drop(opened);
    let mut journal = writer(events(under, "poison")?.1, 0)?;
    well(journal.sync().await, "the next writer's sync")
}

pub(super) fn torn_tail(under: &dyn UnderTest) -> Check {
    let whole = written(under, "torn")?;
    let torn = [&whole[..], br#"{"seq":4,"time":2,"ty"#].concat();
    under.put("torn", &torn);
    let (found, opened) = events(under, "torn")?;
    holds(
        found.len() == 4 && opened.cut_bytes == Some(21),
        "a torn tail is none of the events, and is counted",
    )?;
    holds(opened.log.length() == whole.len() as u64, "a torn tail does not count for the length")?;
    holds(all_of(well(opened.log.reader(0), "to read")?)? == whole, "nobody reads a torn tail")?;
    drop(opened);
    holds(under.bytes("torn") == Some(torn), "a torn tail is cut by the first append, not before")?;
    let opened = events(under, "torn")?.1;
    let along = well(opened.log.reader(whole.len() as u64), "to read")?;
    let journal = writer(opened, 1)?;
    let bytes = under.bytes("torn").unwrap_or_default();
    holds(
        bytes.starts_with(&whole) && bytes.ends_with(b"\n"),
        "the first append cuts a torn tail, and no more",
    )?;
    holds(all_of(along)? == bytes[whole.len()..], "a reader goes on where the torn tail was")?;
    drop(journal);
    let (found, opened) = events(under, "torn")?;
    holds((found.len(), opened.cut_bytes) == (6, None), "what was cut once is not cut again")
}

pub(super) fn unterminated(under: &dyn UnderTest) -> Check {
    let whole = written(under, "newline")?;
    under.put("newline", &whole[..whole.len() - 1]);
    let (found, opened) = events(under, "newline")?;
    holds((found.len(), opened.cut_bytes) == (4, None), "a line that lacks only its newline is whole")?;
    holds(opened.log.length() == whole.len() as u64, "the newline that will be added counts")?;
    drop(writer(opened, 0)?);
    let bytes = under.bytes("newline").unwrap_or_default();
    holds(bytes.starts_with(&whole), "the first append adds the newline that is missing")?;
    holds(events(under, "newline")?.0.len() == 5, "and all lines are there")
}

pub(super) fn damage(under: &dyn UnderTest) -> Check {
    let mut bytes = written(under, "damage")?;
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &bytes).map(|at| at + 1).collect();
    // In the line of seq 2.
    bytes[ends[2] + 40] ^= 1;
    under.put("damage", &bytes);
    let refused = under.store().open("damage", &mut |_| {}).err();
    let Some(Error::Damaged { line, offset, seq, .. }) = refused else {
        return Err(format!("a damaged log is refused, with the place: {refused:?}"));
    };
    holds((line, offset, seq) == (4, ends[2] as u64, 2), "the place of the damage is the first bad line's")?;
    holds(under.bytes("damage") == Some(bytes), "a damaged log is not changed")?;
    holds(
        under.store().open("damage", &mut |_| {}).is_err(),
        "and refused again, by nobody's lock but for that",
    )
}

pub(super) fn foreign(under: &dyn UnderTest) -> Check {
    written(under, "ours")?;
    let mut journal = Journal::new(events(under, "ours")?.1);
    let data = serde_json::from_str("{}").map_err(|e| e.to_string())?;
    let event = PluginEvent { kind: "x/nobody/did".into(), rel: Rel::Context, v: 1, data };
    well(journal.push(2, &Fact::Plugin(event)), "to encode")?;
    well(journal.write(), "to append")?;
    drop(journal);
    let missing = under.store().open("ours", &mut |_| {}).err();
    holds(
        matches!(&missing, Some(Error::MissingPlugin { seq: 4, plugin }) if plugin == "nobody"),
        "a log that needs a plugin is not written without it",
    )
}
