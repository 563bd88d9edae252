//! What becomes of an operation: asked before each, from outside.

use std::path::Path;
use std::time::Duration;

/// One operation, about to be done.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// Which.
    pub kind: Kind,
    /// On what.
    pub path: &'a Path,
    /// Of a write: how many bytes it brings.
    pub bytes: usize,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A file is opened, and made if it is to be.
    Open,
    /// Somebody looks what is there.
    Meta,
    /// The names in a directory are read.
    Names,
    /// A directory is made.
    CreateDir,
    /// A name is changed.
    Rename,
    /// A file's bytes are written again in place.
    Rewrite,
    /// A second name is given.
    Link,
    /// A name is taken away.
    Remove,
    /// An empty directory is taken away.
    RemoveDir,
    /// A directory's entries are synced.
    SyncDir,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Append,
    /// A file is cut or extended.
    SetLen,
    /// Room is taken.
    Allocate,
    /// A file is synced.
    Sync,
    /// A lock is taken.
    Lock,
}

impl Kind {
    /// When a process dies over it, in words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Open => "as a file is opened",
            Kind::Meta => "as a file is looked at",
            Kind::Names => "as a directory is read",
            Kind::CreateDir => "as a directory is made",
            Kind::Rename => "within a rename",
            Kind::Rewrite => "as a file is written again",
            Kind::Link => "as a file gets a second name",
            Kind::Remove | Kind::RemoveDir => "as a name is taken away",
            Kind::SyncDir => "as a directory is synced",
            Kind::Read => "within a read",
            Kind::Append => "within a write",
            Kind::SetLen => "as a file is cut",
            Kind::Allocate => "as room is taken",
            Kind::Sync => "within a sync",
            Kind::Lock => "as a lock is taken",
        }
    }

    /// Whether it brings bytes, so that the disk may be too full for it.
    pub fn writes(self) -> bool {
        matches!(self, Kind::Append | Kind::Allocate)
    }
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Go,
    /// From here on the disk takes so many bytes more, or has room again; then it is done.
    Room(Option<u64>),
    /// Of a write: only so many bytes are taken, and that is said.
    Short(usize),
    /// It fails. Of a write so many bytes are there all the same; of a sync what it should have covered counts as
    /// synced from now on, and is not.
    Fail(usize),
    /// The process dies.
    Die(Done),
}

/// What is done of an operation by a process that dies over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing.
    Nothing,
    /// So many bytes of a write, any part of a sync, nothing of the others.
    Part(usize),
    /// All of it; it is only not told.
    All,
}

/// Decides what becomes of operations.
pub trait Fate: Send + Sync {
    /// What becomes of this one.
    fn verdict(&self, op: &Op<'_>) -> Verdict;

    /// How long the next sync takes, in virtual time.
    fn sync_takes(&self) -> Duration {
        Duration::ZERO
    }
}

/// Nothing happens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calm;

impl Fate for Calm {
    fn verdict(&self, _op: &Op<'_>) -> Verdict {
        Verdict::Go
    }
}
