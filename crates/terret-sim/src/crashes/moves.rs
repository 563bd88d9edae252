//! What happens to whole sessions: forked, and moved away. Complete or absent, here or there.

use std::sync::{Arc, Mutex};

use terret::Error;
use terret::core::id::SessionId;
use terret::core::line::{Event, SessionHeader};
use terret::store::{FileStore, FileSystem as _, Fork, Opened, Process, Store, Whole, fork};

use super::ledger::{Book, Written, lines};
use super::run::{ID, Run, SESSIONS};
use crate::fs::Calm;

/// Where sessions are moved.
pub(super) const TRASH: &str = "/trash";
/// The fork.
pub(super) const CHILD: &str = "child";

/// What is known of the fork.
#[derive(Default)]
pub(super) struct Child {
    /// All its lines, once they were handed over.
    pub(super) whole: Option<Written>,
    /// It was said to be there.
    pub(super) made: bool,
}

impl Run {
    pub(super) fn fork(&mut self) -> Result<(), Error> {
        if self.book.is_none() || self.child.made {
            return Ok(());
        }
        let into = Copied { store: &self.store, bytes: Mutex::default() };
        let id = CHILD.parse().unwrap_or_else(|_| unreachable!("a plain name"));
        let plan = Fork { boundary: None, id, now: self.now_ms(), plugins: Vec::new() };
        let made = fork(|| self.store.read(ID), &into, plan);
        let bytes = into.bytes.into_inner().unwrap_or_default();
        self.child.whole = Some(Written::whole(lines(&bytes, false)));
        made?;
        self.child.made = true;
        Ok(())
    }

    /// Judges every session there may be.
    pub(super) fn judges(&mut self, power: bool) {
        if let Some(moved) = self.moved.clone() {
            self.judges_moved(&moved, power);
        }
        if let Some(book) = self.book.clone() {
            let there = self.judge.session(&self.disk, SESSIONS, ID, &mut book.get(), power);
            if !there {
                // It is free, and somebody makes it anew.
                self.book = None;
                (self.judge.tail, self.judge.kept) = (None, Vec::new());
            }
        }
        if let Some(whole) = self.child.whole.clone() {
            let acked = if self.child.made { whole.acked.clone() } else { Vec::new() };
            let mut found = Written { acked, ..whole.clone() };
            let there = self.judge.session(&self.disk, SESSIONS, CHILD, &mut found, true);
            if there && found.shown != whole.shown {
                let (all, left) = (whole.shown.len(), found.shown.len());
                self.judge.other(format!("of the {all} lines of a fork {left} are there"));
            }
        }
    }

    /// A session that was to be moved is in one place, and all of it.
    fn judges_moved(&mut self, moved: &Book, power: bool) {
        let fs = self.disk.process_begins(Arc::new(Calm));
        let is_there = |root: &str| fs.meta(format!("{root}/{ID}").as_ref()).is_ok();
        let (here, there) = (is_there(SESSIONS), is_there(TRASH));
        match (here, there, &self.book) {
            // It was not moved, or is back: its place is taken by nobody else for good.
            (true, false, Some(_)) => {
                let log = format!("{SESSIONS}/{ID}/log.jsonl");
                let first =
                    fs.look(log.as_ref(), |log| lines(log.unwrap_or_default(), false).into_iter().next());
                if first.is_some() && first == moved.get().shown.first().cloned() {
                    self.book = Some(moved.clone());
                }
                self.moved = None;
            }
            (_, true, book) => {
                if book.as_ref().is_some_and(|book| book.is(moved)) {
                    self.book = None;
                    if here {
                        self.judge.other("a session is in two places".to_owned());
                    }
                }
                (self.judge.tail, self.judge.kept) = (None, Vec::new());
                self.judge.session(&self.disk, TRASH, ID, &mut moved.get(), power);
            }
            (false, false, _) | (true, false, None) => {
                if !moved.get().acked.is_empty() {
                    self.judge.lost("a session that was moved is not where it was moved to".to_owned());
                }
                self.moved = None;
            }
        }
    }
}

/// The store, and the bytes that are brought to it as one.
struct Copied<'a> {
    store: &'a FileStore,
    bytes: Mutex<Vec<u8>>,
}

impl Store for Copied<'_> {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        self.store.create(header)
    }

    fn open(&self, id: &str, fold: &mut dyn FnMut(&Event)) -> Result<Opened, Error> {
        self.store.open(id, fold)
    }

    fn dir(&self, id: &str) -> Option<std::path::PathBuf> {
        self.store.dir(id)
    }

    fn process(&self) -> Process {
        self.store.process()
    }

    fn adopt(&self, id: &SessionId, write: Whole<'_>) -> Result<(), Error> {
        self.store.adopt(id, &mut |out| {
            let mut bytes = Vec::new();
            write(&mut bytes)?;
            let written = out.write_all(&bytes);
            *self.bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = bytes;
            written
        })
    }
}
