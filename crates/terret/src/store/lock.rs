//! One writer: an advisory lock on a file of its own, with a note of who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::places::{boot_id, host};
use crate::error::Error;

/// How often and how many times the note of a lock's owner is looked for: it is written right after taking it.
const NOTE_EVERY: std::time::Duration = std::time::Duration::from_millis(10);
const NOTE_LOOKS: u32 = 30;

/// How many times a lock is looked at again whose owner is dead: a second and more, before it is refused.
const GHOST_LOOKS: u32 = 100;

/// How often a session that is moved away and begun again while we lock it is tried anew.
const MOVES: u32 = 3;

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
        let (mut moved, mut ghosts) = (0, 0);
        let mut file = loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(Error::io("open", &path))?;
            match file.try_lock() {
                // The session may have been moved away between the opening and the locking.
                Ok(()) if is_at(&file, &path) => break file,
                Ok(()) if moved < MOVES => moved += 1,
                Ok(()) => return Err(Error::NoSession(id.to_owned())),
                Err(TryLockError::WouldBlock) => {
                    let owner = owner_of(&mut file, dir);
                    // A process killed while it was starting another leaves its open files to that one until
                    // the new program begins: a moment, on a busy machine a long one.
                    if ghosts < GHOST_LOOKS && owner.as_ref().is_some_and(is_dead) {
                        ghosts += 1;
                        std::thread::sleep(NOTE_EVERY);
                        continue;
                    }
                    return Err(Error::Busy {
                        id: id.to_owned(),
                        pid: owner.as_ref().map_or(0, |o| o.pid),
                        since: owner.map_or_else(|| "?".into(), |o| clock_of_day(o.since_ms)),
                        path: dir.join("log.jsonl"),
                    });
                }
                Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
            }
        };
        let owner = Owner { pid: std::process::id(), host: host(), boot: boot_id(), since_ms: now_ms };
        let note = serde_json::to_vec(&owner).map_err(|e| Error::io("write", &path)(e.into()))?;
        let noted = file.set_len(0).and_then(|()| file.write_all(&note));
        // Only a note: without room for it the lock still holds.
        let _ = noted;
        Ok(Lock(file))
    }
}

/// Whether the process of this note is gone. One of another machine or another boot cannot be asked.
fn is_dead(owner: &Owner) -> bool {
    let Some(pid) = i32::try_from(owner.pid).ok().and_then(Pid::from_raw) else { return false };
    let here = owner.boot == boot_id() && owner.host == host();
    here && test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
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

/// Whether this open file is the one that stands at `path`.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// Whether somebody holds the lock of the session in `dir`, and who, without taking it.
pub(super) fn holder(dir: &Path) -> Option<u32> {
    let path = dir.join("lock");
    let meta = std::fs::metadata(&path).ok()?;
    let noted = || {
        let text = std::fs::read_to_string(&path).ok()?;
        serde_json::from_str::<Owner>(&text).ok().map(|owner| owner.pid)
    };
    find_holder(&std::fs::read_to_string("/proc/locks").ok()?, meta.dev(), meta.ino(), &noted)
}

/// The process that holds a lock on this file, by the system's list of locks. Some file systems show every
/// subvolume as a device of its own and list the one below: there the note has to name the same process.
fn find_holder(locks: &str, dev: u64, ino: u64, noted: &dyn Fn() -> Option<u32>) -> Option<u32> {
    let device = (rustix::fs::major(dev), rustix::fs::minor(dev));
    // `1: FLOCK  ADVISORY  WRITE 4121 fe:00:131075 0 EOF`
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?;
        let pid = words.nth(2)?.parse().ok()?;
        let mut at = words.next()?.split(':');
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        let found = (hex(at.next()?)?, hex(at.next()?)?);
        if kind != "FLOCK" || at.next()?.parse() != Ok(ino) {
            return None;
        }
        (found == device || noted() == Some(pid)).then_some(pid)
    })
}

/// `10:42` (UTC) of an epoch time.
fn clock_of_day(ms: u64) -> String {
    let minutes = ms / 60_000;
    format!("{:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::{Lock, Owner, boot_id, find_holder, host, is_at};

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 10 08:01:77 0 EOF\n\
                         1: -> FLOCK  ADVISORY  WRITE 9 08:01:77 0 EOF\n\
                         2: FLOCK  ADVISORY  WRITE 11 fe:0a:77 0 EOF\n\
                         3: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n";

    #[test]
    fn a_lock_counts_on_its_own_device_or_with_the_note_of_its_owner() {
        let at = |major, minor| rustix::fs::makedev(major, minor);
        assert_eq!(find_holder(LOCKS, at(8, 1), 77, &|| None), Some(12));
        assert_eq!(find_holder(LOCKS, at(0xfe, 10), 77, &|| None), Some(11));
        assert_eq!(find_holder(LOCKS, at(0, 50), 77, &|| None), None, "another device");
        assert_eq!(find_holder(LOCKS, at(0, 50), 77, &|| Some(13)), None, "an old note");
        assert_eq!(find_holder(LOCKS, at(0, 50), 77, &|| Some(12)), Some(12), "a subvolume");
        assert_eq!(find_holder(LOCKS, at(8, 1), 7, &|| Some(12)), None, "another file");
    }

    #[test]
    fn a_lock_left_over_from_a_dead_owner_is_waited_out_and_a_living_one_is_not()
    -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("lock");
        let mut gone = std::process::Command::new("true").spawn()?;
        gone.wait()?;
        for (pid, waits) in [(gone.id(), true), (std::process::id(), false)] {
            let owner = Owner { pid, host: host(), boot: boot_id(), since_ms: 0 };
            std::fs::write(&path, serde_json::to_vec(&owner)?)?;
            let held = std::fs::File::open(&path)?;
            held.lock()?;
            let letting_go = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(400));
                drop(held);
            });
            let taken = Lock::take(dir.path(), "s", 0);
            assert_eq!(taken.is_ok(), waits, "owner {pid}");
            letting_go.join().map_err(|_| "the thread broke down")?;
        }
        Ok(())
    }

    #[test]
    fn a_file_that_was_moved_away_is_not_the_one_that_stands_there_now() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("lock");
        let file = std::fs::File::create(&path)?;
        assert!(is_at(&file, &path));
        std::fs::rename(&path, dir.path().join("moved"))?;
        assert!(!is_at(&file, &path), "nothing there");
        std::fs::File::create(&path)?;
        assert!(!is_at(&file, &path), "another one there");
        Ok(())
    }
}
