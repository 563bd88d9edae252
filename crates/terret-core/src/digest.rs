//! Digests of requests: what proves that a request sent is the one the log rebuilds.

use serde::Serialize;

use crate::fact::{Header, RequestContext};
use crate::id::Digest;
use crate::message::Message;

const REQUEST_DOMAIN: &[u8] = b"terret canonical request, version 1";

/// The canonical request so far: a domain tag, the header, each message. Clone it to branch; a message is
/// hashed once.
#[derive(Clone, Debug)]
pub struct RequestDigest(blake3::Hasher);

impl RequestDigest {
    /// A request with this header and no messages yet.
    pub fn new(header: &Header) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(REQUEST_DOMAIN);
        hasher.update(&header_digest(header).0);
        RequestDigest(hasher)
    }

    /// Adds a message by its digest.
    pub fn push(&mut self, message: Digest) {
        self.0.update(&message.0);
    }

    /// The digest of the request as it stands.
    pub fn value(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// Digest of a header's stored form.
pub fn header_digest(header: &Header) -> Digest {
    of_json(header)
}

/// Digest of a message's stored form.
pub fn message_digest(message: &Message) -> Digest {
    of_json(message)
}

/// Digest of a request context's stored form.
pub fn context_digest(context: &RequestContext) -> Digest {
    of_json(context)
}

fn of_json<T: Serialize>(value: &T) -> Digest {
    // These types hold only strings, numbers, lists and raw JSON: their serialisation cannot fail.
    Digest::of(&serde_json::to_vec(value).unwrap_or_default())
}
