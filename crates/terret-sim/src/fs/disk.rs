//! The disk, and the machine it is in: files by number, names, locks, processes, the power.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use std::time::{Duration, UNIX_EPOCH};

use terret::store::fs::{Kind as What, Meta};

use super::content::{Content, Taken};
use super::names::{Change, Changes, Dir, Ino, Place};
use crate::dice::Dice;

/// The directory that holds all others. It is always there.
const ROOT: Ino = 0;

/// One machine.
pub(super) struct Disk {
    pub(super) dice: Dice,
    pub(super) nodes: BTreeMap<Ino, Node>,
    changes: Changes,
    /// Processes that live.
    alive: BTreeSet<u32>,
    /// Counts processes and open files.
    minted: u32,
    /// Counts its boots.
    pub(super) boot: u32,
    /// Bytes it still takes; `None`: enough.
    pub(super) room: Option<u64>,
    /// Counts changes of bytes: the file system's clock.
    pub(super) ticks: u64,
}

pub(super) enum Node {
    File(FileNode),
    Dir(Dir),
}

#[derive(Default)]
pub(super) struct FileNode {
    pub(super) content: Content,
    /// Names it has.
    links: u32,
    /// Bytes taken without being written.
    pub(super) allocated: u64,
    /// Length it had when a sync that is under way was asked for.
    pub(super) covers: Option<usize>,
    /// The process that holds its lock, and by which opened file.
    pub(super) lock: Option<(u32, u32)>,
    pub(super) modified: u64,
}

/// What a power cut took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Names that are not there, or again.
    pub names: usize,
    /// What became of bytes.
    pub taken: Taken,
}

/// What a power cut does to what no sync covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Files end anywhere behind what was synced.
    Dropped,
    /// Files have their length, and some sectors are zeros.
    Zeroed,
    /// Files have their length, and some sectors are what they were.
    Stale,
    /// Anything of these.
    Mixed,
}

pub(super) fn error(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        Disk {
            dice: Dice::new(seed),
            nodes: BTreeMap::from([(ROOT, Node::Dir(Dir::default()))]),
            changes: Changes::default(),
            alive: BTreeSet::new(),
            minted: 0,
            boot: 0,
            room: None,
            ticks: 0,
        }
    }

    pub(super) fn mint(&mut self) -> u32 {
        self.minted += 1;
        self.minted
    }

    pub(super) fn begin(&mut self) -> u32 {
        let pid = self.mint();
        self.alive.insert(pid);
        pid
    }

    pub(super) fn is_alive(&self, pid: u32) -> bool {
        self.alive.contains(&pid)
    }

    /// A process dies. What it wrote stays; what the system brings to the disk by itself comes to it or not.
    pub(super) fn kill(&mut self, pid: u32) {
        self.alive.remove(&pid);
        for node in self.nodes.values_mut() {
            let Node::File(file) = node else { continue };
            file.lock = file.lock.filter(|(owner, _)| *owner != pid);
            file.covers = None;
            if self.dice.below(8) == 0 {
                file.content.write_back(&mut self.dice);
            }
        }
        let came = self.changes.write_back(&mut self.dice);
        self.settle(came);
    }

    /// The power goes, and comes back.
    pub(super) fn cut_power(&mut self, loss: Loss) -> Report {
        let mut report = Report::default();
        let lost_permille = if matches!(loss, Loss::Dropped | Loss::Mixed) { 500 } else { 250 };
        let (came, lost) = self.changes.cut_power(lost_permille, &mut self.dice);
        report.names = lost;
        self.settle(came);
        for node in self.nodes.values_mut() {
            match node {
                Node::Dir(dir) => dir.cached = dir.durable.clone(),
                Node::File(file) => {
                    file.lock = None;
                    (file.allocated, file.covers) = (0, None);
                    let taken = file.content.cut_power(loss, &mut self.dice);
                    report.taken.add(taken);
                }
            }
        }
        self.forget();
        self.alive.clear();
        self.room = None;
        self.boot += 1;
        report
    }

    /// What has no name any more after the power went is gone.
    fn forget(&mut self) {
        let mut links = BTreeMap::<Ino, u32>::new();
        let mut open = vec![ROOT];
        let mut named = BTreeSet::from([ROOT]);
        while let Some(at) = open.pop() {
            let Some(Node::Dir(dir)) = self.nodes.get(&at) else { continue };
            for ino in dir.cached.values() {
                *links.entry(*ino).or_default() += 1;
                if named.insert(*ino) {
                    open.push(*ino);
                }
            }
        }
        self.nodes.retain(|ino, _| named.contains(ino));
        for (ino, node) in &mut self.nodes {
            if let Node::File(file) = node {
                file.links = links.get(ino).copied().unwrap_or_default();
            }
        }
    }

    /// These changes of names are on the disk.
    fn settle(&mut self, changes: Vec<Change>) {
        for change in changes {
            if let Some((dir, name)) = &change.gone
                && let Some(Node::Dir(dir)) = self.nodes.get_mut(dir)
            {
                dir.durable.remove(name);
            }
            if let Some(((dir, name), ino)) = change.stands
                && let Some(Node::Dir(dir)) = self.nodes.get_mut(&dir)
            {
                dir.durable.insert(name, ino);
            }
        }
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let dir = self.find(path)?;
        self.dir(dir)?;
        let changes = self.changes.take(dir);
        self.settle(changes);
        Ok(())
    }
}

