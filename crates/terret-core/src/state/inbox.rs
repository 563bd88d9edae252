//! What waits to be read: two lanes, arrival order, held messages passed over.

use crate::fact::Lane;
use crate::id::MsgId;

/// A message that was accepted and not yet claimed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// Its id.
    pub id: MsgId,
    /// Where it waits.
    pub lane: Lane,
    /// Whether it may start a turn.
    pub wake: bool,
    /// Whether claims pass over it.
    pub held: bool,
    /// Whether it was claimed and given back before.
    pub returned: bool,
}

/// The pending messages, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inbox(Vec<Pending>);

impl Inbox {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.0.iter()
    }

    /// Whether this message is pending.
    pub fn contains(&self, id: &MsgId) -> bool {
        self.0.iter().any(|p| p.id == *id)
    }

    /// Whether something may start a turn.
    pub fn wakes(&self) -> bool {
        self.0.iter().any(|p| p.wake && !p.held)
    }

    /// Whether a step could take something of the `next-step` lane.
    pub fn has_next_step(&self) -> bool {
        self.0.iter().any(|p| p.lane == Lane::NextStep && !p.held)
    }

    /// What a claim takes: all of next-step, then, for the first step of a turn, one of next-turn.
    pub fn claimable(&self, first_step: bool) -> Vec<MsgId> {
        let of = |lane| self.0.iter().filter(move |p| p.lane == lane && !p.held).map(|p| p.id.clone());
        let one = if first_step { 1 } else { 0 };
        of(Lane::NextStep).chain(of(Lane::NextTurn).take(one)).collect()
    }

    /// Adds at the end, or in the place of `replaces`.
    pub(super) fn add(&mut self, pending: Pending, replaces: Option<&MsgId>) {
        let place = replaces.and_then(|old| self.0.iter().position(|p| p.id == *old));
        match place {
            Some(at) => self.0[at] = pending,
            None => self.0.push(pending),
        }
    }

    /// Takes these out, in the order given; unknown ids are passed over.
    pub(super) fn take(&mut self, ids: &[MsgId]) -> Vec<Pending> {
        let mut taken = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(at) = self.0.iter().position(|p| p.id == *id) {
                taken.push(self.0.remove(at));
            }
        }
        taken
    }

    /// Puts these back before everything else, keeping their order: they came first, whatever lane an edit may
    /// yet move another one to.
    pub(super) fn put_back(&mut self, pending: Vec<Pending>, held: bool) {
        let back = pending.into_iter().map(|p| Pending { held, returned: true, ..p });
        self.0.splice(0..0, back);
    }

    /// Lets held messages go.
    pub(super) fn release(&mut self, ids: &[MsgId]) {
        for p in self.0.iter_mut().filter(|p| ids.contains(&p.id)) {
            p.held = false;
        }
    }
}
