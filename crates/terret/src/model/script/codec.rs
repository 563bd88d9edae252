//! Bodies of `script@1`: the header and the messages in the log's own form, messages last.

use bytes::Bytes;
use serde::Deserialize;
use terret_core::chunk::{Failure, code};
use terret_core::fact::Header;
use terret_core::message::Message;

use crate::model::grown::Grown;
use crate::model::{Blobs, Body, Codec};

/// The codec.
pub struct ScriptCodec;

/// Its name and version.
pub const NAME: &str = "script@1";

impl Codec for ScriptCodec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn begin(&self, header: &Header) -> Result<Box<dyn Body>, Failure> {
        let mut json = b"{\"header\":".to_vec();
        serde_json::to_writer(&mut json, header)
            .map_err(|error| Failure::new(code::INVALID_REQUEST, error.to_string()))?;
        json.extend_from_slice(b",\"messages\":[");
        Ok(Box::new(ScriptBody { grown: Grown::new(&json), empty: true }))
    }
}

struct ScriptBody {
    grown: Grown,
    empty: bool,
}

impl Body for ScriptBody {
    fn push(&mut self, message: &Message, _: Blobs<'_>) -> Result<(), Failure> {
        let mut json = if std::mem::replace(&mut self.empty, false) { Vec::new() } else { vec![b','] };
        // A message writes itself into memory without fail: its maps have string keys.
        let _ = serde_json::to_writer(&mut json, message);
        self.grown.push(&json);
        Ok(())
    }

    fn bytes(&mut self) -> Bytes {
        self.grown.lend("]}")
    }

    fn stable(&self) -> &[u8] {
        self.grown.written()
    }
}

/// How many answers of the model a body holds: all of them, or those after the last prompt.
pub(super) fn answers(body: &[u8], since_prompt: bool) -> Result<usize, serde_json::Error> {
    let body: Seen<'_> = serde_json::from_slice(body)?;
    let count = body.messages.iter().fold(0, |count, message| match (message.role, message.source.kind) {
        ("assistant", _) => count + 1,
        (_, "user") if since_prompt => 0,
        _ => count,
    });
    Ok(count)
}

#[derive(Deserialize)]
struct Seen<'a> {
    #[serde(borrow)]
    messages: Vec<SeenMessage<'a>>,
}

#[derive(Deserialize)]
struct SeenMessage<'a> {
    role: &'a str,
    #[serde(borrow)]
    source: SeenSource<'a>,
}

#[derive(Deserialize)]
struct SeenSource<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
}
