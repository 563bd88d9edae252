//! Salvage: a new session from what is intact of a damaged log.
//!
//! What stands before the damage is taken along as a fork takes it. Lines behind it cannot go on as history: their
//! numbers and the chain say what stood before them, and that is gone. They are kept as data, each byte for byte,
//! and the model is told in plain text what was said in them.

mod recall;

use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use memchr::memmem;
use serde::Serialize;
use terret_core::fact::{Lane, PluginEvent, Rel};
use terret_core::id::{Digest, Seq, SessionId};
use terret_core::input::{Input, Record, Send};
use terret_core::limits::MAX_LINE_BYTES;
use terret_core::line::{Line, LineError, SessionHeader};
use terret_core::message::{Block, Form, Message, Role, Source};
use terret_core::raw::Raw;

use super::fork::{Cut, Own, copy, header};
use super::fs::{Access, FileSystem, LocalFs, Reader};
use super::scan::read_line;
use super::{Beside, Scan, Store};
use crate::error::Error;
use recall::Recall;

/// Who writes the events of a salvage, as their types and its message name it.
pub const SALVAGE: &str = "salvage";

/// Places in a bad line where it is tried whether two lines ran together there; a hostile one shall not be slow.
const LOOKS: usize = 16;

/// What a salvage is to be.
#[derive(Clone, Debug)]
pub struct Salvage {
    /// Id of the new session.
    pub id: SessionId,
    /// Epoch milliseconds.
    pub now: u64,
    /// Working directory of the new session, where the damaged log no longer says its own.
    pub cwd: String,
}

/// What came of a salvage.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// Header of the new session.
    pub header: SessionHeader,
    /// Events before the damage, taken along as they stand.
    pub taken: u64,
    /// Lines behind it, kept as data.
    pub kept: u64,
    /// Intact lines behind it that are too long to be kept within another.
    pub too_long: u64,
    /// What is damaged.
    pub damages: Vec<Damage>,
}

/// One damaged place: some lines that follow each other, or a place where a line is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Its first line, from 1.
    pub line: u64,
    /// Byte offset of that line.
    pub offset: u64,
    /// What belongs there.
    pub expected: String,
    /// What stands there.
    pub found: String,
    /// Bytes that are lost; none, where lines are missing.
    pub bytes: u64,
}

/// Makes a new session in `into` of what is intact of the damaged log at `path`, which is only read.
///
/// It is a fork at the last good event; without one it begins anew. Behind that stands an `x/salvage/damage` for each
/// damaged place and an `x/salvage/line` for each intact line, in the order of the source, and a message that tells
/// the model what was said there, for its next step. It is there complete or not at all. Another call makes another.
///
/// Fails if the log is not damaged, if a newer terret wrote it, or if nothing in it is intact.
pub fn salvage(path: &Path, into: &dyn Store, plan: Salvage) -> Result<Salvaged, Error> {
    let (cut, damage, cwd) = survey(path)?;
    let (header, line) = match &cut {
        Some(cut) => cut.header(plan.id, plan.now)?,
        None => header(plan.id, plan.now, cwd.unwrap_or(plan.cwd), None)?,
    };
    let header_hash = Digest::of(&line[..line.len() - 1]);
    let (events, h) = cut.as_ref().map_or((0, None), |cut| (cut.tip.next_seq(), Some(cut.tip.head())));
    let own = match cut {
        Some(cut) => cut.begin(into.process(), header_hash, plan.now)?,
        None => Own::fresh(into.process(), header_hash, plan.now)?,
    };
    let (damages, taken) = (Vec::new(), events);
    let mut report = Salvaged { header: header.clone(), taken, kept: 0, too_long: 0, damages };
    into.bring(&header.id, &Beside::all(&local(), path))?;
    let (mut rest, mut own) = (Rest::from(path, &damage)?, Some((own, damage)));
    into.adopt(&header.id, &mut |out| {
        out.write_all(&line)?;
        if let Some(h) = h {
            copy(Scan::open(path).map_err(io::Error::other)?, events, h, out)?;
        }
        let (own, damage) = own.take().ok_or_else(|| io::Error::other("it is written once"))?;
        Keep { own, out, report: &mut report, damage: Some(damage), next: None, recall: Recall::default() }
            .all(&mut rest)
    })?;
    Ok(report)
}

