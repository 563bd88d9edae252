//! The end of one log on disk, held by its one writer.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::id::Digest;

use super::fs::{Access, File, FileSystem, Reader};
use super::index::{INDEX, Index, Rest};
use super::lock::Lock;
use super::repair::{Repair, is_full, keep_aside};
use super::torn::MARKER;
use super::{Log, beside};
use crate::error::Error;
use crate::limits::RESERVE_BYTES;

/// Name of the file that keeps a little room.
pub(super) const RESERVE: &str = "reserve";

/// The end of one file.
pub(super) struct FileLog {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    dir: PathBuf,
    file: Arc<dyn File>,
    id: (u64, u64),
    length: u64,
    /// Where readers stop: before a torn tail, as long as it is there.
    limit: Arc<AtomicU64>,
    repair: Repair,
    /// From where on it is not known that the bytes found are on the disk, or on their way.
    doubt: Option<u64>,
    /// Whether what comes before the first append was done.
    begun: bool,
    reserve: Reserve,
    /// Directories whose entries may be new: synced with the first sync.
    entries: Vec<PathBuf>,
    closed: Option<String>,
    _lock: Lock,
}

/// A little room, kept so that a full disk still takes the lines that close a turn.
#[derive(Clone, Copy, PartialEq)]
enum Reserve {
    /// It is to be made as soon as there is room.
    Wanted,
    /// It is there.
    Kept,
    /// This file system cannot do it: only a comfort is lost.
    Never,
}

/// What opening found out about a log.
pub(super) struct Found {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) path: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) file: Arc<dyn File>,
    pub(super) lock: Lock,
    pub(super) length: u64,
    pub(super) repair: Repair,
    pub(super) doubt: Option<u64>,
    pub(super) entries: Vec<PathBuf>,
}

impl FileLog {
    pub(super) fn new(found: Found) -> Result<Self, Error> {
        let Found { fs, path, dir, file, lock, length, repair, doubt, entries } = found;
        let id = file.meta().map_err(Error::io("read", &path))?.id;
        let limit = repair.keeps().unwrap_or(u64::MAX);
        Ok(FileLog {
            fs,
            path,
            dir,
            file,
            id,
            length,
            limit: Arc::new(AtomicU64::new(limit)),
            repair,
            doubt,
            begun: false,
            reserve: Reserve::Wanted,
            entries,
            closed: None,
            _lock: lock,
        })
    }

