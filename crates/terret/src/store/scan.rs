//! Reading a log from its start, line by line, and telling a torn tail from damage.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terret_core::id::{Digest, Seq};
use terret_core::limits::MAX_LINE_BYTES;
use terret_core::line::{Event, Line, LineError, SessionHeader, Tip};

use super::begin::never_begun;
use super::fs::{Access, FileSystem, Kind, LocalFs, Reader};
use super::index::Mark;
use super::torn;
use crate::error::Error;
use crate::limits::MAX_UNSYNCED;

/// A log being read. It repairs nothing and changes nothing.
pub struct Scan<R> {
    fs: Arc<dyn FileSystem>,
    reader: BufReader<R>,
    path: PathBuf,
    header: SessionHeader,
    header_hash: Digest,
    tip: Tip,
    line: Vec<u8>,
    line_no: u64,
    offset: u64,
    synced: Option<Seq>,
    /// Byte offset behind the last line of which a later one says that it was synced.
    synced_end: u64,
    /// Lines of which none says so: their seq, and the offset behind them.
    unsynced: VecDeque<(Seq, u64)>,
    boot: Option<String>,
    epoch: u64,
    unterminated: bool,
}

/// The first line that is not what was written.
#[derive(Debug, Clone)]
pub struct Bad {
    /// Line, from 1.
    pub line: u64,
    /// Byte offset of the line.
    pub offset: u64,
    /// The seq that belongs there.
    pub seq: Seq,
    /// What is wrong.
    pub cause: LineError,
    /// Whether the line ends with a newline.
    pub terminated: bool,
}

impl Bad {
    pub(crate) fn into_error(self, path: &Path) -> Error {
        let Bad { line, offset, seq, cause, .. } = self;
        Error::Damaged { path: path.to_owned(), line, offset, seq, cause }
    }
}

impl Scan<Reader> {
    /// Opens a log file of this machine and reads its header.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Scan::over(&(Arc::new(LocalFs::default()) as _), path, |file| file)
    }
}

impl<R: Read> Scan<R> {
    /// Opens a log file, reads it as `wrap` gives it, and reads its header.
    pub(super) fn over(
        fs: &Arc<dyn FileSystem>,
        path: &Path,
        wrap: impl FnOnce(Reader) -> R,
    ) -> Result<Self, Error> {
        // Opening a pipe waits for its other end, a device may never end.
        if fs.meta(path).is_ok_and(|meta| meta.kind != Kind::File) {
            return Err(Error::NotALog { path: path.to_owned(), why: "it is not a regular file".into() });
        }
        let opened = fs.open(path, Access::Read).map_err(Error::io("open", path));
        match opened.and_then(|file| Scan::new(wrap(Reader::new(file)), path)) {
            Err(_) if never_begun(&**fs, path) => {
                let why = "it was never begun, and holds nothing".to_owned();
                Err(Error::NotALog { path: path.to_owned(), why })
            }
            scan => Ok(Scan { fs: fs.clone(), ..scan? }),
        }
    }
}

impl<R: Read + Seek> Scan<R> {
    /// Goes on behind a line that is known to be there.
    pub(super) fn go_behind(&mut self, mark: &Mark) -> Result<(), Error> {
        self.reader.seek(std::io::SeekFrom::Start(mark.end)).map_err(Error::io("read", &self.path))?;
        (self.tip, self.offset) = (Tip::behind(mark.seq, mark.h), mark.end);
        // The header is line 1, event 0 line 2.
        self.line_no = mark.seq + 2;
        self.synced_end = mark.at;
        self.unsynced = VecDeque::from([(mark.seq, mark.end)]);
        (self.synced, self.epoch, self.boot) =
            (mark.synced, mark.writer.epoch, Some(mark.writer.boot.clone()));
        Ok(())
    }
}

impl<R: Read> Scan<R> {
    /// Reads the header.
    pub fn new(reader: R, path: &Path) -> Result<Self, Error> {
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        let not_a_log = |why: String| Error::NotALog { path: path.to_owned(), why };
        let mut line = Vec::new();
        let terminated = read_line(&mut reader, &mut line).map_err(Error::io("read", path))?;
        if line.is_empty() && !terminated {
            return Err(not_a_log("the file is empty".into()));
        }
        if !terminated {
            return Err(not_a_log("the header line is cut".into()));
        }
        let header = SessionHeader::parse(&line).map_err(|cause| match cause.is_newer() {
            true => Error::Damaged { path: path.to_owned(), line: 1, offset: 0, seq: 0, cause },
            false => not_a_log(cause.to_string()),
        })?;
        Ok(Scan {
            fs: Arc::new(LocalFs::default()),
            reader,
            path: path.to_owned(),
            header,
            header_hash: Digest::of(&line),
            tip: Tip::default(),
            offset: line.len() as u64 + 1,
            line,
            line_no: 1,
            synced: None,
            synced_end: 0,
            unsynced: VecDeque::new(),
            boot: None,
            epoch: 0,
            unterminated: false,
        })
    }

    /// The header.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// blake3 of the header line.
    pub fn header_hash(&self) -> Digest {
        self.header_hash
    }

