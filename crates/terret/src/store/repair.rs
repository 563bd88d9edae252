//! What opening found and the first append sets right, so that a crash between any two steps loses nothing.

use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fs::{Access, Appender, File, FileSystem, Reader};

/// Bytes copied at once: what follows a bad line can be as long as the file.
pub(super) const COPY_BYTES: usize = 64 << 10;

/// What the first append has to do before its own work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repair {
    /// Nothing.
    None,
    /// The last line is whole but for its newline.
    Newline,
    /// Bytes from `keep` on are a torn tail.
    Cut {
        /// Length of what is good.
        keep: u64,
        /// Epoch of the writer that cuts.
        epoch: u64,
    },
}

impl Repair {
    /// Length of what is good, if something is to be cut.
    pub(super) fn keeps(self) -> Option<u64> {
        match self {
            Repair::Cut { keep, .. } => Some(keep),
            Repair::None | Repair::Newline => None,
        }
    }

    /// Length of the log once it is done.
    pub(super) fn leaves(self, length: u64) -> u64 {
        match self {
            Repair::None => length,
            Repair::Newline => length + 1,
            Repair::Cut { keep, .. } => keep,
        }
    }
}

/// Copies the bytes of the log from `keep` to `length` to a file of their own. When it returns they are there
/// for good: only then may they be cut. Nothing that was kept before is written over.
pub(super) fn keep_aside(
    fs: &dyn FileSystem,
    dir: &Path,
    log: &Arc<dyn File>,
    keep: u64,
    length: u64,
    epoch: u64,
) -> std::io::Result<()> {
    let (path, file) = new_file(fs, dir, epoch)?;
    let kept = copy(log, keep, length, &*file).and_then(|()| file.sync()).and_then(|()| fs.sync_dir(dir));
    if kept.is_err() {
        // Half a copy helps nobody, and takes room that may be what was missing.
        let _ = fs.remove(&path);
    }
    kept
}

fn copy(log: &Arc<dyn File>, from: u64, to: u64, aside: &dyn File) -> std::io::Result<()> {
    use std::io::{BufReader, Error, ErrorKind, Read, copy};
    let mut tail = Reader::new(log.clone());
    tail.seek(SeekFrom::Start(from))?;
    let mut tail = BufReader::with_capacity(COPY_BYTES, tail).take(to - from);
    let copied = copy(&mut tail, &mut Appender(aside))?;
    if copied == to - from { Ok(()) } else { Err(Error::from(ErrorKind::UnexpectedEof)) }
}

/// `torn-2`, or `torn-2-1` if a writer of that epoch died over its repair, and so on.
fn new_file(fs: &dyn FileSystem, dir: &Path, epoch: u64) -> std::io::Result<(PathBuf, Arc<dyn File>)> {
    let mut path = dir.join(format!("torn-{epoch}"));
    for n in 1_u64.. {
        match fs.open(&path, Access::Create) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            opened => return Ok((path, opened?)),
        }
        path = dir.join(format!("torn-{epoch}-{n}"));
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// Whether an operation failed for want of room.
pub(super) fn is_full(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(e.kind(), FileTooLarge | QuotaExceeded | StorageFull | WriteZero)
}
