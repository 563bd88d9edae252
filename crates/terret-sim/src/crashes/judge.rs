//! What must hold of a log after a crash, said of its bytes and of what was told alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terret::Error;
use terret::core::line::Line as Parsed;
use terret::store::fs::{Access, FileSystem};
use terret::store::{FileStore, Store};

use super::ledger::{Book, Line, Written, lines};
use super::run::{ID, SESSIONS};
use crate::dice::Dice;
use crate::fs::{Calm, Loss, SimFs};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Something that was told is not there.
    Lost(String),
    /// Something is there that nobody wrote.
    Altered(String),
    /// Looking again changed something.
    NotIdempotent(String),
    /// Anything else.
    Other(String),
}

/// Judges logs.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) broken: Vec<Broken>,
    /// The torn tail that waits to be cut.
    pub(super) tail: Option<Vec<u8>>,
    /// Torn tails that were cut, and must be kept.
    pub(super) kept: Vec<Vec<u8>>,
}

impl Judge {
    pub(super) fn lost(&mut self, what: String) {
        self.broken.push(Broken::Lost(what));
    }

    pub(super) fn other(&mut self, what: String) {
        self.broken.push(Broken::Other(what));
    }

    /// A procedure failed, and no fault struck.
    pub(super) fn unfair(&mut self, what: &str, e: &Error) {
        self.other(format!("{what} failed for no reason: {e}"));
    }

    /// Somebody opens the session and goes away, twice. Says whether it is there.
    pub(super) fn session(
        &mut self,
        disk: &SimFs,
        root: &str,
        id: &str,
        written: &mut Written,
        power: bool,
    ) -> bool {
        let fs = disk.process_begins(Arc::new(Calm));
        let store = FileStore::on(Arc::new(fs.clone()), root);
        let before = files(&fs, root, id);
        let first = look(&store, id);
        let between = files(&fs, root, id);
        let second = look(&store, id);
        let after = files(&fs, root, id);
        fs.kill();
        if before != between || first != second || between != after {
            self.broken
                .push(Broken::NotIdempotent(format!("opening it once gives {first:?}, twice {second:?}")));
        }
        let log = before.get("log.jsonl").cloned().unwrap_or_default();
        let (events, cut) = match first {
            Ok(found) => found,
            Err(absent) => {
                match absent {
                    Some(why) => self.other(format!("it does not open: {why}")),
                    None if !written.acked.is_empty() => self.lost(format!("{id} is gone")),
                    None if !power && !written.shown.is_empty() => {
                        self.lost(format!("{id} was there, and is gone"));
                    }
                    None => {}
                }
                written.found(Vec::new());
                return false;
            }
        };
        self.reads(written, &log, events, power);
        if id == ID {
            self.tail = cut.map(|bytes| log[log.len() - bytes as usize..].to_vec());
            self.keeps(&before);
        }
        true
    }

    /// The next writer of a process that lives opened it.
    pub(super) fn opened(&mut self, disk: &SimFs, written: &mut Written, events: usize, cut: Option<u64>) {
        let log = disk.look(&log_path(), |log| log.unwrap_or_default().to_vec());
        self.reads(written, &log, events, false);
        self.tail = cut.map(|bytes| log[log.len() - bytes as usize..].to_vec());
    }

    /// So many events of these bytes were taken for good.
    fn reads(&mut self, written: &mut Written, log: &[u8], events: usize, power: bool) {
        let mut found = lines(log, true);
        found.truncate(events + 1);
        self.compare(written, &found, power);
        written.found(found);
    }

    /// Nothing lost, nothing altered.
    fn compare(&mut self, written: &Written, found: &[Line], power: bool) {
        let must = if power { &written.acked } else { &written.shown };
        let same = must.iter().zip(found).take_while(|(must, is)| must == is).count();
        if found.len() < must.len() && same == found.len() {
            self.lost(format!("{} lines were told, {} are there", must.len(), found.len()));
        } else if same < must.len() || !written.has_written(found) {
            let last = found.last().map(|line| String::from_utf8_lossy(line).into_owned());
            let what = format!("{} lines are there, not all as they were written: {last:?}", found.len());
            self.broken.push(Broken::Altered(what));
        }
    }

