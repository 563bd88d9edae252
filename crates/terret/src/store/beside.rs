//! Files beside a log: bytes that events name by their hash, and long output of tools.

use std::collections::BTreeSet;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terret_core::fact::Fact;
use terret_core::id::Digest;

use super::begin::above;
use super::fs::{Access, Appender, FileSystem, Reader};
use super::repair::is_full;
use crate::error::Error;
use crate::limits::MAX_ATTACHMENT_BYTES;

/// Directory of bytes named by their hash.
pub(super) const BLOBS: &str = "blobs";
/// Directory of tool output beyond the limits, named by the call.
pub(super) const SPILL: &str = "spill";
/// What a file that is being written is called beyond its name.
const UNBORN: &str = "new";

/// Files that stand beside one log, to be taken along to another.
#[derive(Debug)]
pub struct Beside {
    fs: Arc<dyn FileSystem>,
    /// The directory of the log.
    dir: PathBuf,
    /// Their places below it.
    names: BTreeSet<PathBuf>,
}

/// What a log may have beside it that this event names.
pub(super) fn named(fact: &Fact) -> impl Iterator<Item = PathBuf> {
    let mut spilled = None;
    if let Fact::ToolResult(result) = fact {
        spilled = Some(Path::new(SPILL).join(format!("{}.txt", result.call)));
    }
    let blobs = fact.attachments().into_iter().map(|attachment| place(&attachment.blob));
    blobs.collect::<Vec<_>>().into_iter().chain(spilled)
}

/// Place of a blob below the session's directory.
pub(super) fn place(blob: &Digest) -> PathBuf {
    Path::new(BLOBS).join(blob.to_string())
}

impl Beside {
    /// Of these, the ones that stand beside the log.
    pub(super) fn new(fs: &Arc<dyn FileSystem>, log: &Path, names: BTreeSet<PathBuf>) -> Self {
        let (dir, is_file) = (above(log), fs.is_file(log));
        let there = |name: &PathBuf| is_file && fs.is_file(&dir.join(name));
        Beside { fs: fs.clone(), names: names.into_iter().filter(there).collect(), dir }
    }

    /// All that stand beside the log.
    pub(super) fn all(fs: &Arc<dyn FileSystem>, log: &Path) -> Self {
        let dir = above(log);
        let within = |sub: &str| {
            let names = fs.names(&dir.join(sub)).unwrap_or_default().into_iter();
            names
                .filter(|name| !name.ends_with(UNBORN))
                .map(|name| Path::new(sub).join(name))
                .collect::<Vec<_>>()
        };
        Beside::new(fs, log, within(BLOBS).into_iter().chain(within(SPILL)).collect())
    }

    /// The bytes of each blob among them.
    pub(super) fn blobs(&self) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        let blobs = self.names.iter().filter(|name| name.starts_with(BLOBS));
        blobs.map(|name| {
            let mut bytes = Vec::new();
            Reader::new(self.fs.open(&self.dir.join(name), Access::Read)?).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// Puts them into another directory, by a second name or as copies; durable when it returns.
    pub(super) fn put(&self, fs: &dyn FileSystem, dir: &Path) -> Result<(), Error> {
        for name in &self.names {
            let (from, to) = (self.dir.join(name), dir.join(name));
            sub_dir(fs, &to)?;
            if fs.exists(&to) || fs.link(&from, &to).is_ok() {
                continue;
            }
            let read = self.fs.open(&from, Access::Read).map_err(Error::io("read", &from))?;
            write_new(fs, &to, &mut Reader::new(read))?;
        }
        let dirs: BTreeSet<_> = self.names.iter().filter_map(|name| name.parent()).collect();
        for sub in dirs.into_iter().map(|sub| dir.join(sub)).chain([dir.to_owned()]) {
            fs.sync_dir(&sub).map_err(Error::io("sync", &sub))?;
        }
        Ok(())
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Keeps bytes beside the log in `dir`; durable when it returns. Bytes that are there already are not written again.
pub(super) fn keep(fs: &dyn FileSystem, dir: &Path, bytes: &[u8]) -> Result<Digest, Error> {
    let blob = Digest::of(bytes);
    let path = dir.join(place(&blob));
    sub_dir(fs, &path)?;
    // One that was changed on the disk is made right.
    if !matches!(read(fs, dir, &blob), Ok(Some(_))) {
        write_new(fs, &path, &mut Cursor::new(bytes))?;
    }
    for dir in [path.parent().unwrap_or(dir), dir] {
        fs.sync_dir(dir).map_err(Error::io("sync", dir))?;
    }
    Ok(blob)
}

/// The bytes of a blob beside the log in `dir`; `None` if it is absent. Fails if they are not those of its name.
pub(super) fn read(fs: &dyn FileSystem, dir: &Path, blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
    let path = dir.join(place(blob));
    let mut bytes = Vec::new();
    // Opening a pipe waits for its other end.
    if fs.exists(&path) && !fs.is_file(&path) {
        return Err(Error::io("use", &path)(io::Error::new(
            ErrorKind::InvalidData,
            "it is not a regular file",
        )));
    }
    let most = MAX_ATTACHMENT_BYTES as u64 + 1;
    match fs.open(&path, Access::Read).and_then(|file| Reader::new(file).take(most).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("read", &path)(e)),
    }
    match Digest::of(&bytes) == *blob {
        true => Ok(Some(bytes)),
        false => {
            Err(Error::io("use", &path)(io::Error::new(ErrorKind::InvalidData, "its bytes were changed")))
        }
    }
}

/// Takes what stands beside a log that was never begun away.
pub(super) fn clear(fs: &dyn FileSystem, dir: &Path) {
    for sub in [dir.join(BLOBS), dir.join(SPILL)] {
        for name in fs.names(&sub).unwrap_or_default() {
            let _ = fs.remove(&sub.join(name));
        }
        let _ = fs.remove_dir(&sub);
    }
}

/// Makes the directory of a file beside a log.
fn sub_dir(fs: &dyn FileSystem, path: &Path) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(path);
    match fs.create_dir(dir) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(Error::io("create", dir)(e)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a file that has its name only when all of it is on the disk.
fn write_new(fs: &dyn FileSystem, path: &Path, from: &mut dyn Read) -> Result<(), Error> {
    let unborn = path.with_extension(UNBORN);
    // One that a crash left.
    let _ = fs.remove(&unborn);
    let file = fs.open(&unborn, Access::Create).map_err(Error::io("create", &unborn))?;
    let written = io::copy(from, &mut Appender(&*file)).and_then(|_| file.sync());
    written.and_then(|()| fs.rename(&unborn, path)).map_err(|e| {
        let _ = fs.remove(&unborn);
        if is_full(&e) { Error::Full { path: path.to_owned() } } else { Error::io("write", path)(e) }
    })
}
