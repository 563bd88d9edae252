//! The driver: makes the set of running futures equal to what the machine is owed.
//!
//! One task owns the machine. Each round: write the facts; start and poll what stays inside the process;
//! sync if something that leaves the process, an acknowledgement or a turn's end waits for it; start what
//! leaves; wait for mail, an answer or a deadline.

mod answers;
mod effects;
mod ledger;
mod mailbox;
mod receipts;
mod running;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use terret_core::effect::Question;
use terret_core::fact::{Fact, WriterOpened};
use terret_core::id::Seq;
use terret_core::input::{Answer, Input};
use terret_core::line::SessionHeader;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::error::Error;
use crate::limits::{MAX_ANSWERS_A_WRITE, SYNC_AFTER_MS};
use crate::mail::{Mail, Progress, Status, WeakHandle};
use crate::model::{Adapter, BodyCache};
use crate::store::{Journal, Opened};
use crate::world::{Assembly, Reply, World};

pub(crate) use effects::Base;
pub(crate) use ledger::Folds;
use ledger::Ledger;
use receipts::Receipts;
use running::Running;

/// Runs one session.
pub(crate) struct Driver {
    ledger: Ledger,
    world: Arc<World>,
    base: Base,
    handle: WeakHandle,
    mail: mpsc::Receiver<Mail>,
    mail_closed: bool,
    running: Running,
    stops: HashMap<Question, watch::Sender<bool>>,
    assembly: Option<Assembly>,
    body: BodyCache,
    sending: Option<Sending>,
    acks: Vec<(Seq, Ack)>,
    receipts: Receipts,
    progress: watch::Sender<Progress>,
    unsynced_since: Option<Instant>,
    rested: bool,
    shutdown: Option<oneshot::Sender<()>>,
    /// Our first fact, until it is written.
    unwritten: Option<WriterOpened>,
}

/// A request that is logged and waits to be sent.
struct Sending {
    header: Arc<terret_core::fact::Header>,
    body: Option<bytes::Bytes>,
    adapter: Option<Arc<dyn Adapter>>,
}

/// An acknowledgement that waits for its sync.
type Ack = oneshot::Sender<Result<(), Error>>;

impl Driver {
    pub(crate) fn new(
        opened: Opened,
        folds: Folds,
        world: Arc<World>,
        base: Base,
        handle: WeakHandle,
        mail: mpsc::Receiver<Mail>,
        progress: watch::Sender<Progress>,
    ) -> Result<(Self, SessionHeader), Error> {
        let (header, writer) = (opened.header.clone(), opened.writer());
        let mut driver = Driver {
            ledger: Ledger::new(folds, Journal::new(opened)),
            world,
            base,
            handle,
            mail,
            mail_closed: false,
            running: Running::default(),
            stops: HashMap::new(),
            assembly: None,
            body: BodyCache::default(),
            sending: None,
            acks: Vec::new(),
            receipts: Receipts::default(),
            progress,
            unsynced_since: None,
            rested: true,
            shutdown: None,
            unwritten: None,
        };
        driver.open(writer)?;
        driver.show();
        Ok((driver, header))
    }

    /// Folds our first fact now; it is written with the first append, so that opening changes nothing on disk.
    fn open(&mut self, writer: WriterOpened) -> Result<(), Error> {
        self.unwritten = Some(writer.clone());
        self.take(Input::Opened(writer))?;
        self.ledger.journal.hold();
        Ok(())
    }

