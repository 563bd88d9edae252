//! Logs as files: `<sessions>/<id>/log.jsonl`, appended by one writer, cut only where a crash tore it.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use terret_core::id::SessionId;
use terret_core::line::{Event, SessionHeader, Tip};

use super::begin::{entries, make_dirs, never_begun, sync_dir, write_log};
use super::end::{FileLog, Found};
use super::lock::Lock;
use super::repair::{COPY_BYTES, Repair};
use super::{Opened, Process, Scan, Store, Whole};
use crate::error::Error;

/// Sessions in one directory, each in its own.
#[derive(Clone, Debug)]
pub struct FileStore {
    sessions: PathBuf,
    syncing: Syncing,
}

/// Where the disk is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Syncing {
    /// On the runtime's blocking threads, so that other tasks go on.
    #[default]
    Aside,
    /// On the thread that asks.
    InPlace,
}

impl FileStore {
    /// A store over this directory; it is made with the first session.
    pub fn new(sessions: impl Into<PathBuf>) -> Self {
        FileStore { sessions: sessions.into(), syncing: Syncing::default() }
    }

    /// Waits for the disk on the thread that asks. For a process that runs one session and nothing beside it:
    /// two changes of threads less for each barrier.
    pub fn syncing_in_place(self) -> Self {
        FileStore { syncing: Syncing::InPlace, ..self }
    }

    /// The directory.
    pub fn sessions(&self) -> &Path {
        &self.sessions
    }

    /// Path of a session's log.
    pub fn log_path(&self, id: &str) -> PathBuf {
        self.sessions.join(id).join("log.jsonl")
    }

    /// Moves a session that nobody writes to a place in `trash`, and says to which.
    pub fn remove(&self, id: &str, trash: &Path) -> Result<PathBuf, Error> {
        let dir = self.sessions.join(id);
        let plain = matches!(*Path::new(id).components().collect::<Vec<_>>(), [Component::Normal(_)]);
        if !plain || !dir.is_dir() {
            return Err(Error::NoSession(id.to_owned()));
        }
        // Held over the move: no writer begins in between.
        let lock = Lock::take(&dir, id, crate::clock::epoch_ms())?;
        make_dirs(trash)?;
        let mut target = trash.join(id);
        for n in 1_u64.. {
            if !target.exists() {
                break;
            }
            target = trash.join(format!("{id}-{n}"));
        }
        std::fs::rename(&dir, &target).map_err(Error::io("move", &dir))?;
        drop(lock);
        Ok(target)
    }
}

/// The place of a log that is about to begin.
struct Place {
    dir: PathBuf,
    path: PathBuf,
    lock: Lock,
    /// The directories without whose entries a power cut loses it.
    entries: Vec<PathBuf>,
}

impl Place {
    /// Writes the beginning of the log. What could not even begin is taken away again: nothing was acknowledged.
    fn begin(&self, write: impl FnOnce(&File) -> std::io::Result<()>) -> Result<File, Error> {
        write_log(&self.dir, &self.path, write).inspect_err(|_| {
            let _ = std::fs::remove_file(self.dir.join("lock")).and_then(|()| std::fs::remove_dir(&self.dir));
        })
    }
}

impl FileStore {
    /// Takes the place of a new session: its directory and its lock. Fails if the id is taken.
    fn place(&self, id: &SessionId, now_ms: u64) -> Result<Place, Error> {
        let dir = self.sessions.join(id.as_str());
        let path = dir.join("log.jsonl");
        let grown = make_dirs(&self.sessions)?;
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => {}
            // What a crash in here leaves is free.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && never_begun(&path) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(Error::Exists(id.clone())),
            Err(e) => return Err(Error::io("create", &dir)(e)),
        }
        refuse_network(&dir)?;
        let lock = Lock::take(&dir, id.as_str(), now_ms)?;
        // Only under the lock is it sure that nobody else is beginning it.
        if !never_begun(&path) {
            return Err(Error::Exists(id.clone()));
        }
        let entries = entries(&dir, grown);
        Ok(Place { dir, path, lock, entries })
    }
}

