//! The wires: what differs between protocols, as one table.

use std::borrow::Cow;

use terret_core::chunk::{Chunk, Failure};
use terret_core::raw::Raw;

use super::sse::{Event, Flow};
use super::{anthropic_messages, openai_chat};

/// A protocol.
pub struct Wire {
    /// Its name in configuration and in opaque data, for example `openai-chat`.
    pub protocol: &'static str,
    /// The codec new requests are written by.
    pub codec: &'static str,
    /// Where requests go, below the base URL.
    pub path: &'static str,
    /// The header that carries the key.
    pub auth: Auth,
    /// Headers every request has at a server of this row.
    pub headers: fn(row: &Raw) -> Vec<(&'static str, String)>,
    /// The effective row of the dialect table: by the row's name and the model's, as it goes into the header. `None`
    /// for a name without a row.
    pub row: fn(name: &str, model: &str) -> Option<Raw>,
    /// Names of the rows there are.
    pub rows: &'static [&'static str],
    /// Reads the columns of a row and writes them in their order; fails if a column does not take its value.
    pub typed: fn(columns: &str) -> Result<Raw, serde_json::Error>,
    /// Keys the codec writes itself; parameters of these names are refused.
    pub reserved: &'static [&'static str],
    /// The output limit of a request that has none; `None` where the server has one itself.
    pub output_tokens: Option<u64>,
    /// A reader of one response. The secret is masked in failures.
    pub decoder: fn(secret: Option<String>) -> Box<dyn Decoder>,
}

/// How a key goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// As `authorization: Bearer KEY`.
    Bearer,
    /// As the value of this header.
    Header(Cow<'static, str>),
}

/// All of them.
pub static WIRES: [&Wire; 2] = [&anthropic_messages::WIRE, &openai_chat::WIRE];

/// The wire of this name.
pub fn wire(protocol: &str) -> Option<&'static Wire> {
    WIRES.into_iter().find(|wire| wire.protocol == protocol)
}

/// Folds the events of one response into chunks. Every non-empty delta on the wire is one delta chunk.
pub trait Decoder: Send {
    /// Takes one event in.
    fn event(&mut self, event: Event<'_>, out: &mut Vec<Chunk>) -> Flow<End>;

    /// The stream ended cleanly, with its end marker or without. Says how the response came out: the finish chunk
    /// is the last, or there is none and a failure.
    fn end(&mut self, done: bool, out: &mut Vec<Chunk>) -> Result<(), Failure>;

    /// Gives out what waits for the end of the stream, when it breaks: what is held back, and the usage.
    fn flush(&mut self, out: &mut Vec<Chunk>);
}

/// Why no more events are wanted.
#[derive(Debug)]
pub enum End {
    /// The end marker came.
    Done,
    /// The stream failed.
    Failed(Failure),
}

/// Something odd that does not stop a stream.
pub(super) fn warning(code: &str, detail: &str) -> Chunk {
    Chunk::Warning { code: code.to_owned(), detail: detail.to_owned() }
}
