//! Where logs are kept: the interface of a log's end, and its two homes (a file, memory).
//!
//! Source: `docs/reference/log-format.md`.

mod begin;
mod beside;
mod end;
mod file;
mod fold;
mod follow;
mod fork;
pub mod fs;
mod index;
mod journal;
mod list;
mod lock;
mod memory;
mod opening;
mod places;
mod repair;
mod salvage;
mod scan;
mod torn;
mod wakes;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use terret_core::fact::WriterOpened;
use terret_core::id::{Digest, SessionId};
use terret_core::line::{SessionHeader, Tip};

use crate::error::Error;

pub use beside::Beside;
pub use file::FileStore;
pub use follow::Follow;
pub(crate) use fork::check_plugin;
pub use fork::{Fork, fork};
pub use fs::{FileSystem, LocalFs};
pub use index::{Index, Rest};
pub use journal::{Durable, Journal};
pub use list::{Condition, Listed, PluginEvents};
pub use memory::MemoryStore;
pub use places::{Address, Point};
pub use salvage::{Damage, SALVAGE, Salvage, Salvaged, is_salvageable, salvage};
pub use scan::{Bad, Scan};

/// The end of one log, held by its one writer.
pub trait Log: Send {
    /// Appends whole lines by one write. After an error nothing of them is in the log, or the log is
    /// poisoned.
    fn append(&mut self, lines: &[u8]) -> Result<(), Error>;

    /// Makes everything appended so far durable. A failure poisons the log.
    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>>;

    /// Closes the log for good after a failure that leaves its end in doubt.
    fn poison(&mut self, why: &str) -> Error;

    /// The session came to rest: adds what the index has gathered to the index file, where there is one. It is a
    /// cache, so what fails is not told: the next writer gathers it again.
    fn rest(&mut self, _index: &mut Index, _rest: &Rest) {}

    /// A reader over the log from this byte on; it sees what is appended later too.
    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error>;

    /// Bytes of the log, a torn tail not counted.
    fn length(&self) -> u64;

    /// Where it is, as a person would name it.
    fn path(&self) -> &Path;

    /// Whether the bytes of this name are kept beside it. A log that does not say keeps none.
    fn has_blob(&self, _blob: &Digest) -> bool {
        false
    }

    /// These bytes, checked against their name; `None` if they are absent.
    fn blob(&self, _blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }
}

/// A log opened for writing: locked, verified, its torn tail known and not yet cut.
pub struct Opened {
    /// Its header.
    pub header: SessionHeader,
    /// Hash of its header line.
    pub header_hash: Digest,
    /// Where the next line goes.
    pub tip: Tip,
    /// Epoch this writer will have.
    pub epoch: u64,
    /// Bytes of the torn tail that the first append moves aside.
    pub cut_bytes: Option<u64>,
    /// The process that writes.
    pub process: Process,
    /// What its index has to say yet.
    pub index: Index,
    /// The end of the log.
    pub log: Box<dyn Log>,
}

/// Where a writer runs, as logs name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// Id of this boot of the machine.
    pub boot: String,
}

impl Process {
    /// This process.
    pub fn this() -> Self {
        Process { pid: std::process::id(), host: places::host(), boot: places::boot_id() }
    }

    /// The fact with which a writer begins here.
    fn opens(&self, epoch: u64, header_hash: Digest, cut_bytes: Option<u64>) -> WriterOpened {
        let (host, boot, by) = (self.host.clone(), self.boot.clone(), BY.to_owned());
        WriterOpened { epoch, pid: self.pid, host, boot, by, header_hash, cut_bytes }
    }
}

impl Opened {
    /// The fact with which this writer begins.
    pub fn writer(&self) -> WriterOpened {
        self.process.opens(self.epoch, self.header_hash, self.cut_bytes)
    }
}

/// Program and version, as logs name them.
pub const BY: &str = concat!("terret ", env!("CARGO_PKG_VERSION"));

/// A place for many logs.
pub trait Store: Send + Sync {
    /// Makes a new log. Fails if the id is taken.
    fn create(&self, header: SessionHeader) -> Result<Opened, Error>;

    /// Opens a log for writing, handing its events to `fold` as [`Scan::fold`] does: a piece of an answer that is
    /// whole may be left out. Fails if another writer has it, or if it is damaged.
    fn open(&self, id: &str, fold: &mut dyn FnMut(&terret_core::line::Event)) -> Result<Opened, Error>;

    /// Where a session's files are, where there are files.
    fn dir(&self, id: &str) -> Option<PathBuf>;

    /// The process that writes here, as logs name it.
    fn process(&self) -> Process {
        Process::this()
    }

    /// Reads a session's log from its start, also while somebody writes it. Locks and changes nothing. A store that
    /// does not say how refuses: its sessions cannot be forked.
    fn read(&self, id: &str) -> Result<Scan<Box<dyn Read + Send>>, Error> {
        Err(Error::Usage(format!(
            "session `{id}` cannot be forked: its store reads no log beside its writer"
        )))
    }

    /// Keeps bytes beside a session's log, under their hash; durable when it returns, so that an event may name them.
    /// Bytes that are there already cost no writing. For whoever writes the session. A store that does not say how
    /// refuses.
    fn keep(&self, id: &str, _bytes: &[u8]) -> Result<Digest, Error> {
        Err(Error::Usage(format!("session `{id}` takes no attachments: its store keeps none")))
    }

    /// The bytes kept beside a session's log under this hash, checked against it; `None` if they are absent.
    fn blob(&self, _id: &str, _blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Puts files beside a log that is to be adopted under this id: before it, so that what a log names is there when
    /// the log is. A store that does not say how leaves them.
    fn bring(&self, _id: &SessionId, _beside: &Beside) -> Result<(), Error> {
        Ok(())
    }

    /// Takes in a whole log under an id that is free. It is there complete and durable, or not at all; nobody
    /// holds it afterwards. A store that does not say how refuses: no fork can be put into it.
    fn adopt(&self, id: &SessionId, _write: Whole<'_>) -> Result<(), Error> {
        Err(Error::Usage(format!("session `{id}` cannot be made: its store takes no whole log in")))
    }
}

/// The bytes kept under this hash beside the log file at `log` of this machine. See [`Store::blob`].
pub fn blob_beside(log: &Path, blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
    beside::read(&fs::LocalFs::default(), log.parent().unwrap_or(Path::new("")), blob)
}

/// Writes a whole log, once.
pub type Whole<'a> = &'a mut dyn FnMut(&mut dyn Write) -> std::io::Result<()>;
