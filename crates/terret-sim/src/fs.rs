//! A simulated file system: what it shows and what is on its disk are two things, and a crash tells them apart.
//!
//! Every operation is counted by whoever decides its fate ([`Fate`]). A process that died changes nothing any more.
//! Its death keeps all that it wrote; a power cut keeps what was synced, and of the rest what the dice leave.

mod bytes;
mod content;
mod disk;
mod fate;
mod names;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::store::Process;
use terret::store::fs::{Access, File, FileSystem, Meta};

pub use disk::{Loss, Report};
pub use fate::{Calm, Done, Fate, Kind, Op, Verdict};

use disk::Disk;
use names::Ino;

/// The file system as one process sees it.
#[derive(Clone)]
pub struct SimFs {
    disk: Arc<Mutex<Disk>>,
    pid: u32,
    fate: Arc<dyn Fate>,
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFs({})", self.pid)
    }
}

/// What follows of the verdict for the operation itself.
struct Course {
    /// Bytes of a write that are taken at most.
    most: usize,
    /// It fails, or is never told.
    ends: Option<io::Error>,
    /// Whether anything of it is done.
    done: bool,
}

impl SimFs {
    /// An empty disk, and a first process on it.
    pub fn new(seed: u64, fate: Arc<dyn Fate>) -> Self {
        let mut disk = Disk::new(seed);
        let pid = disk.begin();
        SimFs { disk: Arc::new(Mutex::new(disk)), pid, fate }
    }

    /// Another process on the same machine.
    pub fn process_begins(&self, fate: Arc<dyn Fate>) -> Self {
        let pid = self.disk().begin();
        SimFs { disk: self.disk.clone(), pid, fate }
    }

    /// This process dies.
    pub fn kill(&self) {
        let mut disk = self.disk();
        if disk.is_alive(self.pid) {
            disk.kill(self.pid);
        }
    }

    /// Whether this process lives.
    pub fn lives(&self) -> bool {
        self.disk().is_alive(self.pid)
    }

    /// The power goes, for every process.
    pub fn cut_power(&self, loss: Loss) -> Report {
        self.disk().cut_power(loss)
    }

    /// The disk takes so many bytes more; `None`: enough.
    pub fn set_room(&self, room: Option<u64>) {
        self.disk().room = room;
    }

    /// What a file shows, if it is there, for whoever looks from outside.
    pub fn look<T>(&self, path: &Path, at: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let mut disk = self.disk();
        let ino = disk.find(path);
        let file = ino.and_then(|ino| disk.file(ino));
        at(file.ok().map(|file| file.content.cached.as_slice()))
    }

    /// Bytes of a file that no power cut can take or change.
    pub fn safe_bytes(&self, path: &Path) -> usize {
        let mut disk = self.disk();
        let Some(ino) = disk.find_safe(path).filter(|ino| disk.find(path).is_ok_and(|shown| shown == *ino))
        else {
            return 0;
        };
        disk.file(ino).map_or(0, |file| file.content.safe())
    }

