//! One writer: an advisory lock on a file of its own, with a note of who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::places::{boot_id, host};
use crate::error::Error;

/// How often and how many times the note of a lock's owner is looked for: it is written right after taking it.
const NOTE_EVERY: std::time::Duration = std::time::Duration::from_millis(10);
const NOTE_LOOKS: u32 = 30;

/// Held as long as the session is written. The system lets go of it when the process dies.
pub(super) struct Lock(#[allow(dead_code)] File);

/// What stands in the lock file: a note for people, never trusted without the lock itself.
#[derive(Serialize, Deserialize)]
struct Owner {
    pid: u32,
    host: String,
    boot: String,
    since_ms: u64,
}

impl Lock {
    /// Takes the lock of the session in `dir`, or says who has it.
    pub(super) fn take(dir: &Path, id: &str, now_ms: u64) -> Result<Self, Error> {
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let owner = owner_of(&mut file, dir);
                return Err(Error::Busy {
                    id: id.to_owned(),
                    pid: owner.as_ref().map_or(0, |o| o.pid),
                    since: owner.map_or_else(|| "?".into(), |o| clock_of_day(o.since_ms)),
                    path: dir.join("log.jsonl"),
                });
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
        }
        let owner = Owner { pid: std::process::id(), host: host(), boot: boot_id(), since_ms: now_ms };
        let note = serde_json::to_vec(&owner).map_err(|e| Error::io("write", &path)(e.into()))?;
        let noted = file.set_len(0).and_then(|()| file.write_all(&note));
        // Only a note: without room for it the lock still holds.
        let _ = noted;
        Ok(Lock(file))
    }
}

/// The note of whoever holds the lock. For a moment after taking it there is none yet, or that of the owner
/// before; it is waited out, briefly.
fn owner_of(file: &mut File, dir: &Path) -> Option<Owner> {
    let mut last = None;
    for _ in 0..NOTE_LOOKS {
        let mut text = String::new();
        // Unreadable is as good as not there; the refusal stands all the same.
        let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
        last = serde_json::from_str::<Owner>(&text).ok().or(last);
        if last.as_ref().is_some_and(|owner| holder(dir).is_none_or(|pid| pid == owner.pid)) {
            break;
        }
        std::thread::sleep(NOTE_EVERY);
    }
    last
}

/// Whether somebody holds the lock of the session in `dir`, and who, without taking it.
pub(super) fn holder(dir: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(dir.join("lock")).ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4121 fe:00:131075 0 EOF`
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?;
        let pid = words.nth(2)?;
        let at = words.next()?.rsplit(':').next()?;
        (kind == "FLOCK" && at.parse() == Ok(inode)).then(|| pid.parse().ok())?
    })
}

/// `10:42` (UTC) of an epoch time.
fn clock_of_day(ms: u64) -> String {
    let minutes = ms / 60_000;
    format!("{:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}
