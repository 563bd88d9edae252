//! The agent as a program holds it: make one, send it messages, await what became of them.

mod build;
mod subscribe;

use std::path::PathBuf;

use terret_core::chunk::Usage;
use terret_core::fact::{Cause, EndReason, Lane, Removal};
use terret_core::id::{Digest, MsgId, Seq, SessionId};
use terret_core::input::{Input, Record, Recovery, Send};
use terret_core::message::Message;
use terret_core::project::TurnSummary;
use terret_core::state::Pending;
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::Error;

pub use build::Builder;
pub use subscribe::Subscription;

/// A running session. Dropping it does not stop the work; [`Agent::shutdown`] does.
#[derive(Clone)]
pub struct Agent {
    id: SessionId,
    handle: Handle,
    progress: watch::Receiver<Progress>,
    /// Where this writer's first line goes.
    start: u64,
    header: std::sync::Arc<terret_core::line::SessionHeader>,
}

/// What posts mail to an agent: held by programs and plugins alike.
#[derive(Clone)]
pub struct Handle(mpsc::Sender<Mail>);

/// A handle that does not keep its agent going.
pub(crate) struct WeakHandle(mpsc::WeakSender<Mail>);

impl WeakHandle {
    /// The handle; one whose mail goes nowhere, once nobody else holds the agent.
    pub(crate) fn get(&self) -> Handle {
        Handle(self.0.upgrade().unwrap_or_else(|| mpsc::channel(1).0))
    }
}

/// How one turn ended, as those who asked for it see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of the turn.
    pub turn: u32,
    /// How it ended.
    pub ending: EndReason,
    /// Text of its last answer.
    pub text: String,
    /// Tokens of all its requests; `None` if no provider counted.
    pub usage: Option<Usage>,
    /// Steps it took.
    pub steps: u32,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The turn that claimed it ended.
    Ended(Outcome),
    /// It waits for the next wake; the turn that ended before it could be read ended like this.
    Parked(Outcome),
    /// It waits until it is released by name.
    Held(Outcome),
    /// It was taken off.
    Removed(Removal),
}

/// Acknowledged: the message is durable. Resolves to what became of it.
pub struct Receipt {
    /// The message.
    pub id: MsgId,
    settled: oneshot::Receiver<Settlement>,
}

impl Receipt {
    /// Waits for what becomes of the message.
    pub async fn settled(self) -> Result<Settlement, Error> {
        self.settled.await.map_err(|_| Error::Gone)
    }
}

/// Where an agent stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// Nothing to do.
    #[default]
    Idle,
    /// A turn is open.
    Running,
    /// Messages wait for a wake.
    Parked,
    /// A dead writer's turn waits for [`Agent::recover`].
    Suspended,
    /// A write or a sync failed: nothing more is done.
    Poisoned,
}

/// How far an agent is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Where it stands.
    pub status: Status,
    /// Bytes of the log that are written.
    pub bytes: u64,
    /// The turn that ended last, once its end was synced.
    pub last: Option<TurnSummary>,
    /// Why the session is poisoned.
    pub broken: Option<String>,
}

/// A look at an agent's log and queue.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Last line written: seq and chain value.
    pub head: Option<(Seq, Digest)>,
    /// Messages that wait.
    pub pending: Vec<Pending>,
    /// Whether a dead writer's turn waits for recovery.
    pub suspended: bool,
    /// Whether a waking message would start a turn now.
    pub armed: bool,
    /// The log.
    pub log: PathBuf,
}

pub(crate) enum Mail {
    Send { send: Send, ack: oneshot::Sender<Result<(), Error>>, settled: oneshot::Sender<Settlement> },
    Input { input: Input, ack: oneshot::Sender<Result<(), Error>> },
    Look { reading: oneshot::Sender<Reading> },
    Reader { from: u64, reader: oneshot::Sender<Result<Box<dyn std::io::Read + std::marker::Send>, Error>> },
    Shutdown { done: oneshot::Sender<()> },
}

impl Handle {
    pub(crate) fn downgrade(&self) -> WeakHandle {
        WeakHandle(self.0.downgrade())
    }

    async fn post(&self, mail: Mail) -> Result<(), Error> {
        self.0.send(mail).await.map_err(|_| Error::Gone)
    }

    async fn input(&self, input: Input) -> Result<(), Error> {
        let (ack, acked) = oneshot::channel();
        self.post(Mail::Input { input, ack }).await?;
        acked.await.map_err(|_| Error::Gone)?
    }