    pub(crate) async fn run(mut self) {
        loop {
            let outcome = match self.settle().await {
                Ok(()) => self.wait().await,
                Err(e) => Err(e),
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    if let Err(e) = self.contain(e) {
                        self.fail(e);
                        break;
                    }
                }
            }
        }
        if let Some(done) = self.shutdown.take() {
            let _ = done.send(());
        }
    }

    /// Goes round until nothing moves without waiting.
    async fn settle(&mut self) -> Result<(), Error> {
        loop {
            self.commit()?;
            self.start_inside();
            if self.drain()? {
                continue;
            }
            if self.needs_barrier() {
                self.barrier().await?;
                self.start_outgoing()?;
                continue;
            }
            if self.ledger.machine.state().turn().is_none() && !self.rested {
                self.take(Input::Idle)?;
                self.commit()?;
                self.rested = true;
            }
            self.show();
            return Ok(());
        }
    }

    /// Writes what was recorded, then shows it.
    fn commit(&mut self) -> Result<(), Error> {
        if !self.ledger.journal.write()? {
            return Ok(());
        }
        self.unwritten = None;
        self.unsynced_since.get_or_insert_with(Instant::now);
        for event in std::mem::take(&mut self.ledger.fresh) {
            self.rested = matches!(event.fact, Fact::WriterIdle(_));
            for observe in &self.world.seams.events {
                observe(&event);
            }
            if let Fact::InboxRemoved(removed) = &event.fact {
                self.receipts.removed(&removed.msgs, removed.why);
            }
        }
        let bytes = self.ledger.journal.log().length();
        self.progress.send_modify(|p| p.bytes = bytes);
        // Whoever is told that something was accepted must not find the agent idle. That it is idle again is
        // said only once the turn's end is synced.
        if self.status() == Status::Running {
            self.show();
        }
        Ok(())
    }

    /// Takes in what is ready: mail first, then answers. Says whether there was anything.
    fn drain(&mut self) -> Result<bool, Error> {
        let mut any = false;
        while let Ok(mail) = self.mail.try_recv() {
            self.receive(mail)?;
            any = true;
        }
        for _ in 0..MAX_ANSWERS_A_WRITE {
            match self.running.next().now_or_never() {
                Some(Some((question, reply))) => self.reply(question, reply)?,
                Some(None) | None => break,
            }
            any = true;
        }
        Ok(any)
    }

    fn needs_barrier(&self) -> bool {
        let overdue =
            self.unsynced_since.is_some_and(|at| at.elapsed() >= Duration::from_millis(SYNC_AFTER_MS));
        !self.acks.is_empty()
            || !self.ledger.ended.is_empty()
            || self.owes_outgoing()
            || (overdue && self.ledger.journal.is_behind())
    }

    /// Syncs, then says what the sync allows to be said.
    async fn barrier(&mut self) -> Result<(), Error> {
        self.ledger.journal.sync().await?;
        self.unsynced_since = None;
        for (_, ack) in self.acks.drain(..) {
            let _ = ack.send(Ok(()));
        }
        for turn in std::mem::take(&mut self.ledger.ended) {
            self.receipts.turn_ended(&turn, self.ledger.machine.state());
            self.progress.send_modify(|p| p.last = Some(turn));
        }
        Ok(())
    }

    /// Waits for the next thing to happen. `false`: the agent is being put away.
    async fn wait(&mut self) -> Result<bool, Error> {
        let at_rest = self.ledger.machine.state().turn().is_none() || self.ledger.machine.suspended();
        if at_rest && (self.shutdown.is_some() || self.mail_closed) {
            return Ok(false);
        }
        let sync_at = self.unsynced_since.map(|at| at + Duration::from_millis(SYNC_AFTER_MS));
        let idle = self.running.is_empty();
        tokio::select! {
            biased;
            mail = self.mail.recv(), if !self.mail_closed => match mail {
                Some(mail) => self.receive(mail)?,
                // Nobody holds the agent any more: the open turn is brought to its end, then it is over.
                None => self.mail_closed = true,
            },
            Some((question, reply)) = self.running.next(), if !idle => self.reply(question, reply)?,
            () = tokio::time::sleep_until(sync_at.unwrap_or_else(Instant::now)), if sync_at.is_some() => {
                if !self.ledger.journal.is_behind() {
                    self.unsynced_since = None;
                }
            }
        }
        Ok(true)
    }

    fn take(&mut self, input: Input) -> Result<terret_core::machine::Handled, Error> {
        let now = self.world.clock.epoch_ms();
        self.ledger.take(now, input)
    }

    fn reply(&mut self, question: Question, reply: Reply) -> Result<(), Error> {
        let answer = match reply {
            Reply::Answer(Answer::Chunks(chunks)) => self.bounded(chunks),
            Reply::Answer(answer) => answer,
            Reply::Entered(answer, assembly) => {
                self.assembly = Some(assembly);
                answer
            }
            Reply::Accepted(accepted) => self.accepted(question, *accepted),
            Reply::StreamEnd(end) => self.stream_end(end),
        };
        self.take(Input::Answer(question, answer))?;
        Ok(())
    }

    /// Tries to go on after a write found the disk full: what could not be written is forgotten, and the
    /// open turn is closed in the room that was kept for it.
    fn contain(&mut self, error: Error) -> Result<(), Error> {
        let Error::Full { path } = error else {
            return Err(error);
        };
        self.running.clear();
        self.stops.clear();
        for (_, ack) in self.acks.drain(..) {
            let _ = ack.send(Err(Error::Full { path: path.clone() }));
        }
        self.body = BodyCache::default();
        let reported = self
            .ledger
            .fresh
            .iter()
            .filter_map(|event| match &event.fact {
                Fact::ToolResult(result) => Some((result.call, result.outcome)),
                _ => None,
            })
            .collect();
        self.ledger.refold()?;
        self.receipts.forget_unless(|id| self.ledger.folds.accepted.contains_key(id));
        if let Some(writer) = self.unwritten.take() {
            // Not even our first line fitted: nothing was begun, so nothing is to be closed.
            return self.open(writer);
        }
        self.take(Input::StoreFull { reported })?;
        self.commit()
    }

    /// The session is poisoned: nothing more is done, nothing is acknowledged.
    fn fail(&mut self, error: Error) {
        self.running.clear();
        let why = error.to_string();
        let path = self.ledger.journal.log().path().to_owned();
        self.ledger.journal.poison(&why);
        for (_, ack) in self.acks.drain(..) {
            let _ = ack.send(Err(Error::Poisoned { path: path.clone(), why: why.clone() }));
        }
        self.progress.send_modify(|p| {
            p.status = Status::Poisoned;
            p.broken = Some(why);
        });
    }

    fn status(&self) -> Status {
        let state = self.ledger.machine.state();
        match state.turn() {
            Some(_) if self.ledger.machine.suspended() => Status::Suspended,
            Some(_) => Status::Running,
            None if state.inbox().iter().next().is_some() => Status::Parked,
            None => Status::Idle,
        }
    }

    fn show(&self) {
        let status = self.status();
        self.progress.send_if_modified(|p| {
            let changed = p.status != status;
            p.status = status;
            changed
        });
    }
}
