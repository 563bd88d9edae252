//! Logs as files: `<sessions>/<id>/log.jsonl`, appended by one writer, cut only where a crash tore it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::line::{Event, SessionHeader, Tip};

use super::lock::Lock;
use super::places::boot_id;
use super::{Log, Opened, Scan, Store};
use crate::error::Error;
use crate::limits::RESERVE_BYTES;

/// Sessions in one directory, each in its own.
#[derive(Clone, Debug)]
pub struct FileStore {
    sessions: PathBuf,
}

impl FileStore {
    /// A store over this directory; it is made with the first session.
    pub fn new(sessions: impl Into<PathBuf>) -> Self {
        FileStore { sessions: sessions.into() }
    }

    /// The directory.
    pub fn sessions(&self) -> &Path {
        &self.sessions
    }

    /// Path of a session's log.
    pub fn log_path(&self, id: &str) -> PathBuf {
        self.sessions.join(id).join("log.jsonl")
    }
}

impl Store for FileStore {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        let dir = self.sessions.join(header.id.as_str());
        let path = dir.join("log.jsonl");
        let make = |path: &Path| std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
        let fresh_parent = !self.sessions.exists();
        make(&self.sessions).map_err(Error::io("create", &self.sessions))?;
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => {}
            // A directory without a log is what a crash in here leaves: it is free.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && !path.exists() => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists(header.id));
            }
            Err(e) => return Err(Error::io("create", &dir)(e)),
        }
        refuse_network(&dir)?;
        let lock = Lock::take(&dir, header.id.as_str(), header.created)?;
        let line = header.to_line().map_err(|e| Error::io("write", &path)(e.into()))?;
        let mut file =
            OpenOptions::new().append(true).read(true).create_new(true).mode(0o600).open(&path).map_err(
                |e| match e.kind() {
                    std::io::ErrorKind::AlreadyExists => Error::Exists(header.id.clone()),
                    _ => Error::io("create", &path)(e),
                },
            )?;
        if let Err(e) = file.write_all(&line) {
            // Nothing was acknowledged yet: a log that could not even begin is taken away again.
            let _ = std::fs::remove_dir_all(&dir);
            return Err(if is_full(&e) { Error::Full { path } } else { Error::io("write", &path)(e) });
        }
        let mut entries = vec![dir.clone(), self.sessions.clone()];
        if fresh_parent && let Some(parent) = self.sessions.parent() {
            entries.push(parent.to_owned());
        }
        let header_hash = terret_core::id::Digest::of(&line[..line.len() - 1]);
        let log = FileLog::new(path, dir, file, lock, line.len() as u64, Repair::Entries(entries))?;
        Ok(Opened { header, header_hash, tip: Tip::default(), epoch: 1, cut_bytes: None, log: Box::new(log) })
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
        let mut context = None;
        let bad = loop {
            match scan.next_event()? {
                None => break None,
                Some(Err(bad)) => break Some(bad),
                Some(Ok(event)) => {
                    context = context.or_else(|| super::list::needs_plugin(&event));
                    fold(&event);
                }
            }
        };
        let length = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        let poisoned = dir.join("poisoned").exists();
        let repair = match &bad {
            Some(bad) => {
                let rebooted = poisoned || scan.boot().is_some_and(|boot| boot != boot_id());
                if !scan.is_torn_tail(bad, rebooted)? {
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
        let header_hash = scan.header_hash();
        let (header, tip, epoch) = (scan.header().clone(), scan.tip().clone(), scan.epoch() + 1);
        let log = FileLog::new(path, dir, file, lock, length, repair)?;
        Ok(Opened { header, header_hash, tip, epoch, cut_bytes, log: Box::new(log) })
    }

    fn dir(&self, id: &str) -> Option<PathBuf> {
        Some(self.sessions.join(id))
    }
}

/// The end of one file.
struct FileLog {
    path: PathBuf,
    dir: PathBuf,
    file: Arc<File>,
    inode: u64,
    length: u64,
    repair: Repair,
    reserved: bool,
    closed: Option<String>,
    _lock: Lock,
}

/// What the first append, or the first sync, has to do before its own work.
#[derive(Debug)]
enum Repair {
    None,
    /// Directories whose entries are new: synced with the first sync.
    Entries(Vec<PathBuf>),
    /// The last line is whole but for its newline.
    Newline,
    /// Bytes from `keep` on are a torn tail.
    Cut {
        keep: u64,
        epoch: u64,
    },
}

impl FileLog {
    fn new(
        path: PathBuf,
        dir: PathBuf,
        file: File,
        lock: Lock,
        length: u64,
        repair: Repair,
    ) -> Result<Self, Error> {
        let inode = file.metadata().map_err(Error::io("read", &path))?.ino();
        Ok(FileLog {
            path,
            dir,
            file: Arc::new(file),
            inode,
            length,
            repair,
            reserved: false,
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

    /// Does what opening left to do. Only entries wait for the sync.
    fn repair(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.repair, Repair::None) {
            Repair::None => {}
            Repair::Entries(entries) => self.repair = Repair::Entries(entries),
            Repair::Newline => {
                (&*self.file).write_all(b"\n").map_err(Error::io("write", &self.path))?;
                self.length += 1;
            }
            Repair::Cut { keep, epoch } => {
                self.keep_torn(keep, epoch)?;
                self.file.set_len(keep).map_err(Error::io("cut", &self.path))?;
                self.length = keep;
            }
        }
        // The doubt that a failed sync left is settled by the check that opening did.
        let marker = self.dir.join("poisoned");
        if marker.exists() {
            std::fs::remove_file(&marker).map_err(Error::io("remove", &marker))?;
        }
        self.reserve();
        Ok(())
    }

    fn keep_torn(&self, keep: u64, epoch: u64) -> Result<(), Error> {
        let aside = self.dir.join(format!("torn-{epoch}"));
        let mut torn = vec![0; (self.length - keep) as usize];
        self.file.read_exact_at(&mut torn, keep).map_err(Error::io("read", &self.path))?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)
            .map_err(Error::io("create", &aside))?;
        file.write_all(&torn).and_then(|()| file.sync_all()).map_err(Error::io("write", &aside))
    }

    /// Keeps a little room, so that a full disk still takes the lines that close a turn.
    fn reserve(&mut self) {
        let path = self.dir.join("reserve");
        let made =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).and_then(
                |file| {
                    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES)
                        .map_err(Into::into)
                },
            );
        // A file system that cannot reserve only loses the comfort.
        self.reserved = made.is_ok();
    }
}

