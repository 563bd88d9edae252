//! Models: the adapter interface, the codecs that make request bodies, and the adapters.
//!
//! An adapter classifies what was on the wire and never retries. A codec is a pure function of the header
//! and the messages, so that a body can be rebuilt from the log alone.

mod adapter;
pub mod anthropic_messages;
mod attachment;
mod body;
pub mod catalogue;
#[cfg_attr(not(feature = "http"), path = "no_client.rs")]
mod client;
pub mod compact;
pub mod failure;
mod grown;
pub mod http;
mod ids;
mod json;
pub mod openai_chat;
pub mod openai_responses;
pub mod payload;
pub mod provider;
mod providers;
pub mod response;
pub mod retry_hint;
pub mod row;
pub mod script;
pub mod sse;
mod stream;
mod surrogate;
pub mod transport;
pub mod wire;

use std::collections::BTreeMap;

use bytes::Bytes;
use terret_core::chunk::{Failure, code};
use terret_core::fact::Header;
use terret_core::id::Digest;
use terret_core::message::Message;
use terret_core::raw::Raw;

use crate::error::Error;

pub use body::{BodyCache, Built};
pub use catalogue::ModelSettings;
pub use provider::{BUILT_IN, ProviderSettings};
pub use providers::{Models, Providers};
pub use transport::HttpClient;

pub use crate::request::{ChunkStream, OUTPUT_SCHEMA, Outgoing, OutputSchema, Proposal};

/// A proposal an adapter accepted: everything of a header but system text and tools.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Codec name and version, for example `openai-chat@1`.
    pub wire: String,
    /// The effective dialect row.
    pub dialect: Raw,
    /// Parameters, defaults filled in.
    pub parameters: BTreeMap<String, Raw>,
    /// Names of the parameters the adapter derived.
    pub defaults: Vec<String>,
    /// Window of the model in tokens, where known.
    pub context_window: Option<u64>,
}

/// Speaks one wire to one provider.
pub trait Adapter: Send + Sync {
    /// Validates the proposal and fills in what the provider needs. Reads no clock and no network.
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure>;

    /// Sends the body and reports what comes. Dropping the stream closes the connection's request.
    fn stream(&self, request: Outgoing) -> ChunkStream;
}

/// Makes bodies of one wire. The name carries the version: a codec never changes, it gets a successor.
pub trait Codec: Send + Sync {
    /// For example `openai-chat@1`.
    fn name(&self) -> &'static str;

    /// Starts a body for this header. Fails if the header is not one this codec reads.
    fn begin(&self, header: &Header) -> Result<Box<dyn Body>, Failure>;
}

/// A body that grows by messages. `messages` is its last key: an earlier body is a prefix of a later one
/// up to the end of its messages, as long as the header is the same.
pub trait Body: Send {
    /// Adds a message; costs what it adds. A body that failed to take one in is no body any more.
    fn push(&mut self, message: &Message, blobs: Blobs<'_>) -> Result<(), Failure>;

    /// The same for a message before which other things stand now than when it was said: replaced history, another
    /// system text. Thoughts that are bound to what stood before them are of no use to their model any more.
    fn push_moved(&mut self, message: &Message, blobs: Blobs<'_>) -> Result<(), Failure> {
        self.push(message, blobs)
    }

    /// The whole body as of now.
    fn bytes(&mut self) -> Bytes;

    /// The front that every later body repeats: it is hashed once, as soon as it is there. Too little costs time,
    /// never truth.
    fn stable(&self) -> &[u8] {
        &[]
    }
}

/// The bytes an attachment of a message stands for. Absent ones are a failure: what is sent must be rebuilt from
/// what is kept.
pub type Blobs<'a> = &'a dyn Fn(&Digest) -> Result<Vec<u8>, Failure>;

/// No attachments: for messages that have none.
pub fn no_blobs(blob: &Digest) -> Result<Vec<u8>, Failure> {
    Err(absent(blob))
}

/// What a store found of an attachment, as bodies want it: bytes, or why there are none.
pub(crate) fn kept(blob: &Digest, found: Result<Option<Vec<u8>>, Error>) -> Result<Vec<u8>, Failure> {
    match found {
        Ok(bytes) => bytes.ok_or_else(|| absent(blob)),
        Err(error) => Err(Failure::new(code::INVALID_REQUEST, error.to_string())),
    }
}

/// The dialect row of a header, read by the codec of this name. Fails if it is not a row of that codec's.
fn row_of<T: serde::de::DeserializeOwned>(header: &Header, codec: &str) -> Result<T, Failure> {
    serde_json::from_str(header.dialect.get()).map_err(|error| {
        let message = format!("the header's dialect is not one of {codec}: {error}");
        Failure::new(code::INVALID_REQUEST, message)
    })
}

/// The failure of a request with an attachment that is not beside its log.
fn absent(blob: &Digest) -> Failure {
    let message =
        format!("the attachment {blob} is not beside the log: put it back, or fork before it was named");
    Failure::new(code::INVALID_REQUEST, message)
}

/// The codec of this name. A stored session can be verified as long as the codec it names is here.
pub fn codec(name: &str) -> Option<&'static dyn Codec> {
    CODECS.iter().copied().find(|codec| codec.name() == name)
}

static CODECS: [&'static dyn Codec; 5] = [
    &anthropic_messages::codec::AnthropicMessages,
    &openai_chat::codec::FIRST,
    &openai_chat::codec::NEWEST,
    &openai_responses::codec::OpenAiResponses,
    &script::codec::ScriptCodec,
];
