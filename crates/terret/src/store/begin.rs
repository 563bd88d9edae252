//! The beginning of a log on disk: complete or absent, whatever happens on the way.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terret_core::limits::MAX_LINE_BYTES;

use super::beside::{BLOBS, SPILL};
use super::fs::{Access, File, FileSystem, Reader};
use super::lock::LOCK;
use super::repair::is_full;
use super::torn::{MARKER, last_line};
use crate::error::Error;

/// Name under which a log is begun; it gets its own name once its header (of a fork: all of it) is whole.
const UNBORN: &str = "log.jsonl.new";
/// How every header line begins.
const HEADER_START: &[u8] = br#"{"type":"session","#;
/// What a disk writes as one piece.
const SECTOR_BYTES: usize = 512;
/// What may lie beside a log that was never begun.
const BESIDE: [&str; 7] = ["log.jsonl", UNBORN, LOCK, super::end::RESERVE, MARKER, BLOBS, SPILL];

/// Whether the session of this log was never begun: its directory holds nothing but what a crash before the
/// first sync leaves. A power cut may take the bytes of the header and leave its name.
pub(super) fn never_begun(fs: &dyn FileSystem, log: &Path) -> bool {
    let Some(Ok(names)) = log.parent().map(|dir| fs.names(dir)) else {
        return false;
    };
    if !names.iter().all(|name| BESIDE.contains(&name.as_str())) {
        return false;
    }
    // Opening a pipe waits for its other end.
    if fs.exists(log) && !fs.is_file(log) {
        return false;
    }
    let mut lines = match fs.open(log, Access::Read) {
        Ok(file) => BufReader::new(Reader::new(file)),
        Err(e) => return e.kind() == ErrorKind::NotFound,
    };
    let Ok(start) = line(&mut lines) else { return false };
    if has_gap(&start) {
        return !any_says_synced(&mut lines);
    }
    let same = start.len().min(HEADER_START.len());
    start[..same] == HEADER_START[..same] && start.len() <= MAX_LINE_BYTES && !start.ends_with(b"\n")
}

/// Up to and with the next newline, or as much as a line may hold.
fn line(lines: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    lines.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Whether a sector of this, from the start of the file, is zeros: it never came to the disk.
fn has_gap(start: &[u8]) -> bool {
    start.chunks(SECTOR_BYTES).any(|sector| sector.iter().all(|byte| *byte == 0))
}

/// Whether one of the lines says that a sync was done: then a missing header is damage.
fn any_says_synced(lines: &mut impl BufRead) -> bool {
    loop {
        match line(lines) {
            Ok(line) if line.is_empty() => return false,
            Ok(line) if last_line(line.trim_ascii_end()).is_none_or(|line| line.d.is_none()) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Makes a log of what `write` writes: it gets its name once that is whole.
pub(super) fn write_log(
    fs: &dyn FileSystem,
    dir: &Path,
    log: &Path,
    write: impl FnOnce(&dyn File) -> std::io::Result<()>,
) -> Result<Arc<dyn File>, Error> {
    let unborn = dir.join(UNBORN);
    // One that a crash left. What else stands there fails below.
    let _ = fs.remove(&unborn);
    let file = fs.open(&unborn, Access::Create).map_err(Error::io("create", &unborn))?;
    let written = write(&*file).and_then(|()| fs.rename(&unborn, log));
    if let Err(e) = written {
        let _ = fs.remove(&unborn);
        let path = log.to_owned();
        return Err(if is_full(&e) { Error::Full { path } } else { Error::io("write", log)(e) });
    }
    Ok(file)
}

/// Makes a directory and what is missing above it. Gives the directories that got an entry by it.
pub(super) fn make_dirs(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut missing = Vec::new();
    let mut at = dir.to_owned();
    loop {
        match fs.meta(&at) {
            Ok(_) => break,
            Err(e) if e.kind() == ErrorKind::NotFound && above(&at) != at => {}
            Err(e) => return Err(Error::io("read", &at)(e)),
        }
        let above = above(&at);
        missing.push(at);
        at = above;
    }
    for dir in missing.iter().rev() {
        match fs.create_dir(dir) {
            // Somebody else was making it too.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && fs.is_dir(dir) => {}
            made => made.map_err(Error::io("create", dir))?,
        }
    }
    Ok(missing.iter().map(|dir| above(dir)).collect())
}

/// The directories without whose entries a power cut loses the log in `dir`. Whoever made the one that holds
/// all sessions may have died before its sync, so it is always among them.
pub(super) fn entries(dir: &Path, grown: Vec<PathBuf>) -> Vec<PathBuf> {
    let sessions = above(dir);
    let mut entries = vec![dir.to_owned(), above(&sessions), sessions];
    entries.extend(grown);
    entries.sort();
    entries.dedup();
    entries
}

/// The directory that holds this one. Of a bare name it is the working directory.
pub(super) fn above(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) => above.to_owned(),
        None => dir.to_owned(),
    }
}
