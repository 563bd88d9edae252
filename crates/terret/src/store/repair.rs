//! What opening found and the first append sets right, so that a crash between any two steps loses nothing.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::begin::sync_dir;

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

/// Copies the bytes of the log from `keep` to `length` to a file of their own. When it returns they are there
/// for good: only then may they be cut. Nothing that was kept before is written over.
pub(super) fn keep_aside(dir: &Path, log: &File, keep: u64, length: u64, epoch: u64) -> std::io::Result<()> {
    let (path, file) = new_file(dir, epoch)?;
    let kept = copy(log, keep, length, &file).and_then(|()| file.sync_all()).and_then(|()| sync_dir(dir));
    if kept.is_err() {
        // Half a copy helps nobody, and takes room that may be what was missing.
        let _ = std::fs::remove_file(&path);
    }
    kept
}

fn copy(log: &File, from: u64, to: u64, mut aside: &File) -> std::io::Result<()> {
    let mut piece = vec![0; COPY_BYTES];
    let mut at = from;
    while at < to {
        let most = usize::try_from(to - at).map_or(COPY_BYTES, |left| left.min(COPY_BYTES));
        log.read_exact_at(&mut piece[..most], at)?;
        aside.write_all(&piece[..most])?;
        at += most as u64;
    }
    Ok(())
}

/// `torn-2`, or `torn-2-1` if a writer of that epoch died over its repair, and so on.
fn new_file(dir: &Path, epoch: u64) -> std::io::Result<(PathBuf, File)> {
    let mut path = dir.join(format!("torn-{epoch}"));
    for n in 1_u64.. {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
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
