//! What an index file tells whoever opens its log, as far as the log bears it out.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use terret_core::id::{Digest, Seq};
use terret_core::limits::MAX_LINE_BYTES;
use terret_core::line::{Event, Line};

use super::{INDEX, Index, Mark, Place, Record, What};
use crate::error::Error;
use crate::limits::{INDEX_TAIL_BYTES, MAX_INDEX_BYTES};
use crate::store::Scan;
use crate::store::fs::{Access, File, FileSystem, LocalFs, Meta, Reader};
use crate::store::torn::is_marked;

/// Bytes read at once: a few lines.
const CLOSE_BYTES: usize = 2 << 10;

/// Where to look in a log, up to a line at which its session rested.
pub(in crate::store) struct Known {
    mark: Mark,
    /// What is to be folded.
    events: Vec<Event>,
    valid: u64,
    last: Digest,
}

/// Opens a log for whoever goes on with it: hands over, of what stands before the last rest that its index knows
/// of, the events that later ones build on. The scan goes on behind that rest; without an index, at the start.
pub(in crate::store) fn skim(
    fs: &Arc<dyn FileSystem>,
    path: &Path,
    fold: &mut dyn FnMut(&Event),
) -> Result<(Scan<Reader>, Option<Known>), Error> {
    let mut scan = Scan::over(fs, path, |file| file)?;
    let known = Known::of(&**fs, path);
    if let Some(known) = &known {
        known.events.iter().for_each(fold);
        scan.go_behind(known.mark())?;
    }
    Ok((scan, known))
}

impl Scan<Reader> {
    /// Opens a log of this machine and hands over what of it counts for going on with its session: where it has an
    /// index, the events before its last rest that later ones build on. The scan gives what comes after those.
    pub fn skim(path: &Path, fold: &mut dyn FnMut(&Event)) -> Result<Self, Error> {
        skim(&(Arc::new(LocalFs::default()) as _), path, fold).map(|(scan, _)| scan)
    }
}

impl Known {
    /// What is known of this log. `None` if there is no index, or if it is not one of this log as it is.
    pub(in crate::store) fn of(fs: &dyn FileSystem, log: &Path) -> Option<Self> {
        // After a sync that failed nothing is taken for granted.
        if is_marked(fs, log) {
            return None;
        }
        let records = records(fs, &log.with_file_name(INDEX))?;
        let file = fs.open(log, Access::Read).ok()?;
        let meta = file.meta().ok()?;
        // The bytes that were there when it was written, and at another time: somebody changed them.
        let changed = |mark: &Mark| mark.end == meta.length && !untouched(mark, &meta);
        if records.iter().any(|held| changed(&held.record.mark)) {
            return None;
        }
        // A power cut may take the line of the last rest, and leave what the index says of it.
        let stands = |mark: &Mark| mark.end <= meta.length && mark.is_in(&*file);
        let last = records.iter().rposition(|held| stands(&held.record.mark))?;
        let Held { record, end: valid, sum } = &records[last];
        let (mark, valid, sum) = (record.mark.clone(), *valid, *sum);
        let lines: Vec<Place> =
            records[..=last].iter().flat_map(|held| &held.record.lines).copied().collect();
        let mut log = Lines::of(&*file);
        let events = needed(lines).iter().map(|place| place.event(&mut log)).collect::<Option<_>>()?;
        Some(Known { mark, events, valid, last: sum })
    }

    /// What is said of a session that rests at the end of its log, without a look at what happened before.
    pub(in crate::store) fn at_rest(fs: &dyn FileSystem, log: &Path) -> Option<Mark> {
        if is_marked(fs, log) {
            return None;
        }
        let mark = last_record(fs, &log.with_file_name(INDEX))?.mark;
        let file = fs.open(log, Access::Read).ok()?;
        let meta = file.meta().ok()?;
        (mark.end == meta.length && untouched(&mark, &meta) && mark.is_in(&*file)).then_some(mark)
    }

    /// Where the session rested.
    pub(in crate::store) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The index, to go on behind the mark.
    pub(in crate::store) fn into_index(self) -> Index {
        Index {
            valid: self.valid,
            after: Some(self.last),
            lines: Vec::new(),
            writer: Some(self.mark.writer),
            summary: self.mark.summary,
            on: true,
        }
    }
}

/// A record, where it ends in its file, and its hash.
struct Held {
    record: Record,
    end: u64,
    sum: Digest,
}

impl Place {
    /// The event of this line; `None` if it is not the line that was noted, whole.
    fn event(&self, log: &mut Lines<'_>) -> Option<Event> {
        let line = log.get(self.1, self.2)?;
        let event = Line::parse(line).ok().filter(|line| line.seq == self.0)?.event().ok()?;
        (What::of(&event.fact) == Some(self.3)).then_some(event)
    }
}