    /// All torn tails that were cut are there.
    fn keeps(&mut self, files: &BTreeMap<String, Vec<u8>>) {
        for tail in &self.kept {
            if !files.iter().any(|(name, bytes)| name.starts_with("torn-") && bytes == tail) {
                let what = format!("{} bytes of a torn tail were cut and are not kept", tail.len());
                self.broken.push(Broken::Other(what));
                break;
            }
        }
    }

    /// A writer appended or tried to: what became of the torn tail?
    pub(super) fn look(&mut self, disk: &SimFs, done: bool) {
        let Some(tail) = self.tail.take() else { return };
        let uncut = disk.look(&log_path(), |log| log.is_some_and(|log| log.ends_with(&tail)));
        if done || !uncut {
            self.kept.push(tail);
        } else {
            self.tail = Some(tail);
        }
    }

    /// A log with a torn tail, where dice do not give one.
    pub(super) fn tear_by_hand(&self, disk: &SimFs) {
        if let Ok(file) = disk.process_begins(Arc::new(Calm)).open(&log_path(), Access::Append) {
            let _ = file.append(b"{\"seq\":");
        }
    }

    /// Damage that no crash explains: a bit of what was synced is another one. It is refused, and stays as it is.
    pub(super) fn spoil(&mut self, disk: &SimFs, book: Option<&Book>, dice: &mut Dice) {
        if book.is_none() {
            return;
        }
        let Some(log) = disk.look(&log_path(), |log| log.map(<[u8]>::to_vec)) else { return };
        let Some(end) = synced_end(&log) else { return };
        let at = dice.below(end as u32) as usize;
        let mut spoiled = log;
        spoiled[at] ^= 1 << dice.below(7);
        let opened = disk.process_begins(Arc::new(Calm)).open(&log_path(), Access::Append);
        let Ok(file) = opened else { return self.other("the log cannot be spoilt".to_owned()) };
        let _ = file.set_len(0).and_then(|()| file.append(&spoiled)).and_then(|_| file.sync());
        disk.cut_power(Loss::Mixed);
        let fs = disk.process_begins(Arc::new(Calm));
        let before = files(&fs, SESSIONS, ID);
        let store = FileStore::on(Arc::new(fs.clone()), SESSIONS);
        let opened = look(&store, ID);
        if !matches!(opened, Err(Some(_))) {
            self.other(format!("a bit of byte {at} is another one, and it opens: {opened:?}"));
        }
        if files(&fs, SESSIONS, ID) != before {
            self.other(format!("a bit of byte {at} is another one, and that was changed"));
        }
        fs.kill();
    }
}

fn log_path() -> PathBuf {
    Path::new(SESSIONS).join(ID).join("log.jsonl")
}

/// Where the last line ends that is certainly synced.
fn synced_end(log: &[u8]) -> Option<usize> {
    let parsed = |line: &Line| Parsed::parse(line).ok().and_then(|line| line.d);
    let all = lines(log, false);
    let d = all.iter().skip(1).filter_map(parsed).max()?;
    Some(all.iter().take(d as usize + 2).map(|line| line.len() + 1).sum())
}

/// Events and torn bytes of a session, or why it does not open; `None`: it is not there.
type Found = Result<(usize, Option<u64>), Option<String>>;

fn look(store: &FileStore, id: &str) -> Found {
    let mut events = 0;
    match store.open(id, &mut |_| events += 1) {
        Ok(opened) => Ok((events, opened.cut_bytes)),
        Err(Error::NoSession(_)) => Err(None),
        Err(Error::NotALog { why, .. }) if why.contains("never begun") => Err(None),
        Err(e) => Err(Some(e.to_string())),
    }
}

/// The files of a session, but for those that come and go with whoever has it open.
fn files(fs: &SimFs, root: &str, id: &str) -> BTreeMap<String, Vec<u8>> {
    let dir = Path::new(root).join(id);
    let names = fs.names(&dir).unwrap_or_default();
    let read = |name: &String| fs.look(&dir.join(name), |bytes| bytes.unwrap_or_default().to_vec());
    names
        .into_iter()
        .filter(|name| name != "lock" && name != "reserve")
        .map(|name| (name.clone(), read(&name)))
        .collect()
}
