//! What opening a log comes to: by its index it must be what the whole log comes to.

use terret::core::fact::{Fact, Header};
use terret::core::id::{Digest, Seq};
use terret::core::line::Event;
use terret::core::project::Request;
use terret::core::state::State;

/// What opening a log comes to.
#[derive(Default)]
pub(crate) struct Opening {
    state: State,
    request: Request,
    pub(crate) events: usize,
}

impl Opening {
    pub(crate) fn fold(&mut self, event: &Event) {
        self.state.apply(&event.fact);
        self.request.fold(event);
        // The pieces of answers that are whole are left out with or without an index.
        self.events += usize::from(!matches!(event.fact, Fact::AssistantChunk(_)));
    }

    pub(crate) fn comes_to(&self) -> (&State, Option<&Header>, Vec<(Seq, Digest)>) {
        let messages = self.request.messages().list().iter().map(|p| (p.seq, p.digest)).collect();
        (&self.state, self.request.header().map(|header| &**header), messages)
    }
}
