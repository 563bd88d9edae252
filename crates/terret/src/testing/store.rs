//! What every store has to do, as checks to run over one: for whoever writes a store of their own.

mod logs;
mod whole;

use std::io::Read;
use std::sync::Arc;

use terret_core::fact::{Fact, InboxAdded, Lane};
use terret_core::line::{Event, FORMAT, SessionHeader, SessionTag};
use terret_core::message::Message;

use crate::error::Error;
use crate::store::{BY, Journal, Opened, Store};

/// A store under test, and a hand on what lies below it.
pub trait UnderTest {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Puts a whole log there, as if a writer that is gone had left it so.
    fn put(&self, id: &str, log: &[u8]);

    /// The bytes of a log as they are kept, a torn tail too; nothing if it is not there.
    fn bytes(&self, id: &str) -> Option<Vec<u8>>;

    /// Whether it takes whole logs in, and so can be forked into. A store may refuse that.
    fn adopts(&self) -> bool {
        true
    }
}

/// Every check over an empty store. The error says which promise is not kept.
///
/// ```
/// # use std::sync::Arc;
/// # use terret::store::{MemoryStore, Store};
/// # use terret::testing::store::{UnderTest, conforms};
/// struct InMemory(MemoryStore);
///
/// impl UnderTest for InMemory {
///     fn store(&self) -> Arc<dyn Store> {
///         Arc::new(self.0.clone())
///     }
///     fn put(&self, id: &str, log: &[u8]) {
///         self.0.put(id, log.to_vec());
///     }
///     fn bytes(&self, id: &str) -> Option<Vec<u8>> {
///         self.0.bytes(id)
///     }
/// }
///
/// # async fn example() -> Result<(), String> {
/// conforms(&InMemory(MemoryStore::default())).await
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub async fn conforms(under: &dyn UnderTest) -> Result<(), String> {
    logs::create(under)?;
    logs::open(under)?;
    logs::append_and_read(under).await?;
    logs::poison(under).await?;
    logs::torn_tail(under)?;
    logs::unterminated(under)?;
    logs::damage(under)?;
    logs::foreign(under)?;
    if under.adopts() {
        whole::adopt(under)?;
        whole::fork(under)?;
    }
    Ok(())
}

/// What a check gives: nothing, or which promise is not kept.
type Check = Result<(), String>;

fn holds(is: bool, promise: &str) -> Check {
    if is { Ok(()) } else { Err(promise.to_owned()) }
}

/// Says in which check something failed that should not.
fn well<T>(done: Result<T, Error>, what: &str) -> Result<T, String> {
    done.map_err(|e| format!("{what} fails: {e}"))
}

fn header(id: &str) -> Result<SessionHeader, String> {
    let id = id.parse().map_err(|e| format!("{e}"))?;
    let (cwd, by) = ("/".to_owned(), BY.to_owned());
    Ok(SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id,
        created: 1,
        cwd,
        by,
        parent: None,
        origin: None,
    })
}

fn message(n: u64) -> Fact {
    let message = Message::user(&*format!("m{n}"), format!("message {n}"));
    Fact::InboxAdded(InboxAdded { message, lane: Lane::NextTurn, wake: false, replaces: None })
}

/// A writer that wrote its first line and so many messages.
fn writer(opened: Opened, messages: u64) -> Result<Journal, String> {
    let first = Fact::WriterOpened(opened.writer());
    let mut journal = Journal::new(opened);
    for fact in std::iter::once(first).chain((0..messages).map(message)) {
        well(journal.push(1, &fact), "to encode a fact")?;
    }
    well(journal.write(), "to append")?;
    Ok(journal)
}

/// A session with a writer's first line and three messages, and nobody who writes it. Gives its bytes.
fn written(under: &dyn UnderTest, id: &str) -> Result<Vec<u8>, String> {
    drop(writer(well(under.store().create(header(id)?), "to create")?, 3)?);
    under.bytes(id).ok_or_else(|| "what was created has no bytes".to_owned())
}

fn events(under: &dyn UnderTest, id: &str) -> Result<(Vec<Event>, Opened), String> {
    let mut events = Vec::new();
    let opened = well(under.store().open(id, &mut |event| events.push(event.clone())), "to open")?;
    Ok((events, opened))
}

fn all_of(mut reader: Box<dyn Read + Send>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|e| format!("to read fails: {e}"))?;
    Ok(bytes)
}
