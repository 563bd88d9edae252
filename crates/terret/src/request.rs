//! A request as it crosses from the loop to the outside: what hooks propose, what adapters send.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use terret_core::chunk::{Chunk, Failure};
use terret_core::fact::Header;
use terret_core::raw::Raw;

/// What the loop would like to send, before the adapter has its say.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// Provider of the route.
    pub provider: String,
    /// Model of the route.
    pub model: String,
    /// Parameters by name: `max_output_tokens`, `temperature`, `reasoning_effort`, `stop`, `cache_key`.
    pub parameters: BTreeMap<String, Raw>,
}

/// What is handed to the transport: exactly these bytes.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The header of the request, for what is not in the body (routing).
    pub header: std::sync::Arc<Header>,
    /// The body.
    pub body: Bytes,
    /// Longest silence allowed on the stream.
    pub idle_timeout: Duration,
}

/// Chunks as one network read brought them. A failure is the last item; a stream that ends after a
/// `finish` chunk is whole, one that ends without is the adapter's `STREAM_CLOSED` to report.
pub type ChunkStream = BoxStream<'static, Result<Vec<Chunk>, Failure>>;