    /// Whether somebody holds the lock of a file.
    pub fn is_locked(&self, path: &Path) -> bool {
        self.holder(path, None).is_some()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act<T>(
        &self,
        kind: Kind,
        path: &Path,
        work: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        let course = self.ask(&Op { kind, path, bytes: 0 })?;
        let mut disk = self.disk();
        let done = if course.done { Some(work(&mut disk)) } else { None };
        match (course.ends, done) {
            (Some(e), _) => Err(self.ended(disk, e)),
            (None, Some(done)) => done,
            (None, None) => Err(failed()),
        }
    }

    /// The process may have died over it.
    fn ended(&self, mut disk: MutexGuard<'_, Disk>, e: io::Error) -> io::Error {
        if e.kind() == DEAD {
            disk.kill(self.pid);
        }
        e
    }

    fn ask(&self, op: &Op<'_>) -> io::Result<Course> {
        if !self.lives() {
            return Err(dead());
        }
        let go = Course { most: op.bytes, ends: None, done: true };
        Ok(match self.fate.verdict(op) {
            Verdict::Go => go,
            Verdict::Room(room) => {
                self.set_room(room);
                go
            }
            Verdict::Short(most) => Course { most, ..go },
            Verdict::Fail(most) => Course { most, ends: Some(failed()), done: false },
            Verdict::Die(Done::Nothing) => Course { most: 0, ends: Some(dead()), done: false },
            Verdict::Die(Done::Part(most)) => Course { most, ends: Some(dead()), done: false },
            Verdict::Die(Done::All) => Course { ends: Some(dead()), ..go },
        })
    }

    fn opened(&self, ino: Ino, path: &Path) -> Arc<dyn File> {
        let id = self.disk().mint();
        Arc::new(SimFile { fs: self.clone(), ino, id, path: path.to_owned() })
    }
}

/// The kind of error that every operation of a dead process gives.
const DEAD: io::ErrorKind = io::ErrorKind::ConnectionAborted;

fn dead() -> io::Error {
    io::Error::new(DEAD, "the process is dead")
}

fn failed() -> io::Error {
    io::Error::other("the disk failed")
}

impl FileSystem for SimFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let ino = self.act(Kind::Open, path, |disk| {
            let there = disk.find(path);
            match (access, there) {
                (Access::Read | Access::Append, there) => there,
                (Access::Create, Ok(_)) => Err(io::ErrorKind::AlreadyExists.into()),
                (Access::Create | Access::Ensure, _) => disk.ensure_file(path),
            }
        })?;
        self.disk().file(ino)?;
        Ok(self.opened(ino, path))
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        self.act(Kind::Meta, path, |disk| disk.find(path).and_then(|ino| disk.meta(ino)))
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.act(Kind::Names, dir, |disk| disk.names(dir))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.act(Kind::CreateDir, dir, |disk| disk.create_dir(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act(Kind::Rename, from, |disk| disk.rename(from, to))
    }

    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
        self.act(Kind::Rewrite, path, |disk| {
            let ino = disk.find(path)?;
            disk.file(ino)?.content.rewrite(from as usize);
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act(Kind::Link, from, |disk| disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.act(Kind::Remove, path, |disk| disk.remove(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.act(Kind::RemoveDir, dir, |disk| disk.remove_dir(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.act(Kind::SyncDir, dir, |disk| disk.sync_dir(dir))
    }

    fn sync(&self, file: Arc<dyn File>, dirs: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
        let fs = self.clone();
        let (issued, takes) = (file.meta(), self.fate.sync_takes());
        if let Ok(meta) = &issued {
            self.disk().issue_sync(meta.id.1);
        }
        async move {
            issued?;
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            file.sync()?;
            dirs.iter().try_for_each(|dir| fs.sync_dir(dir))
        }
        .boxed()
    }

    fn is_remote(&self, _dir: &Path) -> io::Result<bool> {
        Ok(false)
    }

    fn holder(&self, path: &Path, _noted: Option<u32>) -> Option<u32> {
        let mut disk = self.disk();
        let ino = disk.find(path).ok()?;
        disk.file(ino).ok()?.lock.map(|(pid, _)| pid)
    }

    fn process(&self) -> Process {
        Process { pid: self.pid, host: "sim".to_owned(), boot: format!("boot-{}", self.disk().boot) }
    }

    fn is_alive(&self, pid: u32) -> bool {
        self.disk().is_alive(pid)
    }
}

/// An open file.
#[derive(Debug)]
struct SimFile {
    fs: SimFs,
    ino: Ino,
    id: u32,
    path: PathBuf,
}

impl File for SimFile {
    fn meta(&self) -> io::Result<Meta> {
        self.fs.act(Kind::Meta, &self.path, |disk| disk.meta(self.ino))
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.fs.act(Kind::Read, &self.path, |disk| {
            let bytes = &disk.file(self.ino)?.content.cached;
            let rest = &bytes[(at as usize).min(bytes.len())..];
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let course = self.fs.ask(&Op { kind: Kind::Append, path: &self.path, bytes: bytes.len() })?;
        let mut disk = self.fs.disk();
        let taken = disk.append(self.ino, &bytes[..course.most.min(bytes.len())]);
        match course.ends {
            Some(e) => Err(self.fs.ended(disk, e)),
            None => taken,
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.fs.act(Kind::SetLen, &self.path, |disk| disk.set_len(self.ino, length))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.fs.act(Kind::Allocate, &self.path, |disk| disk.allocate(self.ino, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        let course = self.fs.ask(&Op { kind: Kind::Sync, path: &self.path, bytes: 0 })?;
        let mut disk = self.fs.disk();
        if course.done {
            disk.sync(self.ino)?;
        }
        let Some(e) = course.ends else { return Ok(()) };
        if e.kind() != DEAD {
            disk.fail_sync(self.ino);
        } else if course.most > 0 {
            disk.write_back(self.ino);
        }
        Err(self.fs.ended(disk, e))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.fs.act(Kind::Lock, &self.path, |disk| {
            let lock = &mut disk.file(self.ino)?.lock;
            let free = lock.is_none();
            if free {
                *lock = Some((self.fs.pid, self.id));
            }
            Ok(free)
        })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut disk = self.fs.disk();
        let Ok(file) = disk.file(self.ino) else { return };
        file.lock = file.lock.filter(|(_, id)| *id != self.id);
    }
}
