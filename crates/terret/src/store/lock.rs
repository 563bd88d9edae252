//! One writer: an advisory lock on a file of its own, with a note of who holds it.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fs::{Access, File, FileSystem, Reader};
use crate::error::Error;

/// How often and how many times the note of a lock's owner is looked for: it is written right after taking it.
const NOTE_EVERY: std::time::Duration = std::time::Duration::from_millis(10);
const NOTE_LOOKS: u32 = 30;

/// How many times a lock is looked at again whose owner is dead: a second and more, before it is refused.
const GHOST_LOOKS: u32 = 100;

/// How often a session that is moved away and begun again while we lock it is tried anew.
const MOVES: u32 = 3;

/// A note is one short line. What is longer is none.
const MAX_NOTE_BYTES: u64 = 4 << 10;

/// Name of the file that is locked.
pub(super) const LOCK: &str = "lock";

/// Held as long as the session is written. The system lets go of it when the process dies.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code)] Arc<dyn File>);

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
    pub(super) fn take(fs: &dyn FileSystem, dir: &Path, id: &str, now_ms: u64) -> Result<Self, Error> {
        let path = dir.join(LOCK);
        let (mut moved, mut ghosts) = (0, 0);
        let file = loop {
            let file = fs.open(&path, Access::Ensure).map_err(Error::io("open", &path))?;
            if file.try_lock().map_err(Error::io("lock", &path))? {
                // The session may have been moved away between the opening and the locking.
                if is_at(fs, &*file, &path) {
                    break file;
                }
                if moved == MOVES {
                    return Err(Error::NoSession(id.to_owned()));
                }
                moved += 1;
                continue;
            }
            let owner = owner_of(fs, file, dir);
            // A process killed while it was starting another leaves its open files to that one until the new
            // program begins: a moment, on a busy machine a long one.
            if ghosts < GHOST_LOOKS && owner.as_ref().is_some_and(|owner| is_dead(fs, owner)) {
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
        };
        let me = fs.process();
        let owner = Owner { pid: me.pid, host: me.host, boot: me.boot, since_ms: now_ms };
        let note = serde_json::to_vec(&owner).map_err(|e| Error::io("write", &path)(e.into()))?;
        // Only a note: without room for it the lock still holds.
        let _ = file.set_len(0).and_then(|()| file.append(&note));
        Ok(Lock(file))
    }
}

/// Whether the process of this note is gone. One of another machine or another boot cannot be asked.
fn is_dead(fs: &dyn FileSystem, owner: &Owner) -> bool {
    let me = fs.process();
    owner.boot == me.boot && owner.host == me.host && !fs.is_alive(owner.pid)
}

/// The note of whoever holds the lock. For a moment after taking it there is none yet, or that of the owner
/// before; it is waited out, briefly.
fn owner_of(fs: &dyn FileSystem, file: Arc<dyn File>, dir: &Path) -> Option<Owner> {
    let mut last = None;
    for _ in 0..NOTE_LOOKS {
        // Unreadable is as good as not there; the refusal stands all the same.
        last = note_in(file.clone()).or(last);
        if last.as_ref().is_some_and(|owner| holder(fs, dir).is_none_or(|pid| pid == owner.pid)) {
            break;
        }
        std::thread::sleep(NOTE_EVERY);
    }
    last
}

fn note_in(file: Arc<dyn File>) -> Option<Owner> {
    let mut note = Vec::new();
    Reader::new(file).take(MAX_NOTE_BYTES).read_to_end(&mut note).ok()?;
    serde_json::from_slice(&note).ok()
}

/// Whether this open file is the one that stands at `path`.
pub(super) fn is_at(fs: &dyn FileSystem, file: &dyn File, path: &Path) -> bool {
    matches!((file.meta(), fs.meta(path)), (Ok(ours), Ok(there)) if ours.id == there.id)
}

/// Whether somebody holds the lock of the session in `dir`, and who, without taking it.
pub(super) fn holder(fs: &dyn FileSystem, dir: &Path) -> Option<u32> {
    let path = dir.join(LOCK);
    let noted = fs.open(&path, Access::Read).ok().and_then(note_in).map(|owner| owner.pid);
    fs.holder(&path, noted)
}

/// `10:42` (UTC) of an epoch time.
fn clock_of_day(ms: u64) -> String {
    let minutes = ms / 60_000;
    format!("{:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::{Access, FileSystem as _, Lock, Owner, is_at};
    use crate::store::{LocalFs, Process};

    const FS: LocalFs = LocalFs { sync_in_place: true };

    #[test]
    fn a_lock_left_over_from_a_dead_owner_is_waited_out_and_a_living_one_is_not()
    -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("lock");
        let mut gone = std::process::Command::new("true").spawn()?;
        gone.wait()?;
        let Process { host, boot, .. } = Process::this();
        for (pid, waits) in [(gone.id(), true), (std::process::id(), false)] {
            let owner = Owner { pid, host: host.clone(), boot: boot.clone(), since_ms: 0 };
            std::fs::write(&path, serde_json::to_vec(&owner)?)?;
            let held = std::fs::File::open(&path)?;
            held.lock()?;
            let letting_go = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(400));
                drop(held);
            });
            let taken = Lock::take(&FS, dir.path(), "s", 0);
            assert_eq!(taken.is_ok(), waits, "owner {pid}");
            letting_go.join().map_err(|_| "the thread broke down")?;
        }
        Ok(())
    }

    #[test]
    fn a_file_that_was_moved_away_is_not_the_one_that_stands_there_now() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("lock");
        let file = FS.open(&path, Access::Ensure)?;
        assert!(is_at(&FS, &*file, &path));
        std::fs::rename(&path, dir.path().join("moved"))?;
        assert!(!is_at(&FS, &*file, &path), "nothing there");
        std::fs::File::create(&path)?;
        assert!(!is_at(&FS, &*file, &path), "another one there");
        Ok(())
    }
}