impl Log for FileLog {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        self.open_check()?;
        if !self.reserved || !matches!(self.repair, Repair::None | Repair::Entries(_)) {
            self.repair()?;
            self.reserved = true;
        }
        let outcome = (&*self.file).write(lines);
        match outcome {
            Ok(n) if n == lines.len() => {
                self.length += n as u64;
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
        let entries = match std::mem::replace(&mut self.repair, Repair::None) {
            Repair::Entries(entries) => entries,
            other => {
                self.repair = other;
                Vec::new()
            }
        };
        let (file, path) = (self.file.clone(), self.path.clone());
        let work = move || {
            file.sync_data()?;
            entries.iter().try_for_each(|dir| File::open(dir)?.sync_all())
        };
        async move {
            let poisoned = |why: String| Error::Poisoned { path: path.clone(), why };
            match tokio::task::spawn_blocking(work).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(e)) => Err(poisoned(format!("a sync failed: {e}"))),
                Err(e) => Err(poisoned(format!("a sync was lost: {e}"))),
            }
        }
        .boxed()
    }

    fn poison(&mut self, why: &str) -> Error {
        self.closed.get_or_insert_with(|| why.to_owned());
        // The marker helps the next open; it cannot be demanded of a disk that just failed.
        let _ = std::fs::write(self.dir.join("poisoned"), why);
        Error::Poisoned { path: self.path.clone(), why: why.to_owned() }
    }

    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        let mut file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        file.seek(SeekFrom::Start(from)).map_err(Error::io("read", &self.path))?;
        Ok(Box::new(file))
    }

    fn length(&self) -> u64 {
        match self.repair {
            Repair::None | Repair::Entries(_) => self.length,
            Repair::Newline => self.length + 1,
            Repair::Cut { keep, .. } => keep,
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl FileLog {
    /// A write found no room: back to the last whole line, and the reserve is given up for the closers.
    fn full(&mut self) -> Error {
        if let Err(e) = self.file.set_len(self.length) {
            return self.poison(&format!("a torn write could not be cut: {e}"));
        }
        let _ = std::fs::remove_file(self.dir.join("reserve"));
        Error::Full { path: self.path.clone() }
    }

    /// Whether the file is the one we opened, as long as we left it.
    fn still_ours(&self) -> Result<(), String> {
        let meta = std::fs::metadata(&self.path).map_err(|e| format!("the log is gone: {e}"))?;
        if meta.ino() != self.inode {
            return Err("the log was replaced by another file".into());
        }
        if meta.len() != self.length {
            return Err(format!("somebody else wrote: {} bytes, expected {}", meta.len(), self.length));
        }
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.dir.join("reserve"));
    }
}

fn is_full(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(e.kind(), FileTooLarge | QuotaExceeded | StorageFull | WriteZero)
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
