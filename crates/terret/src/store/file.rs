//! Logs as files: `<sessions>/<id>/log.jsonl`, appended by one writer, cut only where a crash tore it.

use std::io::{BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use terret_core::id::{Digest, SessionId};
use terret_core::line::{Event, SessionHeader, Tip};

use super::begin::{above, entries, make_dirs, never_begun, write_log};
use super::end::{FileLog, Found};
use super::fs::{Access, Appender, File, FileSystem, LocalFs};
use super::index::{Index, Known, skim};
use super::lock::{LOCK, Lock};
use super::opening::read_through;
use super::repair::{COPY_BYTES, Repair};
use super::{Beside, Opened, Process, Scan, Store, Whole, beside};
use crate::error::Error;

/// Sessions in one directory, each in its own.
#[derive(Clone, Debug)]
pub struct FileStore {
    fs: Arc<dyn FileSystem>,
    sessions: PathBuf,
    /// Held while bytes are kept beside a log.
    keeping: Arc<Mutex<()>>,
}

impl FileStore {
    /// A store over this directory; it is made with the first session.
    pub fn new(sessions: impl Into<PathBuf>) -> Self {
        FileStore::on(Arc::new(LocalFs::default()), sessions)
    }

    /// The same on another file system than the machine's own.
    pub fn on(fs: Arc<dyn FileSystem>, sessions: impl Into<PathBuf>) -> Self {
        FileStore { fs, sessions: sessions.into(), keeping: Arc::default() }
    }

    /// The same on the machine's own, whose disk is waited for on the thread that asks. For a process that runs one
    /// session and nothing beside it: two changes of threads less for each barrier.
    pub fn syncing_in_place(sessions: impl Into<PathBuf>) -> Self {
        FileStore::on(Arc::new(LocalFs { sync_in_place: true }), sessions)
    }

    pub(super) fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// The directory.
    pub fn sessions(&self) -> &Path {
        &self.sessions
    }

    /// Path of a session's log.
    pub fn log_path(&self, id: &str) -> PathBuf {
        self.sessions.join(id).join("log.jsonl")
    }

    /// Moves a session that nobody writes to a place in `trash`, and says to which. A crash leaves it here or there;
    /// when this returns it is there for good.
    pub fn remove(&self, id: &str, trash: &Path) -> Result<PathBuf, Error> {
        let dir = self.sessions.join(id);
        let plain = matches!(*Path::new(id).components().collect::<Vec<_>>(), [Component::Normal(_)]);
        if !plain || !self.fs.is_dir(&dir) {
            return Err(Error::NoSession(id.to_owned()));
        }
        // Held over the move: no writer begins in between.
        let lock = Lock::take(&*self.fs, &dir, id, crate::clock::epoch_ms())?;
        let sync = |dir: &Path| self.fs.sync_dir(dir).map_err(Error::io("sync", dir));
        // The place is there for good before anything is moved into it. Whoever made it may have died before that.
        let grown = make_dirs(&*self.fs, trash)?;
        grown.iter().try_for_each(|dir| sync(dir))?;
        sync(&above(trash))?;
        let mut target = trash.join(id);
        for n in 1_u64.. {
            if !self.fs.exists(&target) {
                break;
            }
            target = trash.join(format!("{id}-{n}"));
        }
        self.fs.rename(&dir, &target).map_err(Error::io("move", &dir))?;
        sync(trash)?;
        sync(&self.sessions)?;
        drop(lock);
        Ok(target)
    }
}

/// The place of a log that is about to begin.
struct Place {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    path: PathBuf,
    lock: Lock,
    /// The directories without whose entries a power cut loses it.
    entries: Vec<PathBuf>,
}

impl Place {
    /// Writes the beginning of the log. What could not even begin is taken away again: nothing was acknowledged.
    fn begin(&self, write: impl FnOnce(&dyn File) -> std::io::Result<()>) -> Result<Arc<dyn File>, Error> {
        write_log(&*self.fs, &self.dir, &self.path, write).inspect_err(|_| {
            beside::clear(&*self.fs, &self.dir);
            let _ = self.fs.remove(&self.dir.join(LOCK)).and_then(|()| self.fs.remove_dir(&self.dir));
        })
    }
}

impl FileStore {
    /// Takes the place of a new session: its directory and its lock. Fails if the id is taken.
    fn place(&self, id: &SessionId, now_ms: u64) -> Result<Place, Error> {
        let dir = self.sessions.join(id.as_str());
        let path = dir.join("log.jsonl");
        let fs = self.fs.clone();
        let grown = make_dirs(&*fs, &self.sessions)?;
        refuse_network(&*fs, &self.sessions)?;
        match fs.create_dir(&dir) {
            Ok(()) => {}
            // What a crash in here leaves is free.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && never_begun(&*fs, &path) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(Error::Exists(id.clone())),
            Err(e) => return Err(Error::io("create", &dir)(e)),
        }
        refuse_network(&*fs, &dir)?;
        let lock = Lock::take(&*fs, &dir, id.as_str(), now_ms)?;
        // Only under the lock is it sure that nobody else is beginning it.
        if !never_begun(&*fs, &path) {
            return Err(Error::Exists(id.clone()));
        }
        let entries = entries(&dir, grown);
        Ok(Place { fs, dir, path, lock, entries })
    }
}

impl Store for FileStore {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        let place = self.place(&header.id, header.created)?;
        let line = header.to_line().map_err(|e| Error::io("write", &place.path)(e.into()))?;
        let file = place.begin(|file| Appender(file).write_all(&line))?;
        let header_hash = terret_core::id::Digest::of(&line[..line.len() - 1]);
        let (length, Place { fs, dir, path, lock, entries }) = (line.len() as u64, place);
        let process = fs.process();
        let (repair, doubt) = (Repair::None, None);
        let log = FileLog::new(Found { fs, path, dir, file, lock, length, repair, doubt, entries })?;
        Ok(Opened {
            header,
            header_hash,
            tip: Tip::default(),
            epoch: 1,
            cut_bytes: None,
            process,
            index: Index::begun(),
            log: Box::new(log),
        })
    }

    fn open(&self, id: &str, fold: &mut dyn FnMut(&Event)) -> Result<Opened, Error> {
        let dir = self.sessions.join(id);
        let path = dir.join("log.jsonl");
        let fs = self.fs.clone();
        if !fs.exists(&path) {
            return Err(Error::NoSession(id.to_owned()));
        }
        refuse_network(&*fs, &dir)?;
        let lock = Lock::take(&*fs, &dir, id, crate::clock::epoch_ms())?;
        let (mut scan, known) = skim(&fs, &path, fold)?;
        let owner = &scan.header().id;
        if owner.as_str() != id {
            // Two writers of one session, each in its own copy, would hand out the same keys.
            let why = format!("it is the log of session `{owner}`: only a directory of that name is written");
            return Err(Error::NotALog { path, why });
        }
        let mut index = known.map_or_else(Index::begun, Known::into_index);
        let mut take = |event: &Event, place| {
            index.note(event.seq, event.time, &event.fact, place);
            fold(event);
        };
        let repair = read_through(&mut scan, &mut take, Scan::is_torn_tail)?;
        let length = fs.meta(&path).map_err(Error::io("read", &path))?.length;
        let cut_bytes = repair.keeps().map(|keep| length - keep);
        let file = fs.open(&path, Access::Append).map_err(Error::io("open", &path))?;
        // No line says that a sync was ever done: the writers before may have died before the first.
        let entries = if scan.synced().is_none() { entries(&dir, Vec::new()) } else { Vec::new() };
        let header_hash = scan.header_hash();
        let (header, tip, epoch) = (scan.header().clone(), scan.tip().clone(), scan.epoch() + 1);
        let process = fs.process();
        let doubt = Some(scan.synced_end());
        let log = FileLog::new(Found { fs, path, dir, file, lock, length, repair, doubt, entries })?;
        let log = Box::new(log);
        Ok(Opened { header, header_hash, tip, epoch, cut_bytes, process, index, log })
    }

    fn dir(&self, id: &str) -> Option<PathBuf> {
        Some(self.sessions.join(id))
    }

    fn process(&self) -> Process {
        self.fs.process()
    }

    fn read(&self, id: &str) -> Result<Scan<Box<dyn Read + Send>>, Error> {
        let path = self.log_path(id);
        if !self.fs.exists(&path) {
            return Err(Error::NoSession(id.to_owned()));
        }
        Scan::over(&self.fs, &path, |file| Box::new(file) as Box<dyn Read + Send>)
    }

    fn keep(&self, id: &str, bytes: &[u8]) -> Result<Digest, Error> {
        // Two that keep the same would write to the same place.
        let _one = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        beside::keep(&*self.fs, &self.sessions.join(id), bytes)
    }

    fn blob(&self, id: &str, blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
        beside::read(&*self.fs, &self.sessions.join(id), blob)
    }

    fn bring(&self, id: &SessionId, beside: &Beside) -> Result<(), Error> {
        if beside.is_empty() {
            return Ok(());
        }
        // The lock of the place is held meanwhile, and taken again for the log.
        let place = self.place(id, crate::clock::epoch_ms())?;
        beside.put(&*self.fs, &place.dir).inspect_err(|_| beside::clear(&*self.fs, &place.dir))
    }

    fn adopt(&self, id: &SessionId, write: Whole<'_>) -> Result<(), Error> {
        let place = self.place(id, crate::clock::epoch_ms())?;
        place.begin(|file| {
            let mut out = BufWriter::with_capacity(COPY_BYTES, Appender(file));
            write(&mut out)?;
            out.flush()?;
            // It gets its name only when all of it is there for good.
            file.sync()
        })?;
        place.entries.iter().try_for_each(|dir| self.fs.sync_dir(dir).map_err(Error::io("sync", dir)))
    }
}

/// Locks on network file systems do not hold: writing there would risk two writers.
fn refuse_network(fs: &dyn FileSystem, dir: &Path) -> Result<(), Error> {
    if fs.is_remote(dir).map_err(Error::io("read", dir))? {
        return Err(Error::Config(format!(
            "`{}` is on a network file system, where locks do not hold: choose a local `TERRET_HOME`",
            dir.display()
        )));
    }
    Ok(())
}
