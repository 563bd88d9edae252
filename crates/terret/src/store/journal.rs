//! The one way into a log: encodes facts, writes them together, syncs, and mints the tokens without which
//! nothing may leave the process.

use std::collections::BTreeMap;

use terret_core::fact::{Fact, RequestAttempt, ToolCall};
use terret_core::id::{CallId, Digest, Seq, SessionId};
use terret_core::limits::MAX_LINE_BYTES;
use terret_core::line::{LineError, Tip};

use super::{Index, Log, Opened, Rest};
use crate::error::Error;

/// Writes one log.
pub struct Journal {
    log: Box<dyn Log>,
    tip: Tip,
    pending: Vec<u8>,
    written: Option<Seq>,
    synced: Option<Seq>,
    announced: Option<Seq>,
    held: usize,
    /// Where in the log the last line pushed begins and ends.
    last: [u64; 2],
    /// The chain's value behind the last line written.
    head: Digest,
    session: SessionId,
    index: Index,
    /// The last attempt recorded here, until its proof is given out.
    attempt: Option<(Seq, RequestAttempt)>,
    /// Calls of the open turn recorded here, until their proofs are given out.
    calls: BTreeMap<CallId, (Seq, ToolCall)>,
}

/// Proof that a fact is durable: only a [`Journal`] makes one, of a fact it recorded itself, after the sync that
/// covers it, and once. Sending a request and running a tool use one up.
#[derive(Debug)]
pub struct Durable<T> {
    session: SessionId,
    seq: Seq,
    fact: T,
}

impl<T> Durable<T> {
    /// The session whose log has the fact.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Where the fact stands.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The fact.
    pub fn fact(&self) -> &T {
        &self.fact
    }

    /// Uses the proof up.
    pub fn into_fact(self) -> T {
        self.fact
    }
}

impl Journal {
    /// A journal at the end of an opened log.
    pub fn new(opened: Opened) -> Self {
        let before = opened.tip.next_seq().checked_sub(1);
        let head = opened.tip.head();
        let session = opened.header.id.clone();
        Journal {
            session,
            index: opened.index,
            attempt: None,
            calls: BTreeMap::new(),
            log: opened.log,
            tip: opened.tip,
            pending: Vec::new(),
            written: before,
            // What an earlier writer left may still be unsynced: the first barrier covers it.
            synced: None,
            announced: None,
            held: 0,
            last: [0; 2],
            head,
        }
    }

    /// Encodes one fact behind those that wait for the next write.
    pub fn push(&mut self, time: u64, fact: &Fact) -> Result<Seq, Error> {
        let announce = self.synced.filter(|d| self.announced != Some(*d));
        let start = self.pending.len();
        let seq = self.tip.encode(&mut self.pending, time, fact, announce).map_err(|e| match e {
            LineError::TooLong(bytes) => Error::TooLarge { bytes, limit: MAX_LINE_BYTES },
            other => Error::Poisoned { path: self.log.path().to_owned(), why: other.to_string() },
        })?;
        self.announced = announce.or(self.announced);
        self.last = [start, self.pending.len()].map(|at| self.log.length() + at as u64);
        self.index.note(seq, time, fact, self.last);
        self.remember(seq, fact);
        Ok(seq)
    }

    /// Keeps what a proof will be asked for.
    fn remember(&mut self, seq: Seq, fact: &Fact) {
        if let Fact::RequestAttempt(attempt) = fact {
            self.attempt = Some((seq, attempt.clone()));
        } else if let Fact::ToolCall(call) = fact {
            self.calls.insert(call.call, (seq, call.clone()));
        } else if let Fact::TurnEnd(_) = fact {
            (self.attempt, self.calls) = (None, BTreeMap::new());
        }
    }

    /// Writes what waits, by one write. Says whether there was anything.
    pub fn write(&mut self) -> Result<bool, Error> {
        if self.pending.len() == self.held {
            return Ok(false);
        }
        self.log.append(&self.pending)?;
        self.pending.clear();
        self.held = 0;
        self.head = self.tip.head();
        self.written = self.tip.next_seq().checked_sub(1);
        Ok(true)
    }

    /// Makes everything written durable.
    pub async fn sync(&mut self) -> Result<(), Error> {
        if !self.is_behind() {
            return Ok(());
        }
        let issued = self.written;
        match self.log.sync().await {
            Ok(()) => {
                self.synced = issued;
                Ok(())
            }
            Err(e) => Err(self.log.poison(&e.to_string())),
        }
    }

    /// Seq of the last line written; `None` in an empty log.
    pub fn written(&self) -> Option<Seq> {
        self.written
    }

    /// Whether something written is not known to be synced.
    pub fn is_behind(&self) -> bool {
        self.written > self.synced
    }

    /// Whether this seq is known to be synced.
    pub fn is_synced(&self, seq: Seq) -> bool {
        self.synced.is_some_and(|d| seq <= d)
    }

    /// The proof for sending the request of the last attempt: once it is synced, and once.
    pub fn request(&mut self) -> Option<Durable<RequestAttempt>> {
        let seq = self.attempt.as_ref()?.0;
        let (seq, fact) = if self.is_synced(seq) { self.attempt.take()? } else { return None };
        Some(Durable { session: self.session.clone(), seq, fact })
    }

    /// The proof for running this call: once it is synced, and once.
    pub fn call(&mut self, call: CallId) -> Option<Durable<ToolCall>> {
        let seq = self.calls.get(&call)?.0;
        let (seq, fact) = if self.is_synced(seq) { self.calls.remove(&call)? } else { return None };
        Some(Durable { session: self.session.clone(), seq, fact })
    }

    /// Seq of the last line written and the chain's value there; `None` in an empty log.
    pub fn head(&self) -> Option<(Seq, Digest)> {
        self.written.map(|seq| (seq, self.head))
    }

    /// The last line written says that the session rests, and so many messages wait: what a cache may say of it is
    /// kept, and room that only a stream of events needs is given back.
    pub fn rest(&mut self, pending: usize) {
        self.pending.shrink_to_fit();
        if let (Some((seq, h)), true) = (self.head(), self.pending.is_empty()) {
            let rest = Rest { seq, h, range: self.last, synced: self.synced, pending };
            self.log.rest(&mut self.index, &rest);
        }
    }

    /// What waits now is written only together with something that comes later.
    pub fn hold(&mut self) {
        self.held = self.pending.len();
    }

    /// The log.
    pub fn log(&self) -> &dyn Log {
        &*self.log
    }

    /// After a failed append: drops what waited and stands at `tip` again.
    pub fn rewind(&mut self, tip: Tip) {
        self.pending.clear();
        self.held = 0;
        // What said how far the log is synced may be among what was dropped: it is said again.
        self.announced = None;
        self.index.give_up();
        // What was dropped proves nothing, and what is left of the open turn is closed.
        (self.attempt, self.calls) = (None, BTreeMap::new());
        self.written = tip.next_seq().checked_sub(1);
        self.head = tip.head();
        self.tip = tip;
    }

    /// Gives the log up.
    pub fn poison(&mut self, why: &str) -> Error {
        self.log.poison(why)
    }
}