    fn open_check(&self) -> Result<(), Error> {
        match &self.closed {
            Some(why) => Err(Error::Poisoned { path: self.path.clone(), why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Does what opening left to do. What fails is tried again by the next append.
    fn begin(&mut self) -> Result<(), Error> {
        match self.write_anew() {
            Ok(()) => {}
            // Some file systems take room for what is written in place, too.
            Err(e) if is_full(&e) => return Err(self.full()),
            Err(e) => return Err(Error::io("write", &self.path)(e)),
        }
        match self.repair {
            Repair::None => {}
            Repair::Newline => match self.file.append(b"\n") {
                Ok(1) => self.length += 1,
                Ok(_) => return Err(self.full()),
                Err(e) if is_full(&e) => return Err(self.full()),
                Err(e) => return Err(self.poison(&format!("a write failed: {e}"))),
            },
            Repair::Cut { keep, epoch } => {
                // What was cut lies beside a log that is there: one that no sync covered might go with the power.
                self.sync_now()?;
                match keep_aside(&*self.fs, &self.dir, &self.file, keep, self.length, epoch) {
                    Ok(()) => {}
                    Err(e) if is_full(&e) => return Err(self.full()),
                    Err(e) => return Err(Error::io("keep the torn tail of", &self.path)(e)),
                }
                if let Err(e) = self.file.set_len(keep) {
                    return Err(self.poison(&format!("a torn tail could not be cut: {e}")));
                }
                // Before anything stands in its place: a power cut must not put old lines behind new ones.
                self.sync_now()?;
                self.length = keep;
                self.limit.store(u64::MAX, Ordering::Release);
            }
        }
        self.repair = Repair::None;
        let marker = self.dir.join(MARKER);
        if self.fs.exists(&marker) {
            self.fs.remove(&marker).map_err(Error::io("remove", &marker))?;
        }
        self.reserve();
        self.begun = true;
        Ok(())
    }

    /// Makes the log and its name durable, here and now.
    fn sync_now(&mut self) -> Result<(), Error> {
        let synced =
            self.file.sync().and_then(|()| self.entries.iter().try_for_each(|dir| self.fs.sync_dir(dir)));
        synced.map_err(|e| self.poison(&format!("a sync failed: {e}")))
    }

    /// A sync of the writer before may have failed: then the system takes for written what is not, and no later sync
    /// brings it to the disk. It may have died before it could say so. What no line says was synced is good by the
    /// check that opening did, and is put on its way again.
    fn write_anew(&mut self) -> std::io::Result<()> {
        if let Some(from) = self.doubt {
            self.fs.rewrite(&self.path, from)?;
            self.doubt = None;
        }
        Ok(())
    }

    fn reserve(&mut self) {
        let path = self.dir.join(RESERVE);
        let made = self.fs.open(&path, Access::Ensure).and_then(|file| file.allocate(RESERVE_BYTES));
        self.reserve = match made {
            Ok(()) => Reserve::Kept,
            Err(e) => {
                // What was got of it is room that the lines of this log need more.
                let _ = self.fs.remove(&path);
                if is_full(&e) { Reserve::Wanted } else { Reserve::Never }
            }
        };
    }

    /// A write found no room: back to the last whole line, and the reserve is given up for the closers.
    fn full(&mut self) -> Error {
        let torn = self.file.meta().is_ok_and(|meta| meta.length != self.length);
        if let Err(e) = self.file.set_len(self.length) {
            return self.poison(&format!("a torn write could not be cut: {e}"));
        }
        // As after the cut of a torn tail.
        if torn && let Err(poisoned) = self.sync_now() {
            return poisoned;
        }
        let _ = self.fs.remove(&self.dir.join(RESERVE));
        if self.reserve == Reserve::Kept {
            self.reserve = Reserve::Wanted;
        }
        Error::Full { path: self.path.clone() }
    }

    /// Puts a record behind those of the index file that hold.
    fn add_to_index(&self, place: u64, record: &[u8]) -> std::io::Result<()> {
        let file = self.fs.open(&self.dir.join(INDEX), Access::Ensure)?;
        if file.meta()?.length != place {
            file.set_len(place)?;
        }
        match file.append(record)? {
            n if n == record.len() => Ok(()),
            _ => file.set_len(place).and(Err(std::io::ErrorKind::WriteZero.into())),
        }
    }

    /// Whether the file is the one we opened, as long as we left it.
    fn still_ours(&self) -> Result<(), String> {
        let meta = self.fs.meta(&self.path).map_err(|e| format!("the log is gone: {e}"))?;
        if meta.id != self.id {
            return Err("the log was replaced by another file".into());
        }
        if meta.length != self.length {
            return Err(format!("somebody else wrote: {} bytes, expected {}", meta.length, self.length));
        }
        Ok(())
    }
}

impl Log for FileLog {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        self.open_check()?;
        if !self.begun {
            self.begin()?;
        }
        match self.file.append(lines) {
            Ok(n) if n == lines.len() => {
                self.length += n as u64;
                if self.reserve == Reserve::Wanted {
                    self.reserve();
                }
                Ok(())
            }
            Ok(_) => Err(self.full()),
            Err(e) if is_full(&e) => Err(self.full()),
            Err(e) => Err(self.poison(&format!("a write failed: {e}"))),
        }
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        if let Err(e) = self.open_check() {
            return std::future::ready(Err(e)).boxed();
        }
        if let Err(why) = self.still_ours() {
            let error = self.poison(&why);
            return std::future::ready(Err(error)).boxed();
        }
        // A sync before the first append, too, answers for what the writer before could not bring to the disk.
        if let Err(e) = self.write_anew() {
            let error = self.poison(&format!("a write failed: {e}"));
            return std::future::ready(Err(error)).boxed();
        }
        let synced = self.fs.sync(self.file.clone(), std::mem::take(&mut self.entries));
        let path = self.path.clone();
        async move { synced.await.map_err(|e| Error::Poisoned { path, why: format!("a sync failed: {e}") }) }
            .boxed()
    }

    fn poison(&mut self, why: &str) -> Error {
        self.closed.get_or_insert_with(|| why.to_owned());
        // The marker helps the next open; it cannot be demanded of a disk that just failed.
        let marker = self.fs.open(&self.dir.join(MARKER), Access::Ensure);
        let _ = marker.and_then(|marker| marker.append(why.as_bytes()));
        Error::Poisoned { path: self.path.clone(), why: why.to_owned() }
    }

    fn rest(&mut self, index: &mut Index, rest: &Rest) {
        let Ok(Ok(modified)) = self.file.meta().map(|meta| meta.modified.duration_since(UNIX_EPOCH)) else {
            return;
        };
        if let Some((place, record)) = index.rest(rest, modified.as_nanos())
            && self.add_to_index(place, &record).is_err()
        {
            index.give_up();
        }
    }

    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        let file = self.fs.open(&self.path, Access::Read).map_err(Error::io("open", &self.path))?;
        let mut file = Reader::new(file);
        file.seek(SeekFrom::Start(from)).map_err(Error::io("read", &self.path))?;
        Ok(Box::new(LogReader { file, at: from, limit: self.limit.clone() }))
    }

    fn length(&self) -> u64 {
        self.repair.leaves(self.length)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn has_blob(&self, blob: &Digest) -> bool {
        self.fs.is_file(&self.dir.join(beside::place(blob)))
    }

    fn blob(&self, blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
        beside::read(&*self.fs, &self.dir, blob)
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        let _ = self.fs.remove(&self.dir.join(RESERVE));
    }
}

/// Reads a log as its writer sees it: a torn tail that waits to be cut is not in it.
struct LogReader {
    file: Reader,
    at: u64,
    limit: Arc<AtomicU64>,
}

impl Read for LogReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let room = self.limit.load(Ordering::Acquire).saturating_sub(self.at);
        let most = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let n = self.file.read(&mut buf[..most])?;
        self.at += n as u64;
        Ok(n)
    }
}
