//! What the tests of adapters share: a request, and what came of it.

use std::time::Duration;

use futures_util::StreamExt;
use terret::core::chunk::{Chunk, Failure};
use terret::core::fact::Header;
use terret::core::message::Message;
use terret::model::{Adapter, Outgoing, Proposal, codec, no_blobs};

pub(crate) fn outgoing(adapter: &dyn Adapter, idle_ms: u64) -> Outgoing {
    let proposal = Proposal { provider: "mine".to_owned(), model: "m".to_owned(), ..Proposal::default() };
    let prepared = adapter.prepare(&proposal).unwrap();
    let header = Header {
        provider: proposal.provider,
        model: proposal.model,
        wire: prepared.wire,
        dialect: prepared.dialect,
        parameters: prepared.parameters,
        defaults: prepared.defaults,
        system: None,
        tools: Vec::new(),
    };
    let mut body = codec(&header.wire).unwrap().begin(&header).unwrap();
    body.push(&Message::user("u", "hi"), &no_blobs).unwrap();
    let body = body.bytes();
    terret::testing::outgoing(header, body, Duration::from_millis(idle_ms)).unwrap()
}

pub(crate) type Items = Vec<Result<Vec<Chunk>, Failure>>;

pub(crate) async fn ask(adapter: &dyn Adapter, idle_ms: u64) -> Items {
    adapter.stream(outgoing(adapter, idle_ms)).collect().await
}

/// The text of all chunks and the failure the stream ended with.
pub(crate) fn summary(items: Items) -> (String, Option<Failure>) {
    let mut text = String::new();
    let mut failure = None;
    for item in items {
        assert!(failure.is_none(), "something came after the failure");
        match item {
            Ok(chunks) => chunks.into_iter().for_each(|chunk| {
                if let Chunk::TextDelta { text: more, .. } = chunk {
                    text.push_str(&more);
                }
            }),
            Err(end) => failure = Some(end),
        }
    }
    (text, failure)
}
