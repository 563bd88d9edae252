//! The next request, as the log rebuilds it: the last header and the conversation.

use std::sync::Arc;

use super::Messages;
use crate::digest::RequestDigest;
use crate::fact::{Fact, Header, RequestContext};
use crate::id::Digest;
use crate::line::Event;

/// Folds events into the canonical request. The digest costs what is new since it was last asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    header: Option<Arc<Header>>,
    context: Option<Arc<RequestContext>>,
    messages: Messages,
    running: Option<Running>,
}

#[derive(Clone, Debug)]
struct Running {
    header: Arc<Header>,
    rewrites: u64,
    taken: usize,
    digest: RequestDigest,
}

impl Request {
    /// Takes one event in.
    pub fn fold(&mut self, event: &Event) {
        if let Fact::RequestHeader(header) = &event.fact {
            self.header = Some(Arc::new(header.header.clone()));
        }
        if let Fact::RequestContext(context) = &event.fact {
            self.context = Some(Arc::new(context.clone()));
        }
        self.messages.fold(event);
    }

    /// The last header.
    pub fn header(&self) -> Option<&Arc<Header>> {
        self.header.as_ref()
    }

    /// The last request context.
    pub fn context(&self) -> Option<&Arc<RequestContext>> {
        self.context.as_ref()
    }

    /// The conversation.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Digest of the canonical request under this header.
    pub fn digest(&mut self, header: &Arc<Header>) -> Digest {
        let list = self.messages.list();
        let rewrites = self.messages.rewrites();
        let fits = |r: &Running| {
            (Arc::ptr_eq(&r.header, header) || r.header == *header)
                && r.rewrites == rewrites
                && r.taken <= list.len()
        };
        let mut running = self.running.take().filter(fits).unwrap_or_else(|| Running {
            header: header.clone(),
            rewrites,
            taken: 0,
            digest: RequestDigest::new(header),
        });
        for projected in &list[running.taken..] {
            running.digest.push(projected.digest);
        }
        running.taken = list.len();
        let value = running.digest.value();
        self.running = Some(running);
        value
    }
}
