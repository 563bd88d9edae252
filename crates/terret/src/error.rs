//! The one error of this crate: what went wrong, for callers by kind and for people in words.

use std::path::{Path, PathBuf};

use terret_core::fact::EndReason;
use terret_core::id::{Seq, SessionId};
use terret_core::line::LineError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No session by that name.
    #[error("no session `{0}`")]
    NoSession(String),
    /// Several sessions fit.
    #[error("`{address}` fits {} sessions", .candidates.len())]
    Ambiguous {
        /// What was asked for.
        address: String,
        /// What fits, newest last.
        candidates: Vec<SessionId>,
    },
    /// The id is taken.
    #[error("session `{0}` exists already")]
    Exists(SessionId),
    /// The address cannot be read.
    #[error("`{address}` is not an address: {why}")]
    BadAddress {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// The log has no such event.
    #[error("session `{id}` has no event {seq}: {}", .last.map_or("it has none yet".to_owned(), |last| format!("its last one is {last}")))]
    NoEvent {
        /// Which session.
        id: SessionId,
        /// The event asked for.
        seq: Seq,
        /// The last one there is.
        last: Option<Seq>,
    },
    /// Another process writes this session.
    #[error("session `{id}` is open in another process (pid {pid}, since {since})")]
    Busy {
        /// Which session.
        id: String,
        /// Its owner.
        pid: u32,
        /// Since when, as the owner wrote it.
        since: String,
        /// The log.
        path: PathBuf,
    },
    /// The log is damaged, or was written by a newer terret: it can be read up to there, and not be written.
    #[error("{} `{}`: line {line}, offset {offset}, at seq {seq}: {cause}", if .cause.is_newer() { "log of a newer terret" } else { "damaged log" }, .path.display())]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Byte offset of the line.
        offset: u64,
        /// The seq that belongs there.
        seq: Seq,
        /// What is wrong.
        cause: LineError,
    },
    /// Not a log this program can read at all.
    #[error("`{}` is not a session log: {why}", .path.display())]
    NotALog {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A log that is read along is not what it was: what was read of it stands, and nothing more can be said.
    #[error("`{}` is no longer the log that was read: {why}", .path.display())]
    Changed {
        /// The log.
        path: PathBuf,
        /// What is seen of it.
        why: String,
    },
    /// The log needs a plugin that is not here: it can be read, and forked before that event.
    #[error("event {seq} needs plugin `{plugin}`: without it later requests would differ")]
    MissingPlugin {
        /// Its first event.
        seq: Seq,
        /// The plugin.
        plugin: String,
    },
    /// The disk is full: what was acknowledged is safe, nothing new is taken.
    #[error("the disk is full: `{}` could not grow", .path.display())]
    Full {
        /// The log.
        path: PathBuf,
    },
    /// A write or a sync failed, or a foreign writer was seen: nothing more is done in this session.
    #[error("session poisoned: {why} (`{}`)", .path.display())]
    Poisoned {
        /// The log.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// The same message id came with other content.
    #[error("message id `{0}` was used before, with other content")]
    IdReused(String),
    /// Now is not the time for it: a turn is closing, or waits for recovery.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// A message too large for a line.
    #[error("the message is too large: {bytes} bytes, a log line takes {limit}")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A question was not answered by what it asked for.
    #[error("no answer of the type asked for: {why}")]
    NoAnswer {
        /// The turn that ended: the question's own, or one it waits behind.
        turn: u32,
        /// How it ended.
        ending: Box<EndReason>,
        /// Its last answer as the model wrote it.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// The agent was shut down, or its task is gone.
    #[error("the agent is no longer running")]
    Gone,
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// An unusable request for what is here.
    #[error("{0}")]
    Usage(String),
    /// A file operation failed.
    #[error("cannot {what} `{}`: {cause}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        cause: std::io::Error,
    },
}

/// What kind of trouble it is, for callers that decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller asked for something that is not there or not allowed.
    Usage,
    /// The log refuses.
    Log,
    /// Somebody else has it.
    Busy,
    /// The machine failed us.
    Io,
    /// A model's answer is not what was asked for.
    Answer,
}

impl Error {
    /// What kind of trouble it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoSession(_)
            | Error::Ambiguous { .. }
            | Error::Exists(_)
            | Error::BadAddress { .. }
            | Error::NoEvent { .. }
            | Error::IdReused(_)
            | Error::Refused(_)
            | Error::TooLarge { .. }
            | Error::Config(_)
            | Error::Usage(_) => ErrorKind::Usage,
            Error::Damaged { .. }
            | Error::NotALog { .. }
            | Error::Changed { .. }
            | Error::MissingPlugin { .. } => ErrorKind::Log,
            Error::NoAnswer { .. } => ErrorKind::Answer,
            Error::Busy { .. } => ErrorKind::Busy,
            Error::Full { .. } | Error::Poisoned { .. } | Error::Gone | Error::Io { .. } => ErrorKind::Io,
        }
    }

    /// Whether a newer terret would read what this one cannot.
    pub fn is_newer(&self) -> bool {
        matches!(self, Error::Damaged { cause, .. } if cause.is_newer())
    }

    /// The same once more, for another one who waits. Only of errors that say it all in words.
    pub(crate) fn again(&self) -> Error {
        match self {
            Error::Full { path } => Error::Full { path: path.clone() },
            Error::TooLarge { bytes, limit } => Error::TooLarge { bytes: *bytes, limit: *limit },
            Error::Poisoned { path, why } => Error::Poisoned { path: path.clone(), why: why.clone() },
            other => Error::Usage(other.to_string()),
        }
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |cause| Error::Io { what, path, cause }
    }
}
