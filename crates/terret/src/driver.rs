//! The driver: makes the set of running futures equal to what the machine is owed.
//!
//! One task owns the machine. Each round: write the facts; start and poll what stays inside the process;
//! sync if something that leaves the process, an acknowledgement or a turn's end waits for it; start what
//! leaves; wait for mail, an answer or a deadline.

mod answers;
mod effects;
mod ledger;
mod mailbox;
mod publish;
mod receipts;
mod running;
mod trouble;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use terret_core::effect::Question;
use terret_core::fact::{Fact, InboxAdded, Removal, WriterOpened};
use terret_core::id::{Digest, Seq};
use terret_core::input::{Answer, Input, Record};
use terret_core::line::SessionHeader;
use terret_core::machine::Handled;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::error::Error;
use crate::limits::{MAX_ANSWERS_A_WRITE, MAX_ROUNDS_A_BARRIER, SYNC_AFTER_MS};
use crate::mail::{Handle, Mail, Progress, Status};
use crate::model::{Adapter, BodyCache};
use crate::store::{Journal, Opened};
use crate::world::{Assembly, Reply, World};

pub(crate) use effects::Base;
pub(crate) use ledger::Folds;
use ledger::Ledger;
use publish::Watched;
use receipts::Receipts;
use running::Running;

/// Runs one session.
pub(crate) struct Driver {
    ledger: Ledger,
    world: Arc<World>,
    base: Base,
    post: Post,
    /// Nobody holds the agent any more.
    alone: bool,
    running: Running,
    /// The sign of the open turn that it is cancelled.
    stop: watch::Sender<bool>,
    assembly: Option<Assembly>,
    body: BodyCache,
    sending: Option<Sending>,
    /// Acknowledgements, each with the seq behind which everything it speaks of lies.
    acks: Vec<(Option<Seq>, Ack)>,
    receipts: Receipts,
    progress: watch::Sender<Progress>,
    unsynced_since: Option<Instant>,
    rested: bool,
    /// No turn starts any more.
    resting: bool,
    shutdown: Vec<oneshot::Sender<Result<(), Error>>>,
    watched: Watched,
    /// Who waits to hear that what they recorded is written.
    recorded: Vec<oneshot::Sender<()>>,
    /// Our first fact, until it is written.
    unwritten: Option<WriterOpened>,
}

/// How others reach a driver.
pub(crate) struct Post {
    /// What hooks are given.
    pub(crate) handle: Handle,
    /// What is posted.
    pub(crate) mail: mpsc::Receiver<Mail>,
    /// Closed once nobody holds the agent any more.
    pub(crate) held: mpsc::Receiver<Infallible>,
}