    /// The end of what was read so far.
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// Byte offset behind the last good line.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Highest epoch seen.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Boot id of the last writer seen.
    pub fn boot(&self) -> Option<&str> {
        self.boot.as_deref()
    }

    /// Highest seq that a line so far says was synced.
    pub fn synced(&self) -> Option<Seq> {
        self.synced
    }

    /// Byte offset behind the last line that a later one says was synced; 0 if none is.
    pub(super) fn synced_end(&self) -> u64 {
        self.synced_end
    }

    /// Whether the last good line lacks its newline.
    pub fn unterminated(&self) -> bool {
        self.unterminated
    }

    pub(super) fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the lines come from. Set back to [`Scan::offset`], it gives a bad line once more.
    pub(super) fn reader(&mut self) -> &mut BufReader<R> {
        &mut self.reader
    }

    /// The bytes of the line last returned, without its newline.
    pub fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// The next event; `None` at the end of the file.
    pub fn next_event(&mut self) -> Result<Option<Result<Event, Bad>>, Error> {
        self.next_line(|line| line.event())
    }

    /// The next line as `read` takes it: the line is checked, its payload only if `read` does. `None` at the end of
    /// the file.
    pub fn next_line<T>(
        &mut self,
        read: impl FnOnce(&Line<'_>) -> Result<T, LineError>,
    ) -> Result<Option<Result<T, Bad>>, Error> {
        if self.unterminated {
            return Ok(None);
        }
        let terminated =
            read_line(&mut self.reader, &mut self.line).map_err(Error::io("read", &self.path))?;
        if self.line.is_empty() && !terminated {
            return Ok(None);
        }
        let seq = self.tip.next_seq();
        let checked = self.tip.read(&self.line, |line| Ok((read(line)?, line.d, torn::writer(line)?)));
        Ok(Some(match checked {
            Ok((made, d, writer)) => {
                self.line_no += 1;
                self.offset += self.line.len() as u64 + u64::from(terminated);
                self.unterminated = !terminated;
                self.synced = self.synced.max(d);
                // Where no line ever says it, what is kept is as good: more is in doubt than need be.
                if self.unsynced.len() < MAX_UNSYNCED {
                    self.unsynced.push_back((seq, self.offset));
                }
                while let Some((_, end)) = self.unsynced.pop_front_if(|(seq, _)| Some(*seq) <= self.synced) {
                    self.synced_end = end;
                }
                if let Some(opened) = writer {
                    self.epoch = self.epoch.max(opened.epoch);
                    self.boot = Some(opened.boot);
                }
                Ok(made)
            }
            Err(cause) => Err(Bad { line: self.line_no + 1, offset: self.offset, seq, cause, terminated }),
        }))
    }

    /// After a bad line of a file: whether it and what follows are a tail that a crash may tear. Every reader
    /// and the writer ask this one question; what it depends on beside the bytes (this boot of the machine, the
    /// marker of a failed sync) it looks up itself.
    pub fn is_torn_tail(&mut self, bad: &Bad) -> Result<bool, Error> {
        let sync_failed = torn::is_marked(&*self.fs, &self.path);
        let boot = self.fs.process().boot;
        self.is_torn(bad, sync_failed, &boot)
    }

    /// The same of a log that is kept elsewhere, told whether a sync of its last writer failed, and which boot of
    /// the machine this is.
    pub fn is_torn(&mut self, bad: &Bad, sync_failed: bool, boot: &str) -> Result<bool, Error> {
        // No crash writes a wrong line with a right checksum.
        if torn::is_as_written(&bad.cause) {
            return Ok(false);
        }
        // A whole line with something else where its newline belongs was not cut: it was changed.
        let first = torn::first_line(&self.line);
        let changed = first.is_some();
        self.synced = self.synced.max(first.and_then(|line| line.d));
        let mut rest = std::mem::take(&mut self.line);
        let mut more = false;
        loop {
            // A line that is whole may still say how far the log was synced, and who wrote it.
            if let Some(line) = torn::last_line(&rest) {
                self.synced = self.synced.max(line.d);
                let writer = torn::writer(&line).ok().flatten();
                self.boot = writer.map(|opened| opened.boot).or(self.boot.take());
            }
            let terminated = read_line(&mut self.reader, &mut rest).map_err(Error::io("read", &self.path))?;
            if rest.is_empty() && !terminated {
                break;
            }
            more = true;
        }
        let below = self.synced.is_some_and(|d| bad.seq <= d);
        let cut = !bad.terminated && !more && !changed;
        // Lines that no sync covers may be missing or stale when the machine went down since they were written.
        // Where no whole line names a boot, nobody can say that it did not.
        let in_doubt = sync_failed || self.boot().is_none_or(|written| written != boot);
        Ok(!below && (cut || in_doubt))
    }
}

/// Reads up to and over a newline; the newline is not kept. Says whether there was one. Reads no more than a
/// line may hold: what is longer comes back cut, and fails its check.
pub(super) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    reader.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', line)?;
    let terminated = line.last() == Some(&b'\n');
    if terminated {
        line.pop();
    }
    Ok(terminated)
}