impl Taken {
    fn add(&mut self, other: Taken) {
        self.zeroed |= other.zeroed;
        self.stale |= other.stale;
        self.given_up |= other.given_up;
    }
}

/// What paths lead to.
impl Disk {
    pub(super) fn find(&self, path: &Path) -> io::Result<Ino> {
        self.walk(path, |dir| &dir.cached).ok_or_else(|| error(io::ErrorKind::NotFound))
    }

    /// What the path leads to once the power went at the worst moment.
    pub(super) fn find_safe(&self, path: &Path) -> Option<Ino> {
        self.walk(path, |dir| &dir.durable)
    }

    fn walk(&self, path: &Path, names: impl Fn(&Dir) -> &BTreeMap<String, Ino>) -> Option<Ino> {
        let mut at = ROOT;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            let Some(Node::Dir(dir)) = self.nodes.get(&at) else { return None };
            at = *names(dir).get(name.to_str()?)?;
        }
        Some(at)
    }

    fn dir(&mut self, ino: Ino) -> io::Result<&mut Dir> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(error(io::ErrorKind::NotADirectory)),
            None => Err(error(io::ErrorKind::NotFound)),
        }
    }

    /// The place of a name, and what stands there.
    fn place(&mut self, path: &Path) -> io::Result<(Place, Option<Ino>)> {
        let above = self.find(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| error(io::ErrorKind::InvalidInput))?.to_owned();
        let there = self.dir(above)?.cached.get(&name).copied();
        Ok(((above, name), there))
    }

    pub(super) fn file(&mut self, ino: Ino) -> io::Result<&mut FileNode> {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(error(io::ErrorKind::IsADirectory)),
            None => Err(error(io::ErrorKind::NotFound)),
        }
    }

    pub(super) fn meta(&self, ino: Ino) -> io::Result<Meta> {
        let (length, kind, ticks) = match self.nodes.get(&ino) {
            Some(Node::File(file)) => (file.content.cached.len() as u64, What::File, file.modified),
            Some(Node::Dir(_)) => (0, What::Directory, 0),
            None => return Err(error(io::ErrorKind::NotFound)),
        };
        Ok(Meta { id: (1, ino), length, kind, modified: UNIX_EPOCH + Duration::from_micros(ticks) })
    }

    pub(super) fn names(&mut self, path: &Path) -> io::Result<Vec<String>> {
        let dir = self.find(path)?;
        Ok(self.dir(dir)?.cached.keys().cloned().collect())
    }
}

/// What changes names.
impl Disk {
    fn change(&mut self, gone: Option<Place>, stands: Option<(Place, Ino)>) -> io::Result<()> {
        if let Some((dir, name)) = &gone {
            self.dir(*dir)?.cached.remove(name);
        }
        if let Some(((dir, name), ino)) = &stands {
            self.dir(*dir)?.cached.insert(name.clone(), *ino);
        }
        self.changes.add(Change { gone, stands });
        Ok(())
    }

    fn add(&mut self, place: Place, node: Node) -> io::Result<Ino> {
        let ino = Ino::from(self.mint());
        self.nodes.insert(ino, node);
        self.change(None, Some((place, ino)))?;
        Ok(ino)
    }

    /// Gives the file at this path, and makes it if it is not there.
    pub(super) fn ensure_file(&mut self, path: &Path) -> io::Result<Ino> {
        match self.place(path)? {
            (_, Some(ino)) => Ok(ino),
            (place, None) => self.add(place, Node::File(FileNode { links: 1, ..FileNode::default() })),
        }
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        match self.place(path)? {
            (_, Some(_)) => Err(error(io::ErrorKind::AlreadyExists)),
            (place, None) => self.add(place, Node::Dir(Dir::default())).map(|_| ()),
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (gone, moved) = self.place(from)?;
        let moved = moved.ok_or_else(|| error(io::ErrorKind::NotFound))?;
        let (place, replaced) = self.place(to)?;
        if let Some(replaced) = replaced.filter(|ino| *ino != moved) {
            match self.nodes.get(&replaced) {
                Some(Node::Dir(dir)) if !dir.cached.is_empty() => {
                    return Err(error(io::ErrorKind::DirectoryNotEmpty));
                }
                _ => self.unlink(replaced),
            }
        }
        self.change(Some(gone), Some((place, moved)))
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.find(from)?;
        let (place, None) = self.place(to)? else { return Err(error(io::ErrorKind::AlreadyExists)) };
        self.file(ino)?.links += 1;
        self.change(None, Some((place, ino)))
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (place, there) = self.place(path)?;
        let ino = there.ok_or_else(|| error(io::ErrorKind::NotFound))?;
        self.file(ino)?;
        self.unlink(ino);
        self.change(Some(place), None)
    }

    /// One name less. The bytes stay for whoever has the file open; their room does not.
    fn unlink(&mut self, ino: Ino) {
        let Ok(file) = self.file(ino) else { return };
        file.links = file.links.saturating_sub(1);
        if file.links == 0 {
            let freed = (file.content.cached.len() as u64).max(std::mem::take(&mut file.allocated));
            self.room = self.room.map(|room| room + freed);
        }
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let (place, there) = self.place(path)?;
        let ino = there.ok_or_else(|| error(io::ErrorKind::NotFound))?;
        if !self.dir(ino)?.cached.is_empty() {
            return Err(error(io::ErrorKind::DirectoryNotEmpty));
        }
        self.change(Some(place), None)
    }
}