/// A request that is logged and waits to be sent.
struct Sending {
    header: Arc<terret_core::fact::Header>,
    digest: Digest,
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
        post: Post,
        progress: watch::Sender<Progress>,
    ) -> Result<(Self, SessionHeader), Error> {
        let (header, writer) = (opened.header.clone(), opened.writer());
        let watched = Watched::after(&folds);
        let mut driver = Driver {
            ledger: Ledger::new(folds, Journal::new(opened)),
            world,
            base,
            post,
            alone: false,
            running: Running::default(),
            stop: watch::Sender::new(false),
            assembly: None,
            body: BodyCache::default(),
            sending: None,
            acks: Vec::new(),
            receipts: Receipts::default(),
            progress,
            unsynced_since: None,
            rested: true,
            resting: false,
            shutdown: Vec::new(),
            watched,
            recorded: Vec::new(),
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

    /// From here on no turn starts.
    pub(crate) fn rest(&mut self) -> Result<(), Error> {
        self.resting = true;
        self.take(Input::Rest).map(|_| ())
    }

    pub(crate) async fn run(mut self: Box<Self>) {
        let mut broken = None;
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
                        broken = Some(self.fail(&e));
                        break;
                    }
                }
            }
        }
        let waiting = std::mem::take(&mut self.shutdown);
        // The session is let go of before anybody is told that it is.
        drop(self);
        for done in waiting {
            let _ = done.send(broken.as_ref().map_or(Ok(()), |error| Err(error.again())));
        }
    }

    /// Goes round until nothing moves without waiting.
    async fn settle(&mut self) -> Result<(), Error> {
        let mut rounds = 0;
        loop {
            self.commit()?;
            self.start_inside()?;
            rounds += 1;
            if self.drain()? && rounds < MAX_ROUNDS_A_BARRIER {
                continue;
            }
            self.commit()?;
            if self.needs_barrier() {
                self.barrier().await?;
                // What was asked while the disk worked comes first: nothing starts that is not wanted any more.
                if !self.receive_all()? {
                    self.start_outgoing()?;
                }
            } else if rounds < MAX_ROUNDS_A_BARRIER {
                break;
            }
            if rounds >= MAX_ROUNDS_A_BARRIER {
                rounds = 0;
                tokio::task::yield_now().await;
            }
        }
        if self.ledger.machine.state().turn().is_none() && !self.rested {
            self.take(Input::Idle)?;
            self.commit()?;
            self.ledger.journal.rest(self.ledger.machine.state().inbox().iter().count());
            self.rested = true;
        }
        self.show();
        Ok(())
    }

    /// Writes what was recorded, then shows it.
    fn commit(&mut self) -> Result<(), Error> {
        if !self.ledger.journal.write()? {
            return Ok(());
        }
        self.unwritten = None;
        for heard in self.recorded.drain(..) {
            // Nobody asks any more: then nobody waits either.
            let _ = heard.send(());
        }
        self.unsynced_since.get_or_insert_with(Instant::now);
        for event in std::mem::take(&mut self.ledger.fresh) {
            self.rested = matches!(event.fact, Fact::WriterIdle(_));
            if let Fact::TurnStart(_) = event.fact {
                self.stop = watch::Sender::new(false);
            }
            // Tools hear of a cancel that is in the log, not before.
            if let Fact::TurnCancel(_) = event.fact {
                self.stop.send_replace(true);
            }
            self.publish(&event);
            if let Fact::InboxRemoved(removed) = &event.fact {
                self.receipts.removed(&removed.msgs, removed.why);
            }
            if let Fact::InboxAdded(InboxAdded { replaces: Some(old), .. }) = &event.fact {
                self.receipts.removed(std::slice::from_ref(old), Removal::Replaced);
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

    /// Takes in what is ready: mail first, then the answers to what is still asked. Says whether there was
    /// anything.
    fn drain(&mut self) -> Result<bool, Error> {
        // What it asks for is started once it is written.
        let mut any = self.receive_all()?;
        for _ in 0..MAX_ANSWERS_A_WRITE {
            match self.running.next().now_or_never() {
                Some(Some((question, reply))) => self.reply(question, reply)?,
                Some(None) | None => break,
            }
            any = true;
        }
        Ok(any)
    }

    /// Takes in all mail that is there, and drops what is no longer asked for after it.
    fn receive_all(&mut self) -> Result<bool, Error> {
        let mut any = false;
        while let Ok(mail) = self.post.mail.try_recv() {
            self.receive(mail)?;
            any = true;
        }
        if any {
            self.drop_unasked();
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
        self.receipts.synced();
        for turn in std::mem::take(&mut self.ledger.ended) {
            self.receipts.turn_ended(&turn, &self.ledger.machine);
            self.progress.send_modify(|p| p.last = Some(turn));
        }
        Ok(())
    }

    /// Waits for the next thing to happen. `false`: the agent is being put away.
    async fn wait(&mut self) -> Result<bool, Error> {
        let at_rest = self.ledger.machine.state().turn().is_none() || self.ledger.machine.suspended();
        if at_rest && (!self.shutdown.is_empty() || self.alone) {
            return Ok(false);
        }
        let sync_at = self.unsynced_since.map(|at| at + Duration::from_millis(SYNC_AFTER_MS));
        let idle = self.running.is_empty();
        tokio::select! {
            biased;
            Some(mail) = self.post.mail.recv() => self.receive(mail)?,
            // Nobody holds the agent any more: the open turn is brought to its end, then it is over.
            None = self.post.held.recv(), if !self.alone => self.alone = true,
            Some((question, reply)) = self.running.next(), if !idle => self.reply(question, reply)?,
            () = tokio::time::sleep_until(sync_at.unwrap_or_else(Instant::now)), if sync_at.is_some() => {
                if !self.ledger.journal.is_behind() {
                    self.unsynced_since = None;
                }
            }
        }
        Ok(true)
    }

    fn take(&mut self, input: Input) -> Result<Handled, Error> {
        let now = self.world.clock.epoch_ms();
        self.ledger.take(now, input)
    }

    fn reply(&mut self, question: Question, reply: Reply) -> Result<(), Error> {
        // A hook may cancel and answer in one breath: what it posted came before its answer.
        self.receive_all()?;
        let answer = match reply {
            Reply::Answer(Answer::Chunks(chunks)) => self.bounded(chunks),
            Reply::Answer(Answer::Settled { settled, contexts }) => {
                Answer::Settled { settled, contexts: self.with_own_ids(contexts) }
            }
            Reply::Answer(answer) => answer,
            Reply::Entered(answer, assembly) => {
                self.assembly = Some(assembly);
                answer
            }
            Reply::Accepted(accepted) => self.accepted(*accepted),
            Reply::StreamEnd(end) => self.stream_end(end),
            Reply::Noted(notes, reply) => {
                if self.asks(&question) {
                    for note in notes {
                        // While a turn closes nothing is recorded any more.
                        self.take(Input::Record(Record::Seam(note)))?;
                    }
                }
                return self.reply(question, *reply);
            }
            Reply::Record(record, written) => {
                if self.asks(&question) && self.take(Input::Record(record))? == Handled::Yes {
                    self.recorded.push(written);
                }
                return Ok(());
            }
        };
        self.take(Input::Answer(question, answer))?;
        Ok(())
    }

    fn status(&self) -> Status {
        let state = self.ledger.machine.state();
        match state.turn() {
            Some(_) if self.ledger.machine.suspended() => Status::Suspended,
            Some(_) => Status::Running,
            // Its end is told once it is synced, also of a turn that began and ended in one write.
            None if !self.ledger.ended.is_empty() => Status::Running,
            None if state.inbox().iter().next().is_some() => Status::Parked,
            None => Status::Idle,
        }
    }

    fn show(&self) {
        self.announce(self.status());
    }
}
