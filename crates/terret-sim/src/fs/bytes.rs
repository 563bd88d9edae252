//! Files of the disk: what is written to them, and what is brought to the disk.

use std::io;

use super::disk::{Disk, FileNode, Node, error};
use super::names::Ino;

/// What brings bytes to the disk.
impl Disk {
    /// From here on a sync under way covers what is there now, and no more.
    pub(super) fn issue_sync(&mut self, ino: Ino) {
        if let Ok(file) = self.file(ino) {
            file.covers = Some(file.content.cached.len());
        }
    }

    pub(super) fn sync(&mut self, ino: Ino) -> io::Result<()> {
        let file = self.file(ino)?;
        let length = file.covers.take().unwrap_or(file.content.cached.len());
        file.content.sync(length);
        Ok(())
    }

    /// A sync fails.
    pub(super) fn fail_sync(&mut self, ino: Ino) {
        let Some(Node::File(file)) = self.nodes.get_mut(&ino) else { return };
        file.covers = None;
        file.content.fail_sync(&mut self.dice);
    }

    /// A sync is never heard of again, and did some of its work.
    pub(super) fn write_back(&mut self, ino: Ino) {
        let Some(Node::File(file)) = self.nodes.get_mut(&ino) else { return };
        file.content.write_back(&mut self.dice);
    }
}

/// What changes bytes.
impl Disk {
    fn tick(&mut self, ino: Ino) -> io::Result<&mut FileNode> {
        self.ticks += 1;
        let ticks = self.ticks;
        let file = self.file(ino)?;
        file.modified = ticks;
        Ok(file)
    }

    /// Takes as many of the bytes as there is room for.
    pub(super) fn append(&mut self, ino: Ino, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room.map_or(usize::MAX, |room| room as usize);
        if room == 0 && !bytes.is_empty() {
            return Err(error(io::ErrorKind::StorageFull));
        }
        let n = bytes.len().min(room);
        self.tick(ino)?.content.append(&bytes[..n]);
        self.room = self.room.map(|room| room - n as u64);
        Ok(n)
    }

    pub(super) fn set_len(&mut self, ino: Ino, length: u64) -> io::Result<()> {
        let file = self.tick(ino)?;
        let before = file.content.cached.len() as u64;
        file.content.set_len(length as usize);
        let freed = before.saturating_sub(length);
        self.room = self.room.map(|room| room + freed);
        Ok(())
    }

    /// Takes room. What could be got is taken also where it is not enough. (The file is not seen to be longer by it:
    /// nobody reads it.)
    pub(super) fn allocate(&mut self, ino: Ino, bytes: u64) -> io::Result<()> {
        let room = self.room.unwrap_or(u64::MAX);
        let file = self.file(ino)?;
        let wanted = bytes.saturating_sub(file.allocated.max(file.content.cached.len() as u64));
        file.allocated += wanted.min(room);
        self.room = self.room.map(|room| room.saturating_sub(wanted));
        if wanted > room { Err(error(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }
}
