//! One run: a session is prepared, a fault strikes in one procedure, lives follow, and every time the log is judged.

use std::sync::Arc;

use futures_util::FutureExt;
use terret::Error;
use terret::core::chunk::Chunk;
use terret::core::fact::{AssistantChunk, Fact, InboxAdded, Lane, WriterIdle};
use terret::core::line::{FORMAT, SessionHeader, SessionTag};
use terret::core::message::Message;
use terret::store::{BY, FileStore, Journal, Store};

use super::armed::Armed;
use super::judge::Judge;
use super::ledger::{Book, Line, Written};
use super::moves::{Child, TRASH};
use super::plan::{Fault, Procedure};
use crate::dice::Dice;
use crate::fs::{Calm, Loss, SimFs};
use crate::limits::{CRASH_EPOCH_MS, CRASH_LATER_OPS, CRASH_TORN_TRIES};

/// The session, and where sessions are.
pub(super) const ID: &str = "s";
pub(super) const SESSIONS: &str = "/sessions";

/// One run, and the machine it happens on.
pub(super) struct Run {
    pub(super) disk: SimFs,
    pub(super) fs: SimFs,
    pub(super) store: FileStore,
    pub(super) armed: Armed,
    pub(super) dice: Dice,
    /// What is known of the session; `None`: there is none.
    pub(super) book: Option<Book>,
    writer: Option<Writer>,
    pub(super) child: Child,
    /// The session as it was when it was moved away.
    pub(super) moved: Option<Book>,
    pub(super) judge: Judge,
    now_ms: u64,
}

