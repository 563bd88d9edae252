//! For tests and demonstrations: agents whose model plays a script, requests and calls without an agent, checks for
//! stores, disks that fail at a chosen step. No key, no network.

pub mod store;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use terret_core::chunk::Failure;
use terret_core::fact::{EffectClass, Fact, Header, RequestAttempt, ToolCall};
use terret_core::id::Digest;
use terret_core::line::{FORMAT, SessionHeader, SessionTag};

use crate::Agent;
use crate::agent::Builder;
use crate::call::{Call, Started};
use crate::error::Error;
use crate::model::Providers;
use crate::model::script::ScriptAdapter;
use crate::request::Outgoing;
use crate::store::{BY, Durable, Journal, MemoryStore, Store};

pub use watched::{Step, Watched};

/// Begins an agent whose model plays this script (its format: [`crate::model::script`]). Its log is in memory
/// unless the builder is told otherwise.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = terret::testing::scripted("say hello")?.create(None).await?;
/// assert_eq!(agent.prompt("hi").await?.text, "hello");
/// # Ok(())
/// # }
/// ```
pub fn scripted(script: &str) -> Result<Builder, Failure> {
    let player = ScriptAdapter::new().with("test", script)?;
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    Ok(Agent::builder(Arc::new(models)).routed("script", "test"))
}

/// A request for an adapter under test: its attempt is logged and synced first, in memory, as the loop does it.
pub fn outgoing(header: Header, body: Bytes, idle_timeout: Duration) -> Result<Outgoing, Error> {
    let proof = attempted(&header, Digest::of(&body), body.len())?;
    Outgoing::new(proof, Arc::new(header), body, idle_timeout).map_err(|e| Error::Usage(e.message))
}

/// The proof of an attempt whose body has this digest and length.
pub(crate) fn attempted(
    header: &Header,
    digest: Digest,
    bytes: usize,
) -> Result<Durable<RequestAttempt>, Error> {
    let coded = !header.wire.is_empty();
    let attempt = RequestAttempt {
        turn: 1,
        step: 1,
        attempt: 1,
        digest,
        wire: coded.then(|| header.wire.clone()),
        wire_digest: coded.then_some(digest),
        bytes: coded.then_some(bytes as u64),
    };
    let mut journal = recorded(&Fact::RequestAttempt(attempt))?;
    journal.request().ok_or(Error::Refused("the attempt is not synced"))
}

/// A call for a tool under test: logged and synced first, in memory, as the loop does it.
pub fn started(call: Call) -> Result<Started, Error> {
    let fact = ToolCall {
        turn: call.id.turn,
        step: call.id.step,
        call: call.id,
        run: 1,
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        effect: EffectClass::Unsafe,
        key: call.key.clone(),
    };
    let mut journal = recorded(&Fact::ToolCall(fact))?;
    let proof = journal.call(call.id).ok_or(Error::Refused("the call is not synced"))?;
    Ok(Started::new(proof, call))
}

/// A log of one fact, synced.
fn recorded(fact: &Fact) -> Result<Journal, Error> {
    let header = SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: "test".parse().map_err(|e| Error::Usage(format!("{e}")))?,
        created: 0,
        cwd: ".".to_owned(),
        by: BY.to_owned(),
        parent: None,
        origin: None,
    };
    let mut journal = Journal::new(MemoryStore::default().create(header)?);
    journal.push(0, fact)?;
    journal.write()?;
    // A log in memory is synced as soon as it is asked.
    journal.sync().now_or_never().unwrap_or(Err(Error::Refused("a log in memory does not wait")))?;
    Ok(journal)
}