impl Mark {
    /// Whether the log has this line where it is said to be.
    fn is_in(&self, log: &dyn File) -> bool {
        // Everything before it was synced when it was written, and there is room for what follows.
        if self.synced.is_none() || self.synced != self.seq.checked_sub(1) || self.seq > Seq::MAX / 2 {
            return false;
        }
        let mut lines = Lines::of(log);
        let line = self.end.checked_sub(self.at).and_then(|length| lines.get(self.at, length));
        line.is_some_and(|line| Line::parse(line).is_ok_and(|l| l.seq == self.seq && l.h == Some(self.h)))
    }
}

/// The lines that folding takes, of all that were noted: the last header and context, and of what was replaced only
/// the step that shows where the replacement stands.
fn needed(places: Vec<Place>) -> Vec<Place> {
    let last = |what| places.iter().rev().find(|place| place.3 == what).map(|place| place.0);
    let (header, context) = (last(What::Header), last(What::Context));
    let bounds: BTreeSet<Seq> =
        places.iter().filter(|place| place.3 == What::Step).map(|place| place.0).collect();
    let mut gone = BTreeSet::new();
    for Place(seq, _, _, what) in &places {
        if let What::Replaced(first, last) = what {
            let from = bounds.range(first..).next().copied().unwrap_or(Seq::MAX);
            // What belongs to a step that was open then is not replaced.
            let to = bounds.range(..seq).next_back().copied().unwrap_or(0).min(last.saturating_add(1));
            let start = places.partition_point(|place| place.0 < from);
            let inside = places[start..].iter().take_while(|place| place.0 < to);
            gone.extend(inside.filter(|place| place.3 == What::Message).map(|place| place.0));
        }
    }
    let stays = |place: &Place| match place.3 {
        What::Header => header == Some(place.0),
        What::Context => context == Some(place.0),
        What::Message => !gone.contains(&place.0),
        What::Line | What::Step | What::Replaced(..) => true,
    };
    places.into_iter().filter(stays).collect()
}

/// The records of an index file and where each ends, up to the first that is not as it was written.
fn records(fs: &dyn FileSystem, path: &Path) -> Option<Vec<Held>> {
    let file = fs.open(path, Access::Read).ok()?;
    let mut text = Vec::new();
    Reader::new(file).take(MAX_INDEX_BYTES).read_to_end(&mut text).ok()?;
    let (mut records, mut end, mut after) = (Vec::new(), 0, None);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let parsed = line.strip_suffix(b"\n").and_then(Record::parse);
        let Some((record, sum)) = parsed.filter(|(record, _)| record.after == after) else { break };
        end += line.len() as u64;
        after = Some(sum);
        records.push(Held { record, end, sum });
    }
    Some(records)
}

/// The last record of an index file, if it is whole and not too far from the end.
fn last_record(fs: &dyn FileSystem, path: &Path) -> Option<Record> {
    let file = fs.open(path, Access::Read).ok()?;
    let start = file.meta().ok()?.length.saturating_sub(INDEX_TAIL_BYTES);
    let mut tail = Reader::new(file);
    tail.seek(SeekFrom::Start(start)).ok()?;
    let mut text = Vec::new();
    tail.take(INDEX_TAIL_BYTES).read_to_end(&mut text).ok()?;
    let line = text.strip_suffix(b"\n")?;
    let from = match memchr::memrchr(b'\n', line) {
        Some(newline) => newline + 1,
        None if start == 0 => 0,
        None => return None,
    };
    Record::parse(&line[from..]).map(|(record, _)| record)
}

/// Lines of a log by their places. Those that stand close to each other are read together.
struct Lines<'a> {
    log: &'a dyn File,
    at: u64,
    read: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn of(log: &'a dyn File) -> Self {
        Lines { log, at: 0, read: Vec::new() }
    }

    /// The line that stands there, of so many bytes with its newline; `None` if no line does.
    fn get(&mut self, at: u64, length: u64) -> Option<&[u8]> {
        let length = usize::try_from(length).ok().filter(|n| (1..=MAX_LINE_BYTES).contains(n))?;
        let inside = |lines: &Self| at.checked_sub(lines.at).and_then(|skip| usize::try_from(skip).ok());
        let held = inside(self).is_some_and(|skip| skip.saturating_add(length) <= self.read.len());
        if !held {
            self.fill(at, length)?;
        }
        let skip = inside(self)?;
        self.read.get(skip..skip.checked_add(length)?)?.strip_suffix(b"\n")
    }

    fn fill(&mut self, at: u64, length: usize) -> Option<()> {
        self.read.resize(length.max(CLOSE_BYTES), 0);
        let (mut read, log) = (0, self.log);
        while read < length {
            match log.read_at(&mut self.read[read..], at + read as u64).ok()? {
                0 => break,
                n => read += n,
            }
        }
        self.read.truncate(read);
        self.at = at;
        Some(())
    }
}

/// Whether the log was last written when the mark says.
fn untouched(mark: &Mark, log: &Meta) -> bool {
    log.modified.duration_since(UNIX_EPOCH).is_ok_and(|time| time.as_nanos() == mark.modified_ns)
}
