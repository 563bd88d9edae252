//! The body of the next request, grown from the last one: a message is serialised once.

use std::sync::Arc;

use bytes::Bytes;
use terret_core::chunk::{Failure, code as class};
use terret_core::fact::Header;
use terret_core::id::Digest;
use terret_core::project::Messages;

use super::{Body, codec};

/// The body so far.
#[derive(Default)]
pub struct BodyCache {
    open: Option<Open>,
}

struct Open {
    header: Arc<Header>,
    rewrites: u64,
    taken: usize,
    body: Box<dyn Body>,
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
    pub fn build(&mut self, header: &Arc<Header>, messages: &Messages) -> Result<Option<Built>, Failure> {
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
                Open { header, rewrites, taken: 0, body }
            }
        };
        for projected in &list[open.taken..] {
            open.body.push(&projected.message);
        }
        open.taken = list.len();
        let bytes = open.body.bytes();
        self.open = Some(open);
        let digest = Digest::of(&bytes);
        Ok(Some(Built { bytes, digest }))
    }
}
