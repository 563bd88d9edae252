//! The agent as a program holds it: make one, send it messages, await what became of them.

mod ask;
mod build;
mod subscribe;

use std::convert::Infallible;
use std::sync::Arc;

use terret_core::fact::{Cause, Lane, Removal};
use terret_core::id::{MsgId, Seq, SessionId};
use terret_core::input::{Input, Record, Recovery, Send};
use terret_core::message::{Attachment, Message};
use terret_core::project::TurnSummary;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use crate::clock::Ids;
use crate::error::Error;
use crate::hook::{Installed, Plugin, Registry};
use crate::limits::MAX_ATTACHMENT_BYTES;
use crate::mail::Mail;
use crate::store::Store;

pub use crate::mail::{Handle, Outcome, Progress, Reading, Receipt, Settlement, Status};
pub use crate::world::Context;
pub use ask::Answer;
pub use build::{Builder, parse_route};
pub use subscribe::Subscription;

/// A running session. Dropping the last of its clones does not stop the work: what was sent is read, turn after turn,
/// within the limits there are, and then the session is let go of. [`Agent::shutdown`] stops it.
#[derive(Clone)]
pub struct Agent {
    id: SessionId,
    handle: Handle,
    /// The driver sees when the last one is gone.
    _alive: mpsc::Sender<Infallible>,
    progress: watch::Receiver<Progress>,
    /// Where this writer's first line goes.
    start: u64,
    header: Arc<terret_core::line::SessionHeader>,
    left_open: Option<TurnSummary>,
    ids: Arc<dyn Ids>,
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    /// Held by the question that is being answered.
    asking: Arc<Mutex<()>>,
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

    /// The turn a dead writer left open, as far as it had come when the session was opened.
    pub fn left_open(&self) -> Option<&TurnSummary> {
        self.left_open.as_ref()
    }

    /// What plugins hold.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Installs a plugin in the running agent, in its place among those that are there, for as long as the guard
    /// is kept. Fails if its name is taken, if it refuses its settings, or if it cannot be put in an order.
    ///
    /// What is being asked or told at this moment goes on with the listeners it began with.
    pub fn install(&self, plugin: impl Plugin + 'static) -> Result<Installed, Error> {
        self.registry.install(Arc::new(plugin))
    }

    /// Sends a prompt and waits for the end of *its* turn. Where the message was parked or held instead, the
    /// outcome is that of the turn before which it waits.
    ///
    /// Refused while a dead writer's turn waits for [`Agent::recover`]: nothing would be read before.
    pub async fn prompt(&self, text: impl Into<String>) -> Result<Outcome, Error> {
        match self.settlement(self.user(text)).await? {
            Settlement::Ended(outcome) | Settlement::Parked(outcome) | Settlement::Held(outcome) => {
                Ok(outcome)
            }
            Settlement::Removed(_) | Settlement::Earlier => Err(ask::taken_off()),
        }
    }

    /// Sends a message for a turn of its own and waits for what becomes of it.
    async fn settlement(&self, message: Message) -> Result<Settlement, Error> {
        if self.look().await?.suspended {
            return Err(Error::Refused("a turn was left open by a dead writer: recover it first"));
        }
        self.followup(message).await?.settled().await
    }

    /// A message of the person, with a fresh id.
    pub fn user(&self, text: impl Into<String>) -> Message {
        Message::user(self.ids.fresh().as_str(), text)
    }

    /// Keeps the bytes of a picture or a file beside the log, and gives what a message names them by
    /// (`Block::Image`, `Block::File`). They are durable when it returns, before any event can name them; the same
    /// bytes again cost nothing. A message that names what was never kept is refused.
    pub async fn attach(
        &self,
        bytes: Vec<u8>,
        media_type: &str,
        name: Option<&str>,
    ) -> Result<Attachment, Error> {
        if bytes.len() > MAX_ATTACHMENT_BYTES {
            let length = bytes.len();
            return Err(Error::Usage(format!(
                "the attachment is too large: {length} bytes, at most {MAX_ATTACHMENT_BYTES} are kept"
            )));
        }
        let (store, id, length) = (self.store.clone(), self.id.clone(), bytes.len() as u64);
        let kept = tokio::task::spawn_blocking(move || store.keep(id.as_str(), &bytes)).await;
        let blob = kept.map_err(|_| Error::Gone)??;
        let (media_type, name) = (media_type.to_owned(), name.map(str::to_owned));
        Ok(Attachment { blob, media_type, bytes: length, name })
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
        self.handle.cancel(cause).await
    }

    /// Puts a message in the place of a pending one, in the same lane. Refused once the old one was read.
    pub async fn edit(&self, old: MsgId, message: Message) -> Result<Receipt, Error> {
        let pending = self.look().await?.pending.into_iter().find(|p| p.id == old);
        let pending = pending.ok_or(Error::Refused("the message it should replace is not pending"))?;
        let (lane, wake) = (pending.lane, pending.wake);
        self.handle.post_message(Send { message, lane, wake, replaces: Some(old) }).await
    }

    /// Takes everything pending off. Stops nothing: that is [`Agent::cancel`].
    pub async fn clear(&self) -> Result<(), Error> {
        let pending = self.look().await?.pending.into_iter().map(|p| p.id).collect();
        self.remove(pending).await
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
        self.handle.record(record).await
    }

    /// Waits until no turn is open and nothing would start one. Of an agent that is gone: where it stood last.
    pub async fn when_idle(&self) -> Result<Progress, Error> {
        // Mail that was acknowledged is behind us only once the driver has looked up from it.
        let gone = self.look().await.is_err();
        let mut progress = self.progress.clone();
        let settled = progress.wait_for(|p| !matches!(p.status, Status::Running)).await.is_ok();
        let last = self.progress();
        match settled || (gone && last.status != Status::Running) {
            true => Ok(last),
            false => Err(Error::Gone),
        }
    }

    /// How far it is now.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Where it stands now.
    pub fn status(&self) -> Status {
        self.progress.borrow().status
    }

    /// Looks at the log's head and the queue.
    pub async fn look(&self) -> Result<Reading, Error> {
        self.handle.look().await
    }

    /// Every line this writer adds, from its first one, as stored.
    pub async fn subscribe(&self) -> Result<Subscription, Error> {
        self.subscribe_at(self.start).await
    }

    /// Every line from this seq on, of earlier writers too, and then those that come. A seq that is not there yet is
    /// waited for.
    pub async fn subscribe_from(&self, seq: Seq) -> Result<Subscription, Error> {
        // Line n of the log is event n: the header stands before the first one.
        Ok(self.subscribe_at(0).await?.skipping(seq.saturating_add(1)))
    }

    async fn subscribe_at(&self, from: u64) -> Result<Subscription, Error> {
        Ok(Subscription::new(self.handle.reader(from).await?, from, self.progress.clone()))
    }

    /// The header line as it is stored, newline included.
    pub async fn header_line(&self) -> Result<Vec<u8>, Error> {
        let mut line = Vec::new();
        let mut reader = std::io::BufReader::new(self.handle.reader(0).await?);
        std::io::BufRead::read_until(&mut reader, b'\n', &mut line)
            .map_err(Error::io("read", std::path::Path::new("the log")))?;
        Ok(line)
    }

    /// Cancels the open turn, closes it in the log, keeps the queue, and lets go of the session.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let (done, finished) = oneshot::channel();
        self.handle.post(Mail::Shutdown { done }).await?;
        finished.await.map_err(|_| Error::Gone)?
    }
}
