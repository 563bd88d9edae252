//! A request as it crosses from the loop to the outside: what hooks propose, what adapters send.

mod output;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use terret_core::chunk::{Chunk, Failure, code};
use terret_core::fact::{Header, RequestAttempt, RequestContext};
use terret_core::id::Digest;
use terret_core::raw::Raw;

use crate::store::Durable;

pub use output::{OUTPUT_SCHEMA, OutputSchema};

/// What the loop would like to send, before the adapter has its say.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// Provider of the route.
    pub provider: String,
    /// Model of the route.
    pub model: String,
    /// Parameters by name: `max_output_tokens`, `temperature`, `reasoning_effort`, `stop`, `cache_key`,
    /// `output_schema`.
    pub parameters: BTreeMap<String, Raw>,
}

/// What is handed to the transport: exactly the bytes the log names. There is none without the proof that the
/// attempt is durable, and nothing changes it on the way.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use terret::core::{chunk::Failure, fact::{Header, RequestAttempt}};
/// # use terret::{model::Outgoing, store::Durable};
/// fn ready(proof: Durable<RequestAttempt>, header: Arc<Header>) -> Result<Outgoing, Failure> {
///     Outgoing::new(proof, header, "{}".into(), Duration::from_secs(60))
/// }
/// ```
///
/// An attempt that is not known to be synced is no proof:
///
/// ```compile_fail
/// # use std::{sync::Arc, time::Duration};
/// # use terret::core::{chunk::Failure, fact::{Header, RequestAttempt}};
/// # use terret::model::Outgoing;
/// fn ready(attempt: RequestAttempt, header: Arc<Header>) -> Result<Outgoing, Failure> {
///     Outgoing::new(attempt, header, "{}".into(), Duration::from_secs(60))
/// }
/// ```
#[derive(Debug)]
pub struct Outgoing {
    proof: Durable<RequestAttempt>,
    header: Arc<Header>,
    context: Option<Arc<RequestContext>>,
    body: Bytes,
    idle_timeout: Duration,
}

impl Outgoing {
    /// Hashes the body and compares it with the attempt: what the log does not name is refused
    /// (`RECONSTRUCTION`). A route without a codec has no body. `idle_timeout` is the longest silence allowed
    /// on the stream.
    pub fn new(
        proof: Durable<RequestAttempt>,
        header: Arc<Header>,
        body: Bytes,
        idle_timeout: Duration,
    ) -> Result<Self, Failure> {
        let attempt = proof.fact();
        let same = match (&attempt.wire, attempt.wire_digest) {
            (Some(wire), Some(digest)) => *wire == header.wire && Digest::of(&body) == digest,
            (None, None) => header.wire.is_empty() && body.is_empty(),
            (Some(_), None) | (None, Some(_)) => false,
        };
        match same {
            true => Ok(Outgoing { proof, header, context: None, body, idle_timeout }),
            false => Err(not_the_logged()),
        }
    }

    /// The same, with what the log says of its route.
    pub(crate) fn within(self, context: Option<Arc<RequestContext>>) -> Self {
        Outgoing { context, ..self }
    }

    /// What the log says of the route: its window and its prices, where they are known.
    pub fn context(&self) -> Option<&Arc<RequestContext>> {
        self.context.as_ref()
    }

    /// The attempt this is, as the log has it.
    pub fn attempt(&self) -> &RequestAttempt {
        self.proof.fact()
    }

    /// Session and place in its log that prove the attempt.
    pub fn proof(&self) -> &Durable<RequestAttempt> {
        &self.proof
    }

    /// The header of the request, for what is not in the body (routing).
    pub fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Longest silence allowed on the stream.
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }
}

/// The failure of whatever would be sent and is not what the log says.
pub(crate) fn not_the_logged() -> Failure {
    let text = "what was about to be sent is not what the log says: nothing was sent";
    Failure::new(code::RECONSTRUCTION, text)
}

/// Chunks as one network read brought them. A failure is the last item; a stream that ends after a
/// `finish` chunk is whole, one that ends without is the adapter's `STREAM_CLOSED` to report.
pub type ChunkStream = BoxStream<'static, Result<Vec<Chunk>, Failure>>;
