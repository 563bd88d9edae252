//! What the store asks of the machine it keeps logs on: files, locks, syncs, and whose machine it is.
//!
//! One implementation is the machine's own ([`LocalFs`]). Others stand in for it: a simulated disk that loses
//! what was not synced, or one that counts operations and dies at a chosen one. Every operation of the store is a
//! call of this trait, so a crash between any two of them is a crash between two calls.
//! Source: `docs/reference/log-format.md`.

mod local;
mod pool;

use std::fmt::Debug;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;

use super::Process;

pub use local::LocalFs;

/// A file system, and the machine and process that use it. Directories are made for their owner alone (0700), and
/// so are files (0600).
pub trait FileSystem: Debug + Send + Sync {
    /// Opens a file. One that is to be read only is not locked or changed by that.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// What is at `path`. Fails with `NotFound` if nothing is.
    fn meta(&self, path: &Path) -> io::Result<Meta>;

    /// Names of a directory's entries, in any order.
    fn names(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes one directory. Fails with `AlreadyExists` if the name is taken.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Gives a file or a directory another name at once; a file that has it is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Writes the bytes of a file from this one on once more in place, so that the next sync takes them along: after
    /// a sync that failed the system may take them to be on disk when they are not.
    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()>;

    /// Gives a file a second name. Fails where the file system has no such thing.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the bytes of a file durable, then the entries of these directories, wherever waiting for that is best.
    fn sync(&self, file: Arc<dyn File>, dirs: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>>;

    /// Whether this directory is on another machine, where locks may not hold.
    fn is_remote(&self, dir: &Path) -> io::Result<bool>;

    /// The process that holds the lock of the file at `path`, found without taking it. `noted` is the process that
    /// is said to, for a system that can only tell with that help.
    fn holder(&self, path: &Path, noted: Option<u32>) -> Option<u32>;

    /// The process that asks.
    fn process(&self) -> Process;

    /// Whether a process of this machine is there.
    fn is_alive(&self, pid: u32) -> bool;
}

/// An open file. Its lock, if it took one, is let go with the last reference to it.
pub trait File: Debug + Send + Sync {
    /// What the file is now.
    fn meta(&self) -> io::Result<Meta>;

    /// Reads from a place on; 0 bytes at the end.
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;

    /// Adds bytes to the end by one write, and says how many there was room for.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts or extends the file.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Takes room on the disk without writing.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Makes its bytes and its length durable.
    fn sync(&self) -> io::Result<()>;

    /// Takes the file's lock, if nobody has it. It falls with the process at the latest.
    fn try_lock(&self) -> io::Result<bool>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read what is there.
    Read,
    /// To read, and to add to what is there.
    Append,
    /// The same, of a file that may have to be made.
    Ensure,
    /// The same, of a file that must not be there yet.
    Create,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Which file: device and number. Two names of one file have the same.
    pub id: (u64, u64),
    /// Bytes.
    pub length: u64,
    /// What it is.
    pub kind: Kind,
    /// When its bytes last changed, by the file system's clock.
    pub modified: SystemTime,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file of bytes.
    File,
    /// A directory.
    Directory,
    /// A pipe, a device, a socket.
    Other,
}

impl dyn FileSystem + '_ {
    /// Whether something is at `path`.
    pub(super) fn exists(&self, path: &Path) -> bool {
        self.meta(path).is_ok()
    }

    /// Whether a directory is at `path`.
    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.meta(path).is_ok_and(|meta| meta.kind == Kind::Directory)
    }

    /// Whether a file of bytes is at `path`.
    pub(super) fn is_file(&self, path: &Path) -> bool {
        self.meta(path).is_ok_and(|meta| meta.kind == Kind::File)
    }
}

/// A file read from its start, or from a place that was sought.
#[derive(Clone, Debug)]
pub struct Reader {
    file: Arc<dyn File>,
    at: u64,
}

impl Reader {
    /// Reads from the start on.
    pub fn new(file: Arc<dyn File>) -> Self {
        Reader { file, at: 0 }
    }

    /// The file.
    pub(super) fn into_file(self) -> Arc<dyn File> {
        self.file
    }
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buf, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.at, by),
            SeekFrom::End(by) => (self.file.meta()?.length, by),
        };
        let outside = || io::Error::from(io::ErrorKind::InvalidInput);
        self.at = base.checked_add_signed(by).ok_or_else(outside)?;
        Ok(self.at)
    }
}

/// The end of a file, as something to write to.
pub(super) struct Appender<'a>(pub(super) &'a dyn File);

impl Write for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
