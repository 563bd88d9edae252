//! What agents, drivers and plugins say to each other.

use std::path::PathBuf;

use terret_core::chunk::Usage;
use terret_core::fact::{Cause, EndReason, Lane, Removal};
use terret_core::id::{Digest, MsgId, Seq};
use terret_core::input::{Input, Record, Send};
use terret_core::message::Message;
use terret_core::project::TurnSummary;
use terret_core::state::Pending;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;

/// What posts mail to an agent: held by programs and plugins alike. It does not keep the agent going: an [`Agent`]
/// does, and once the last one is dropped what was sent is worked off, and then the session is let go of.
///
/// [`Agent`]: crate::Agent
#[derive(Clone)]
pub struct Handle(pub(crate) mpsc::Sender<Mail>);

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
    /// It was sent before and settled before: the log says how.
    Earlier,
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
    /// A dead writer's turn waits for [`crate::Agent::recover`].
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

/// What is posted to a driver; small, since an idle agent's mailbox is as large as some of them.
pub(crate) enum Mail {
    Send { send: Box<Send>, ack: oneshot::Sender<Result<(), Error>>, settled: oneshot::Sender<Settlement> },
    Input { input: Box<Input>, ack: oneshot::Sender<Result<(), Error>> },
    Look { reading: oneshot::Sender<Reading> },
    Reader { from: u64, reader: oneshot::Sender<Result<Box<dyn std::io::Read + std::marker::Send>, Error>> },
    Shutdown { done: oneshot::Sender<Result<(), Error>> },
}

impl Handle {
    pub(crate) async fn post(&self, mail: Mail) -> Result<(), Error> {
        self.0.send(mail).await.map_err(|_| Error::Gone)
    }

    pub(crate) async fn input(&self, input: Input) -> Result<(), Error> {
        let (ack, acked) = oneshot::channel();
        self.post(Mail::Input { input: Box::new(input), ack }).await?;
        acked.await.map_err(|_| Error::Gone)?
    }

    /// Sends a message; returns once it is durable.
    pub async fn send(&self, message: Message, lane: Lane, wake: bool) -> Result<Receipt, Error> {
        self.post_message(Send { message, lane, wake, replaces: None }).await
    }

    pub(crate) async fn post_message(&self, send: Send) -> Result<Receipt, Error> {
        let (ack, acked) = oneshot::channel();
        let (settle, settled) = oneshot::channel();
        let id = send.message.id.clone();
        self.post(Mail::Send { send: Box::new(send), ack, settled: settle }).await?;
        acked.await.map_err(|_| Error::Gone)??;
        Ok(Receipt { id, settled })
    }

    /// Looks at the log's head and the queue.
    pub async fn look(&self) -> Result<Reading, Error> {
        let (reading, read) = oneshot::channel();
        self.post(Mail::Look { reading }).await?;
        read.await.map_err(|_| Error::Gone)
    }

    /// The log as it is stored, from this byte on.
    pub(crate) async fn reader(
        &self,
        from: u64,
    ) -> Result<Box<dyn std::io::Read + std::marker::Send>, Error> {
        let (reader, read) = oneshot::channel();
        self.post(Mail::Reader { from, reader }).await?;
        read.await.map_err(|_| Error::Gone)?
    }

    /// Records something for a plugin; returns once it is durable.
    pub async fn record(&self, record: Record) -> Result<(), Error> {
        self.input(Input::Record(record)).await
    }

    /// Asks the open turn to stop; the first cause wins. Returns once that is durable.
    pub async fn cancel(&self, cause: Cause) -> Result<(), Error> {
        self.input(Input::Cancel { cause }).await
    }

    /// Asks the open turn to stop, without waiting; the first cause wins. Fails only if the agent is gone or
    /// its mailbox is full.
    pub fn cancel_now(&self, cause: Cause) -> Result<(), Error> {
        let (ack, _) = oneshot::channel();
        self.0
            .try_send(Mail::Input { input: Box::new(Input::Cancel { cause }), ack })
            .map_err(|_| Error::Gone)
    }
}