/// Whoever writes the session.
struct Writer {
    journal: Journal,
    /// The fact with which it begins, until that is written.
    first: Option<Fact>,
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        let disk = SimFs::new(seed, Arc::new(Calm));
        let armed = Armed::new(seed);
        let fs = disk.process_begins(Arc::new(armed.clone()));
        let store = FileStore::on(Arc::new(fs.clone()), SESSIONS);
        Run {
            disk,
            fs,
            store,
            armed,
            dice: Dice::new(seed),
            book: None,
            writer: None,
            child: Child::default(),
            moved: None,
            judge: Judge::default(),
            now_ms: CRASH_EPOCH_MS,
        }
    }

    /// Does a procedure with a fault armed. Gives how many of its operations that can strike.
    pub(super) fn strikes(&mut self, fault: Fault, to: Procedure, at: Option<u32>) -> u32 {
        self.prepare(to);
        self.armed.arm(fault, at);
        self.does(to);
        self.armed.disarm()
    }

    /// Everything a procedure needs to be worth a fault.
    fn prepare(&mut self, to: Procedure) {
        if self.dice.half() {
            // Somebody was here before.
            let other = self.store.create(self.header("other"));
            other.err().into_iter().for_each(|e| self.judge.unfair("create", &e));
        }
        if to == Procedure::Create {
            return;
        }
        self.does(Procedure::Create);
        for _ in 0..self.dice.below(4) {
            let what = *self.dice.pick(&[Procedure::Append, Procedure::Sync, Procedure::Reopen]);
            self.does(what);
        }
        if to == Procedure::Repair {
            return self.tear();
        }
        self.does(Procedure::Append);
        if self.dice.half() && to != Procedure::Sync {
            self.does(Procedure::Sync);
        }
    }

    /// Crashes until the log has a torn tail.
    fn tear(&mut self) {
        for _ in 0..CRASH_TORN_TRIES {
            self.does(Procedure::Append);
            match self.dice.below(3) {
                0 => {
                    self.armed.arm(Fault::Killed, Some(0));
                    self.does(Procedure::Append);
                    self.armed.disarm();
                    self.dies(None);
                }
                _ => self.dies_somehow(),
            }
            if self.judge.tail.is_some() {
                return;
            }
            self.does(Procedure::Reopen);
        }
        self.dies(None);
        self.judge.tear_by_hand(&self.disk);
        self.dies(None);
    }

    /// After the fault: the process dies, of it or later; other lives follow, and more faults with them.
    pub(super) fn lives_on(&mut self, fault: Fault) {
        if fault.kills() {
            self.dies(fault.loss());
        } else {
            // It goes on as if nothing was.
            self.busy(3);
            self.dies_somehow();
        }
        let more = if fault == Fault::Combined { 1 + self.dice.below(2) } else { 0 };
        for _ in 0..more {
            let fault = *self.dice.pick(&Fault::ALL[..Fault::ALL.len() - 1]);
            let at = self.dice.below(CRASH_LATER_OPS);
            self.armed.arm(fault, Some(at));
            self.does(Procedure::Reopen);
            self.busy(6);
            self.armed.disarm();
            if fault.kills() { self.dies(fault.loss()) } else { self.dies_somehow() }
        }
        // And then all is well again.
        for what in [Procedure::Reopen, Procedure::Append, Procedure::Sync, Procedure::Append] {
            self.does(what);
        }
        self.dies_somehow();
        self.judge.spoil(&self.disk, self.book.as_ref(), &mut self.dice);
    }

    fn busy(&mut self, most: u32) {
        for _ in 0..self.dice.below(most + 1) {
            let what =
                *self.dice.pick(&[Procedure::Append, Procedure::Sync, Procedure::Append, Procedure::Reopen]);
            self.does(what);
        }
    }

    fn dies_somehow(&mut self) {
        let losses = [Loss::Dropped, Loss::Zeroed, Loss::Stale, Loss::Mixed];
        let loss = if self.dice.half() { None } else { Some(*self.dice.pick(&losses)) };
        self.dies(loss);
    }

    /// The process dies, with the power or without; another begins, and the log is judged.
    fn dies(&mut self, loss: Option<Loss>) {
        self.fs.kill();
        self.writer = None;
        self.disk.set_room(None);
        if let Some(loss) = loss {
            self.disk.cut_power(loss);
        }
        self.armed.begin();
        self.judges(loss.is_some());
        self.fs = self.disk.process_begins(Arc::new(self.armed.clone()));
        self.store = FileStore::on(Arc::new(self.fs.clone()), SESSIONS);
    }

    /// One procedure, whatever comes of it.
    pub(super) fn does(&mut self, what: Procedure) {
        self.now_ms += 1;
        let done = match what {
            Procedure::Create => self.create(),
            Procedure::Append => self.open_if_closed().and_then(|()| self.append()),
            Procedure::Sync => self.open_if_closed().and_then(|()| self.sync()),
            Procedure::Reopen | Procedure::Repair => self.reopen(),
            Procedure::Fork => self.fork(),
            Procedure::Trash => {
                self.writer = None;
                self.trash()
            }
        };
        if let Err(e) = done
            && self.armed.struck().is_none()
        {
            self.judge.unfair(what.words(), &e);
        }
    }

    pub(super) fn header(&self, id: &str) -> SessionHeader {
        SessionHeader {
            kind: SessionTag::Session,
            format: FORMAT,
            id: id.parse().unwrap_or_else(|_| unreachable!("a plain name")),
            created: self.now_ms,
            cwd: "/".to_owned(),
            by: BY.to_owned(),
            parent: None,
            origin: None,
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn create(&mut self) -> Result<(), Error> {
        let header = self.header(ID);
        let line: Line = header.to_line().unwrap_or_default().trim_ascii_end().into();
        let book = Book::new(Written { tried: vec![line.clone()], ..Written::default() });
        self.book = Some(book.clone());
        let opened = self.store.create(header)?;
        book.get().found(vec![line]);
        self.write_with(book, opened);
        Ok(())
    }

    fn open_if_closed(&mut self) -> Result<(), Error> {
        match (&self.writer, &self.book) {
            (Some(_), _) => Ok(()),
            (None, Some(_)) => self.open(),
            (None, None) => self.create(),
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        let Some(book) = self.book.clone() else { return self.create() };
        let mut events = 0;
        let opened = self.store.open(ID, &mut |_| events += 1)?;
        self.judge.opened(&self.disk, &mut book.get(), events, opened.cut_bytes);
        self.write_with(book, opened);
        Ok(())
    }

    fn write_with(&mut self, book: Book, opened: terret::store::Opened) {
        let first = Some(Fact::WriterOpened(opened.writer()));
        self.writer = Some(Writer { journal: Journal::new(book.watches(opened)), first });
    }

    fn reopen(&mut self) -> Result<(), Error> {
        self.writer = None;
        self.open_if_closed()?;
        self.append()
    }

    /// Some facts by one write. A full disk takes none of them, and the writer goes on where the log ends.
    fn append(&mut self) -> Result<(), Error> {
        let facts: Vec<Fact> = (0..1 + self.dice.below(5)).map(|_| self.fact()).collect();
        let now_ms = self.now_ms;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut push = || {
            for fact in writer.first.iter().chain(&facts) {
                writer.journal.push(now_ms, fact)?;
            }
            writer.journal.write()
        };
        let done = push();
        self.judge.look(&self.disk, done.is_ok());
        match done {
            Ok(_) => writer.first = None,
            Err(Error::Full { path }) => {
                let mut scan = self.store.read(ID)?;
                while scan.next_event()?.is_some_and(|next| next.is_ok()) {}
                writer.journal.rewind(scan.tip().clone());
                return Err(Error::Full { path });
            }
            // Whoever does not know that the log is given up is told so.
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let done = writer.journal.sync().now_or_never().unwrap_or(Err(Error::Gone));
        if done.is_err() {
            // Somebody tries again: it must not seem to help.
            let _ = writer.journal.sync().now_or_never();
        }
        done
    }

    fn fact(&mut self) -> Fact {
        let length = *self.dice.pick(&[0, 7, 7, 60, 60, 700]);
        let text: String = (0..length).map(|_| char::from(b'a' + self.dice.below(26) as u8)).collect();
        match self.dice.below(5) {
            0 => {
                let message = Message::user(format!("m{}", self.now_ms).as_str(), text);
                Fact::InboxAdded(InboxAdded { message, lane: Lane::NextTurn, wake: false, replaces: None })
            }
            1 => Fact::WriterIdle(WriterIdle {}),
            _ => {
                let chunk = Chunk::TextDelta { index: 0, text };
                Fact::AssistantChunk(AssistantChunk { turn: 1, step: 1, attempt: 1, chunk })
            }
        }
    }

    fn trash(&mut self) -> Result<(), Error> {
        let Some(book) = self.book.clone().filter(|_| self.moved.is_none()) else { return Ok(()) };
        // From here on it is in one of two places.
        self.moved = Some(book);
        self.store.remove(ID, TRASH.as_ref())?;
        self.book = None;
        Ok(())
    }
}
