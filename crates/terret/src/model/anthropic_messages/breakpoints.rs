//! Where the messages of a body are marked for the cache.
//!
//! The rule: the end of the last user's message is marked. A server looks back from a mark some blocks only; where more
//! than that came since the end of the user's message before, which the request before had marked, that is marked, too.
//! Both are the same whoever builds the body, and whenever.

use terret_core::message::Role;

use crate::limits::CACHE_LOOKBACK_BLOCKS;

/// The ends of the last two user's messages.
#[derive(Default)]
pub(super) struct Breakpoints {
    before: Option<Place>,
    last: Option<Place>,
    /// Blocks so far.
    blocks: usize,
}

#[derive(Clone, Copy)]
struct Place {
    /// Bytes before it.
    at: usize,
    /// Blocks before it.
    blocks: usize,
}

impl Breakpoints {
    /// A user's message begins.
    pub(super) fn begin(&mut self) {
        self.before = self.last.take();
    }

    /// A block of a message was added, and ends here.
    pub(super) fn add(&mut self, role: Role, at: usize) {
        self.blocks += 1;
        if role == Role::User {
            self.last = Some(Place { at, blocks: self.blocks });
        }
    }

    /// The places to mark, first to last.
    pub(super) fn marks(&self) -> Vec<usize> {
        let far = |before: &Place, last: Place| last.blocks - before.blocks > CACHE_LOOKBACK_BLOCKS;
        let before = self.before.filter(|before| self.last.is_some_and(|last| far(before, last)));
        before.into_iter().chain(self.last).map(|place| place.at).collect()
    }

    /// The first place that a mark may stand at, now or later.
    pub(super) fn first(&self) -> Option<usize> {
        self.before.or(self.last).map(|place| place.at)
    }
}
