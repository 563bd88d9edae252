//! The body of the next request, grown from the last one: a message is serialised once.

use std::sync::Arc;

use bytes::Bytes;
use terret_core::chunk::{Failure, code as class};
use terret_core::fact::Header;
use terret_core::id::Digest;
use terret_core::project::{Messages, system_hash};

use super::{Blobs, Body, codec};

/// The body so far.
#[derive(Default)]
pub struct BodyCache {
    open: Option<Open>,
}

struct Open {
    header: Arc<Header>,
    /// Hash of its system text.
    system: Option<Digest>,
    rewrites: u64,
    taken: usize,
    body: Box<dyn Body>,
    /// Bytes of the body that are hashed already.
    hashed: usize,
    hasher: blake3::Hasher,
}

/// A body and its digest.
pub struct Built {
    /// The body.
    pub bytes: Bytes,
    /// blake3 of it.
    pub digest: Digest,
}

impl BodyCache {
    /// The body of these messages under this header; `None` for a route no codec serves.
    pub fn build(
        &mut self,
        header: &Arc<Header>,
        messages: &Messages,
        blobs: Blobs<'_>,
    ) -> Result<Option<Built>, Failure> {
        if header.wire.is_empty() {
            return Ok(None);
        }
        let list = messages.list();
        let fits = |open: &Open| {
            open.header == *header && open.rewrites == messages.rewrites() && open.taken <= list.len()
        };
        let mut open = match self.open.take().filter(fits) {
            Some(open) => open,
            None => {
                let codec = codec(&header.wire)
                    .ok_or_else(|| Failure::new(class::NO_ADAPTER, format!("no codec `{}`", header.wire)))?;
                let (header, rewrites) = (header.clone(), messages.rewrites());
                let body = codec.begin(&header)?;
                let system = header.system.as_deref().map(system_hash);
                Open { header, system, rewrites, taken: 0, body, hashed: 0, hasher: blake3::Hasher::new() }
            }
        };
        // Each part is hashed as soon as it is there: whatever happens to it later shows when the whole is hashed.
        open.hash();
        for projected in &list[open.taken..] {
            let moved = projected.moved || projected.system != open.system;
            match moved {
                true => open.body.push_moved(&projected.message, blobs)?,
                false => open.body.push(&projected.message, blobs)?,
            }
            open.hash();
        }
        open.taken = list.len();
        let bytes = open.body.bytes();
        let digest = open.digest(&bytes);
        self.open = Some(open);
        Ok(Some(Built { bytes, digest }))
    }
}

impl Open {
    /// Hashes what became stable.
    fn hash(&mut self) {
        let stable = self.body.stable();
        self.hasher.update(&stable[self.hashed.min(stable.len())..]);
        self.hashed = self.hashed.max(stable.len());
    }

    /// blake3 of the body; hashes only its end.
    fn digest(&self, bytes: &[u8]) -> Digest {
        let mut whole = self.hasher.clone();
        whole.update(&bytes[self.hashed.min(bytes.len())..]);
        Digest(*whole.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use terret_core::fact::{Fact, StepStart, UserMessage};
    use terret_core::line::Event;
    use terret_core::message::Message;

    use super::*;
    use crate::model::no_blobs;

    fn header(wire: &str) -> Header {
        let dialect = crate::model::openai_chat::dialect::Dialect::default();
        Header {
            provider: "p".into(),
            model: "m".into(),
            wire: wire.into(),
            dialect: terret_core::raw::Raw::from_value(&dialect).unwrap(),
            parameters: Default::default(),
            defaults: Vec::new(),
            system: Some("s".into()),
            tools: Vec::new(),
        }
    }

    /// A body whose parts changed after they were serialised.
    struct Corrupt(Bytes);

    impl Body for Corrupt {
        fn push(&mut self, _: &Message, _: Blobs<'_>) -> Result<(), Failure> {
            Ok(())
        }
        fn bytes(&mut self) -> Bytes {
            self.0.clone()
        }
        fn stable(&self) -> &[u8] {
            &self.0[..self.0.len() - 2]
        }
    }

    #[test]
    fn a_part_that_changed_in_the_cache_no_longer_has_its_digest() {
        let header = Arc::new(header("script@1"));
        let (mut cache, messages) = (BodyCache::default(), Messages::default());
        let good = cache.build(&header, &messages, &no_blobs).unwrap().unwrap();
        assert_eq!(good.digest, Digest::of(&good.bytes));
        let mut bytes = good.bytes.to_vec();
        bytes[3] ^= 1;
        cache.open.as_mut().unwrap().body = Box::new(Corrupt(bytes.into()));
        let bad = cache.build(&header, &messages, &no_blobs).unwrap().unwrap();
        // The log gets the digest of what was serialised; what is sent is hashed whole, and refused.
        assert_eq!(bad.digest, good.digest);
        let send = |built: Built| {
            let proof = crate::testing::attempted(&header, built.digest, built.bytes.len()).unwrap();
            crate::request::Outgoing::new(proof, header.clone(), built.bytes, Duration::from_secs(1))
        };
        assert!(send(good).is_ok());
        assert_eq!(send(bad).unwrap_err().code, class::RECONSTRUCTION);
    }

    #[test]
    fn the_grown_digest_is_that_of_the_whole_body() {
        for wire in ["openai-chat@1", "script@1"] {
            let header = Arc::new(header(wire));
            let (mut cache, mut messages) = (BodyCache::default(), Messages::default());
            for step in 1..6 {
                let enter = Fact::StepStart(StepStart { turn: 1, step, admits: 1 });
                let message = Message::user(format!("m-{step}").as_str(), "x".repeat(500));
                let user = Fact::UserMessage(UserMessage { turn: 1, step, message });
                for fact in [enter, user] {
                    messages.fold(&Event { seq: u64::from(step), time: 0, fact });
                }
                let built = cache.build(&header, &messages, &no_blobs).unwrap().unwrap();
                assert_eq!(built.digest, Digest::of(&built.bytes), "{wire}, step {step}");
            }
        }
    }
}