    /// Sends a message; returns once it is durable.
    pub async fn send(&self, message: Message, lane: Lane, wake: bool) -> Result<Receipt, Error> {
        let (ack, acked) = oneshot::channel();
        let (settle, settled) = oneshot::channel();
        let id = message.id.clone();
        let send = Send { message, lane, wake, replaces: None };
        self.post(Mail::Send { send, ack, settled: settle }).await?;
        acked.await.map_err(|_| Error::Gone)??;
        Ok(Receipt { id, settled })
    }

    /// Asks the open turn to stop, without waiting; the first cause wins. Fails only if the agent is gone or
    /// its mailbox is full.
    pub fn cancel_now(&self, cause: Cause) -> Result<(), Error> {
        let (ack, _) = oneshot::channel();
        self.0.try_send(Mail::Input { input: Input::Cancel { cause }, ack }).map_err(|_| Error::Gone)
    }
}

impl Agent {
    /// Id of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Header of the session's log.
    pub fn header(&self) -> &terret_core::line::SessionHeader {
        &self.header
    }

    /// What plugins hold.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Sends a prompt and waits for the end of *its* turn. Where the message was parked or held instead, the
    /// outcome is that of the turn before which it waits.
    pub async fn prompt(&self, text: impl Into<String>) -> Result<Outcome, Error> {
        match self.followup(self.user(text)).await?.settled().await? {
            Settlement::Ended(outcome) | Settlement::Parked(outcome) | Settlement::Held(outcome) => {
                Ok(outcome)
            }
            Settlement::Removed(_) => {
                Err(Error::Usage("the message was taken off before it was read".into()))
            }
        }
    }

    /// A message of the person, with a fresh id.
    pub fn user(&self, text: impl Into<String>) -> Message {
        Message::user(build::fresh_id().as_str(), text)
    }

    /// Queues a message for a turn of its own.
    pub async fn followup(&self, message: Message) -> Result<Receipt, Error> {
        self.handle.send(message, Lane::NextTurn, true).await
    }

    /// Puts a message before the model at the next step; starts a turn if none is open.
    pub async fn steer(&self, message: Message) -> Result<Receipt, Error> {
        self.handle.send(message, Lane::NextStep, true).await
    }

    /// Adds context for the next step; starts nothing.
    pub async fn inject(&self, message: Message) -> Result<Receipt, Error> {
        self.handle.send(message, Lane::NextStep, false).await
    }

    /// Asks the open turn to stop. The queue is kept.
    pub async fn cancel(&self, cause: Cause) -> Result<(), Error> {
        self.handle.input(Input::Cancel { cause }).await
    }

    /// Takes pending messages off.
    pub async fn remove(&self, msgs: Vec<MsgId>) -> Result<(), Error> {
        self.handle.input(Input::Remove { msgs, why: Removal::Canceled }).await
    }

    /// Lets pending messages go, held ones too, and drains the queue.
    pub async fn release(&self, msgs: Vec<MsgId>) -> Result<(), Error> {
        self.handle.input(Input::Release { msgs }).await
    }

    /// Moves on in a turn a dead writer left open.
    pub async fn recover(&self, recovery: Recovery) -> Result<(), Error> {
        self.handle.input(Input::Recover(recovery)).await
    }

    /// Records something for a plugin.
    pub async fn record(&self, record: Record) -> Result<(), Error> {
        self.handle.input(Input::Record(record)).await
    }

    /// Waits until no turn is open and nothing would start one.
    pub async fn when_idle(&self) -> Result<Progress, Error> {
        // Mail that was acknowledged is behind us only once the driver has looked up from it.
        self.look().await?;
        let mut progress = self.progress.clone();
        let settled = progress.wait_for(|p| !matches!(p.status, Status::Running)).await;
        settled.map(|p| p.clone()).map_err(|_| Error::Gone)
    }

    /// Where it stands now.
    pub fn status(&self) -> Status {
        self.progress.borrow().status
    }

    /// Looks at the log's head and the queue.
    pub async fn look(&self) -> Result<Reading, Error> {
        let (reading, read) = oneshot::channel();
        self.handle.post(Mail::Look { reading }).await?;
        read.await.map_err(|_| Error::Gone)
    }

    /// Every line this writer adds, from its first one, as stored.
    pub async fn subscribe(&self) -> Result<Subscription, Error> {
        self.subscribe_at(self.start).await
    }

    async fn subscribe_at(&self, from: u64) -> Result<Subscription, Error> {
        let (reader, read) = oneshot::channel();
        self.handle.post(Mail::Reader { from, reader }).await?;
        let reader = read.await.map_err(|_| Error::Gone)??;
        Ok(Subscription::new(reader, from, self.progress.clone()))
    }

    /// Cancels the open turn, closes it in the log, keeps the queue, and lets go of the session.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let (done, finished) = oneshot::channel();
        self.handle.post(Mail::Shutdown { done }).await?;
        finished.await.map_err(|_| Error::Gone)
    }
}
