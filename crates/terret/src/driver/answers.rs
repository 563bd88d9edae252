//! Answers that need the log before the machine can take them: a request that is ready, a stream that ended.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use terret_core::chunk::{Chunk, Failure, code};
use terret_core::fact::{CallMode, RequestAttempt, ToolSpec};
use terret_core::id::{Digest, MsgId};
use terret_core::input::{Answer, Ready};
use terret_core::message::Message;

use super::{Driver, Sending};
use crate::limits::MAX_ANSWER_BYTES;
use crate::model::kept;
use crate::world::{Accepted, Assembly, World};

impl Driver {
    /// Pieces of a stream, as long as the answer they make still fits a log line.
    pub(super) fn bounded(&self, chunks: Vec<Chunk>) -> Answer {
        let stream = self.ledger.folds.open.stream();
        if stream.bytes() + chunks.iter().map(Chunk::size).sum::<usize>() <= MAX_ANSWER_BYTES {
            return Answer::Chunks(chunks);
        }
        let text = format!("the answer is longer than {MAX_ANSWER_BYTES} bytes: it was cut off");
        let failure = Failure::new(code::MALFORMED_RESPONSE, text);
        Answer::Failed { failure, usage: self.ledger.folds.open.usage().cloned() }
    }

    /// Contexts under ids of their own. Plugins choose ids, and one that was used before would stand for two
    /// messages: it gets a number.
    pub(super) fn with_own_ids(&self, mut contexts: Vec<Message>) -> Vec<Message> {
        let accepted = &self.ledger.folds.accepted;
        let mut taken: HashSet<MsgId> = HashSet::new();
        for context in &mut contexts {
            let free = |id: &MsgId| !accepted.contains_key(id) && !taken.contains(id);
            if !free(&context.id) {
                let numbered = |n: u64| MsgId::from(format!("{}-{n}", context.id).as_str());
                context.id = (2..).map(numbered).find(free).unwrap_or_else(|| numbered(0));
            }
            taken.insert(context.id.clone());
        }
        contexts
    }

    /// A request is ready: derive its messages and digests now, after every hook, and keep what will be sent.
    pub(super) fn accepted(&mut self, accepted: Accepted) -> Answer {
        let Accepted { mut header, context, adapter } = accepted;
        if let Some(last) = self.ledger.folds.request.header() {
            in_order_of(&last.tools, &mut header.tools);
        }
        let header = Arc::new(header);
        // One that was lost with its process was assembled anew: the step keeps it for its retries.
        self.assembly
            .get_or_insert_with(|| Assembly { system: header.system.clone(), tools: header.tools.clone() });
        let log = self.ledger.journal.log();
        let blobs = |blob: &Digest| kept(blob, log.blob(blob));
        let body = match self.body.build(&header, self.ledger.folds.request.messages(), &blobs) {
            Ok(body) => body,
            Err(failure) => return Answer::Broken(failure),
        };
        let digest = self.ledger.folds.request.digest(&header);
        let ready = Ready {
            context,
            attempt: RequestAttempt {
                // The machine knows which attempt it asked for.
                turn: 0,
                step: 0,
                attempt: 0,
                digest,
                wire: body.as_ref().map(|_| header.wire.clone()),
                wire_digest: body.as_ref().map(|b| b.digest),
                bytes: body.as_ref().map(|b| b.bytes.len() as u64),
            },
            header: (*header).clone(),
        };
        self.sending = Some(Sending { header, digest, body: body.map(|b| b.bytes), adapter });
        Answer::Prepared(Box::new(ready))
    }

    pub(super) fn stream_end(&self, end: Result<(), Failure>) -> Answer {
        let usage = self.ledger.folds.open.usage().cloned();
        match end {
            Err(failure) => Answer::Failed { failure, usage },
            Ok(()) => {
                match self.ledger.folds.open.finished(|name, arguments| mode(&self.world, name, arguments)) {
                    Some(finished) => Answer::Finished(Box::new(finished)),
                    None => {
                        let text = "the stream ended without a finish";
                        let failure = Failure::new(code::STREAM_CLOSED, text);
                        Answer::Failed { failure, usage }
                    }
                }
            }
        }
    }
}

/// Tools in the order they were sent in before, new ones behind them: they stand in front of every prompt a provider
/// keeps, in whatever order programs and plugins bring them.
fn in_order_of(last: &[ToolSpec], tools: &mut [ToolSpec]) {
    let place = |tool: &ToolSpec| last.iter().position(|known| known.name == tool.name).unwrap_or(last.len());
    tools.sort_by_key(place);
}

/// A classifier that breaks down says nothing about the call: it runs alone.
fn mode(world: &World, name: &str, arguments: &str) -> CallMode {
    catch_unwind(AssertUnwindSafe(|| world.mode(name, arguments))).unwrap_or(CallMode::Exclusive)
}
