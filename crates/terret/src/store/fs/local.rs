//! The machine's own file system.

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, test_kill_process};

use super::{Access, File, FileSystem, Kind, Meta, pool};
use crate::store::Process;
use crate::store::repair::COPY_BYTES;

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFs {
    /// Whether syncs are waited for on the thread that asks, instead of the runtime's blocking threads.
    pub sync_in_place: bool,
}

impl FileSystem for LocalFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        match access {
            Access::Read => &mut options,
            Access::Append => options.append(true),
            Access::Ensure => options.append(true).create(true),
            Access::Create => options.append(true).create_new(true),
        };
        Ok(Arc::new(LocalFile(options.open(path)?)))
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        Meta::of(&fs::metadata(path)?)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        fs::read_dir(dir)?.map(name).collect()
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut piece = vec![0; COPY_BYTES];
        let mut at = from;
        loop {
            let n = file.read_at(&mut piece, at)?;
            if n == 0 {
                return Ok(());
            }
            file.write_all_at(&piece[..n], at)?;
            at += n as u64;
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match fs::File::open(dir) {
            Ok(dir) => dir.sync_all(),
            // One we may not read is not ours: whoever made it answers for what it holds.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn sync(&self, file: Arc<dyn File>, dirs: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
        let fs = *self;
        let work = move || {
            file.sync()?;
            dirs.iter().try_for_each(|dir| fs.sync_dir(dir))
        };
        if self.sync_in_place {
            return std::future::ready(work()).boxed();
        }
        pool::aside(work)
    }

    fn is_remote(&self, dir: &Path) -> io::Result<bool> {
        const NFS: i64 = 0x6969;
        const SMB: i64 = 0x517b;
        const CIFS: i64 = 0xff53_4d42;
        const SMB2: i64 = 0xfe53_4d42;
        let kind = rustix::fs::statfs(dir)?.f_type as i64;
        Ok([NFS, SMB, CIFS, SMB2].contains(&kind))
    }

    fn holder(&self, path: &Path, noted: Option<u32>) -> Option<u32> {
        let meta = fs::metadata(path).ok()?;
        find_holder(&fs::read_to_string("/proc/locks").ok()?, meta.dev(), meta.ino(), noted)
    }

    fn process(&self) -> Process {
        Process::this()
    }

    fn is_alive(&self, pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.is_none_or(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

#[derive(Debug)]
struct LocalFile(fs::File);

impl File for LocalFile {
    fn meta(&self) -> io::Result<Meta> {
        Meta::of(&self.0.metadata()?)
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buf, at)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, bytes)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}

impl Meta {
    fn of(meta: &fs::Metadata) -> io::Result<Self> {
        let kind = if meta.is_file() {
            Kind::File
        } else if meta.is_dir() {
            Kind::Directory
        } else {
            Kind::Other
        };
        Ok(Meta { id: (meta.dev(), meta.ino()), length: meta.len(), kind, modified: meta.modified()? })
    }
}

/// The process that holds a lock on this file, by the system's list of locks. Some file systems show every
/// subvolume as a device of its own and list the one below: there the note has to name the same process.
fn find_holder(locks: &str, dev: u64, ino: u64, noted: Option<u32>) -> Option<u32> {
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
        (found == device || noted == Some(pid)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::find_holder;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 10 08:01:77 0 EOF\n\
                         1: -> FLOCK  ADVISORY  WRITE 9 08:01:77 0 EOF\n\
                         2: FLOCK  ADVISORY  WRITE 11 fe:0a:77 0 EOF\n\
                         3: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n";

    #[test]
    fn a_lock_counts_on_its_own_device_or_with_the_note_of_its_owner() {
        let at = |major, minor| rustix::fs::makedev(major, minor);
        assert_eq!(find_holder(LOCKS, at(8, 1), 77, None), Some(12));
        assert_eq!(find_holder(LOCKS, at(0xfe, 10), 77, None), Some(11));
        assert_eq!(find_holder(LOCKS, at(0, 50), 77, None), None, "another device");
        assert_eq!(find_holder(LOCKS, at(0, 50), 77, Some(13)), None, "an old note");
        assert_eq!(find_holder(LOCKS, at(0, 50), 77, Some(12)), Some(12), "a subvolume");
        assert_eq!(find_holder(LOCKS, at(8, 1), 7, Some(12)), None, "another file");
    }
}
