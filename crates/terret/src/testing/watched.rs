//! A file system on which somebody is asked before each step that changes something: to let one fail, or to let the
//! process die there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::store::Process;
use crate::store::fs::{Access, File, FileSystem, LocalFs, Meta};

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file is made, if it is not there.
    Create,
    /// A directory is made.
    CreateDir,
    /// A name is given, moved or taken away.
    Name,
    /// The first half of the bytes of one append is written.
    Append,
    /// The rest of them.
    AppendRest,
    /// The bytes of a file are written once more in place.
    Rewrite,
    /// A file is cut, or room is taken for it.
    Resize,
    /// Bytes or names are made durable.
    Sync,
    /// A lock is taken.
    Lock,
}

/// Asked before each step. An error is what the step comes to, and nothing of it is done.
type Ask = Arc<dyn Fn(Step) -> io::Result<()> + Send + Sync>;

/// The machine's own file system, watched. Reading is not: a crash before it is a crash before the next change.
/// An append is two writes here, so that a process can die between them. Syncs are waited for in place.
#[derive(Clone)]
pub struct Watched {
    fs: LocalFs,
    ask: Ask,
    remote: bool,
}

impl Watched {
    /// Asks this before each step.
    pub fn new(ask: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Watched { fs: LocalFs { sync_in_place: true }, ask: Arc::new(ask), remote: false }
    }

    /// The same, as if it were on another machine.
    pub fn remote(self) -> Self {
        Watched { remote: true, ..self }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl FileSystem for Watched {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        if matches!(access, Access::Ensure | Access::Create) {
            (self.ask)(Step::Create)?;
        }
        Ok(Arc::new(WatchedFile { file: self.fs.open(path, access)?, ask: self.ask.clone() }))
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        self.fs.meta(path)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.fs.names(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        (self.ask)(Step::CreateDir)?;
        self.fs.create_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.ask)(Step::Name)?;
        self.fs.rename(from, to)
    }

    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
        (self.ask)(Step::Rewrite)?;
        self.fs.rewrite(path, from)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.ask)(Step::Name)?;
        self.fs.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        (self.ask)(Step::Name)?;
        self.fs.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        (self.ask)(Step::Name)?;
        self.fs.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.ask)(Step::Sync)?;
        self.fs.sync_dir(dir)
    }

    fn sync(&self, file: Arc<dyn File>, dirs: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
        let synced = file.sync().and_then(|()| dirs.iter().try_for_each(|dir| self.sync_dir(dir)));
        std::future::ready(synced).boxed()
    }

    fn is_remote(&self, dir: &Path) -> io::Result<bool> {
        Ok(self.remote || self.fs.is_remote(dir)?)
    }

    fn holder(&self, path: &Path, noted: Option<u32>) -> Option<u32> {
        self.fs.holder(path, noted)
    }

    fn process(&self) -> Process {
        self.fs.process()
    }

    fn is_alive(&self, pid: u32) -> bool {
        self.fs.is_alive(pid)
    }
}

struct WatchedFile {
    file: Arc<dyn File>,
    ask: Ask,
}

impl fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl File for WatchedFile {
    fn meta(&self) -> io::Result<Meta> {
        self.file.meta()
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buf, at)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        (self.ask)(Step::Append)?;
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        let written = self.file.append(first)?;
        if written < first.len() {
            return Ok(written);
        }
        (self.ask)(Step::AppendRest)?;
        Ok(written + self.file.append(rest)?)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        (self.ask)(Step::Resize)?;
        self.file.set_len(length)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        (self.ask)(Step::Resize)?;
        self.file.allocate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        (self.ask)(Step::Sync)?;
        self.file.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        (self.ask)(Step::Lock)?;
        self.file.try_lock()
    }
}