impl Store for FileStore {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        let place = self.place(&header.id, header.created)?;
        let line = header.to_line().map_err(|e| Error::io("write", &place.path)(e.into()))?;
        let file = place.begin(|mut file| file.write_all(&line))?;
        let header_hash = terret_core::id::Digest::of(&line[..line.len() - 1]);
        let (length, Place { dir, path, lock, entries }) = (line.len() as u64, place);
        let log = FileLog::new(Found {
            path,
            dir,
            file,
            lock,
            length,
            repair: Repair::None,
            entries,
            syncing: self.syncing,
        })?;
        let process = Process::this();
        Ok(Opened {
            header,
            header_hash,
            tip: Tip::default(),
            epoch: 1,
            cut_bytes: None,
            process,
            log: Box::new(log),
        })
    }

    fn open(&self, id: &str, fold: &mut dyn FnMut(&Event)) -> Result<Opened, Error> {
        let dir = self.sessions.join(id);
        let path = dir.join("log.jsonl");
        if !path.exists() {
            return Err(Error::NoSession(id.to_owned()));
        }
        refuse_network(&dir)?;
        let lock = Lock::take(&dir, id, crate::clock::epoch_ms())?;
        let mut scan = Scan::open(&path)?;
        let owner = &scan.header().id;
        if owner.as_str() != id {
            // Two writers of one session, each in its own copy, would hand out the same keys.
            let why = format!("it is the log of session `{owner}`: only a directory of that name is written");
            return Err(Error::NotALog { path, why });
        }
        let mut context = None;
        let bad = scan.fold(&mut |event| {
            context = context.take().or_else(|| super::list::needs_plugin(event));
            fold(event);
        })?;
        let length = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        let repair = match &bad {
            Some(bad) => {
                if !scan.is_torn_tail(bad)? {
                    return Err(bad.clone().into_error(&path));
                }
                Repair::Cut { keep: scan.offset(), epoch: scan.epoch() + 1 }
            }
            None if scan.unterminated() => Repair::Newline,
            None => Repair::None,
        };
        if let Some((seq, plugin)) = context {
            return Err(Error::MissingPlugin { seq, plugin });
        }
        let cut_bytes = bad.map(|_| length - scan.offset());
        let file =
            OpenOptions::new().append(true).read(true).open(&path).map_err(Error::io("open", &path))?;
        // No line says that a sync was ever done: the writers before may have died before the first.
        let entries = if scan.synced().is_none() { entries(&dir, Vec::new()) } else { Vec::new() };
        let header_hash = scan.header_hash();
        let (header, tip, epoch) = (scan.header().clone(), scan.tip().clone(), scan.epoch() + 1);
        let log =
            FileLog::new(Found { path, dir, file, lock, length, repair, entries, syncing: self.syncing })?;
        let process = Process::this();
        Ok(Opened { header, header_hash, tip, epoch, cut_bytes, process, log: Box::new(log) })
    }

    fn dir(&self, id: &str) -> Option<PathBuf> {
        Some(self.sessions.join(id))
    }

    fn read(&self, id: &str) -> Result<Scan<Box<dyn Read + Send>>, Error> {
        let path = self.log_path(id);
        if !path.exists() {
            return Err(Error::NoSession(id.to_owned()));
        }
        Scan::over(&path, |file| Box::new(file) as Box<dyn Read + Send>)
    }

    fn adopt(&self, id: &SessionId, write: Whole<'_>) -> Result<(), Error> {
        let place = self.place(id, crate::clock::epoch_ms())?;
        place.begin(|file| {
            let mut out = BufWriter::with_capacity(COPY_BYTES, file);
            write(&mut out)?;
            out.flush()?;
            // It gets its name only when all of it is there for good.
            file.sync_all()
        })?;
        place.entries.iter().try_for_each(|dir| sync_dir(dir).map_err(Error::io("sync", dir)))
    }
}

/// Locks on network file systems do not hold: writing there would risk two writers.
fn refuse_network(dir: &Path) -> Result<(), Error> {
    const NFS: i64 = 0x6969;
    const SMB: i64 = 0x517b;
    const CIFS: i64 = 0xff53_4d42;
    const SMB2: i64 = 0xfe53_4d42;
    let kind = rustix::fs::statfs(dir).map_err(|e| Error::io("read", dir)(e.into()))?.f_type as i64;
    if [NFS, SMB, CIFS, SMB2].contains(&kind) {
        return Err(Error::Config(format!(
            "`{}` is on a network file system, where locks do not hold: choose a local `TERRET_HOME`",
            dir.display()
        )));
    }
    Ok(())
}