/// Whether a salvage would find an intact line in what is not the log it should be.
pub fn is_salvageable(path: &Path) -> bool {
    survey(path).is_ok()
}

/// Reads up to the damage: what stands before it, what it is, and where the session worked.
fn survey(path: &Path) -> Result<(Option<Cut>, Damage, Option<String>), Error> {
    let mut scan = match Scan::open(path) {
        Ok(scan) => scan,
        // A pipe has no lines, and opening it waits for its other end.
        Err(Error::NotALog { path: log, why }) if local().is_file(path) => {
            let expected = "the header of a session log".to_owned();
            let damage = Damage { line: 1, offset: 0, expected, found: why.clone(), bytes: 0 };
            let intact = Rest::from(path, &damage)?.any_intact().map_err(Error::io("read", path))?;
            return if intact { Ok((None, damage, None)) } else { Err(Error::NotALog { path: log, why }) };
        }
        Err(e) => return Err(e),
    };
    let cwd = scan.header().cwd.clone();
    let bad = loop {
        match scan.next_event()? {
            Some(Ok(_)) => {}
            Some(Err(bad)) if !scan.is_torn_tail(&bad)? => break bad,
            Some(Err(_)) | None => {
                return Err(Error::Usage(format!("`{}` is not damaged", path.display())));
            }
        }
    };
    if bad.cause.is_newer() {
        return Err(bad.into_error(path));
    }
    let (expected, found) = bad.cause.sides();
    let damage = Damage { line: bad.line, offset: bad.offset, expected, found, bytes: 0 };
    let cut = bad.seq.checked_sub(1).map(|last| {
        // Nothing is gone on with by this: which plugins that takes is asked when it is.
        Cut::find(|| Scan::open(path), Some(last), &|_| Ok(()))
    });
    if cut.is_none() && !Rest::from(path, &damage)?.any_intact().map_err(Error::io("read", path))? {
        return Err(bad.into_error(path));
    }
    Ok((cut.transpose()?, damage, Some(cwd)))
}

fn local() -> Arc<dyn FileSystem> {
    Arc::new(LocalFs::default())
}

/// The lines from the first damaged one on, as bytes.
struct Rest {
    reader: BufReader<Reader>,
    line: u64,
    offset: u64,
}

impl Rest {
    fn from(path: &Path, damage: &Damage) -> Result<Self, Error> {
        let file = local().open(path, Access::Read).map_err(Error::io("open", path))?;
        let mut reader = BufReader::with_capacity(64 << 10, Reader::new(file));
        reader.seek(SeekFrom::Start(damage.offset)).map_err(Error::io("read", path))?;
        Ok(Rest { reader, line: damage.line, offset: damage.offset })
    }

    /// The next line, or as much of it as a line may have, and its place and length with its newline.
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<(u64, u64, u64)>> {
        let mut terminated = read_line(&mut self.reader, bytes)?;
        let mut length = bytes.len() as u64 + u64::from(terminated);
        let mut more = Vec::new();
        while !terminated && bytes.len() > MAX_LINE_BYTES && !self.reader.fill_buf()?.is_empty() {
            terminated = read_line(&mut self.reader, &mut more)?;
            length += more.len() as u64 + u64::from(terminated);
        }
        let place = (self.line, self.offset, length);
        self.line += 1;
        self.offset += length;
        Ok((length > 0).then_some(place))
    }

    fn any_intact(&mut self) -> io::Result<bool> {
        let mut bytes = Vec::new();
        while self.next(&mut bytes)?.is_some() {
            if intact(&bytes).is_ok() || parted(&bytes).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The line, if its bytes are those that were written.
fn intact(bytes: &[u8]) -> Result<(&str, Line<'_>), LineError> {
    let line = Line::parse(bytes)?;
    let text = std::str::from_utf8(bytes).map_err(|e| LineError::Form(e.to_string()))?;
    Ok((text, line))
}

/// Where the second of two whole lines begins that one changed newline let run together.
fn parted(bytes: &[u8]) -> Option<usize> {
    let starts = memmem::find_iter(bytes, br#"{"seq":"#).filter(|at| *at > 0).take(LOOKS);
    starts.into_iter().find(|at| intact(&bytes[..at - 1]).is_ok() && intact(&bytes[*at..]).is_ok())
}

/// Writes what is behind the last good event into the new session.
struct Keep<'a> {
    own: Own,
    out: &'a mut dyn Write,
    report: &'a mut Salvaged,
    /// The place that is damaged, until an intact line ends it.
    damage: Option<Damage>,
    /// The seq that follows the last intact line.
    next: Option<Seq>,
    recall: Recall,
}

/// A line of the source, as data.
#[derive(Serialize)]
struct Kept<'a> {
    line: u64,
    offset: u64,
    raw: &'a str,
}

impl Keep<'_> {
    fn all(mut self, rest: &mut Rest) -> io::Result<()> {
        let mut bytes = Vec::new();
        while let Some((line, offset, length)) = rest.next(&mut bytes)? {
            match parted(&bytes).filter(|_| intact(&bytes).is_err()) {
                None => self.line(line, offset, &bytes, length)?,
                Some(at) => {
                    // What was said of the two together is said better of what is between them.
                    self.damage = self.damage.take().filter(|damage| damage.offset != offset);
                    let (second, newline) = (offset + at as u64, LineError::Form("another byte".into()));
                    self.line(line, offset, &bytes[..at - 1], at as u64 - 1)?;
                    self.hurt(line, second - 1, newline, 1);
                    self.line(line, second, &bytes[at..], length - at as u64)?;
                }
            }
        }
        self.told()?;
        if let Some(text) = std::mem::take(&mut self.recall).text() {
            let id = format!("salvage-{}", self.report.header.id);
            let source = Source::Plugin { plugin: SALVAGE.to_owned(), form: Form::Recall };
            let message =
                Message { id: (&*id).into(), role: Role::User, content: vec![Block::text(text)], source };
            self.take(Input::Send(Send { message, lane: Lane::NextStep, wake: false, replaces: None }))?;
        }
        self.take(Input::Idle)
    }

    fn line(&mut self, line: u64, offset: u64, bytes: &[u8], length: u64) -> io::Result<()> {
        let (raw, parsed) = match intact(bytes) {
            Ok(intact) => intact,
            Err(cause) => {
                self.hurt(line, offset, cause, length);
                return Ok(());
            }
        };
        if let Some(expected) = self.next.filter(|expected| *expected != parsed.seq) {
            self.hurt(line, offset, LineError::Seq { expected, found: parsed.seq }, 0);
        }
        self.told()?;
        self.next = parsed.seq.checked_add(1);
        if let Ok(event) = parsed.event() {
            self.recall.event(&event);
        }
        match self.record("x/salvage/line", &Kept { line, offset, raw }) {
            Ok(()) => {
                self.report.kept += 1;
                Ok(())
            }
            Err(Error::TooLarge { .. }) => {
                self.report.too_long += 1;
                let expected = "a line that fits into another".to_owned();
                let found = "an intact line that is too long to keep".to_owned();
                self.damage = Some(Damage { line, offset, expected, found, bytes: length });
                self.told()
            }
            Err(e) => Err(io::Error::other(e)),
        }
    }

    /// Something is wrong at this place: the beginning of a damage, or more of it.
    fn hurt(&mut self, line: u64, offset: u64, cause: LineError, bytes: u64) {
        let (expected, found) = cause.sides();
        let damage = Damage { line, offset, expected, found, bytes: 0 };
        self.damage.get_or_insert(damage).bytes += bytes;
        self.next = None;
    }

    /// Records the damage that ends here.
    fn told(&mut self) -> io::Result<()> {
        let Some(damage) = self.damage.take() else { return Ok(()) };
        self.recall.gap();
        self.record("x/salvage/damage", &damage).map_err(io::Error::other)?;
        self.report.damages.push(damage);
        Ok(())
    }

    fn record(&mut self, kind: &str, data: &impl Serialize) -> Result<(), Error> {
        let data = Raw::from_value(data).map_err(|e| Error::Usage(e.to_string()))?;
        let event = PluginEvent { kind: kind.to_owned(), rel: Rel::View, v: 1, data };
        self.own.take(Input::Record(Record::Plugin(event)))?;
        self.flush().map_err(|e| Error::Usage(e.to_string()))
    }

    fn take(&mut self, input: Input) -> io::Result<()> {
        self.own.take(input).map_err(io::Error::other)?;
        self.flush()
    }

    /// Only what is being written is held.
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.own.lines)?;
        self.own.lines.clear();
        Ok(())
    }
}
