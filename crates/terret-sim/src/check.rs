//! What must hold of a log that survived, whatever happened: nothing that was told is lost, and every message is
//! accounted for.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use terret::core::fact::{EndReason, Fact, InboxAdded};
use terret::core::id::MsgId;
use terret::inspect::verify_scan;
use terret::store::Scan;

use crate::world::State;

/// Where a message is, as the log says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    pending: bool,
    claimed: Option<u32>,
    removed: bool,
    /// How often it is in the conversation.
    read: u32,
}

impl State {
    /// The process died and left this much of its log unharmed: all it told is in there.
    pub(crate) fn check_survivors(&mut self, good: usize) {
        // A line that lacks only its newline is whole.
        let kept = self.witness.ends.partition_point(|end| *end <= good + 1);
        self.witness.events.truncate(kept);
        self.witness.ends.truncate(kept);
        self.check_told();
    }

    /// Nothing that was told is missing.
    pub(crate) fn check_told(&mut self) {
        let (mut added, mut removed, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ended, mut requests, mut runs) = (BTreeMap::new(), Vec::new(), Vec::new());
        for event in &self.witness.events {
            match &event.fact {
                Fact::InboxAdded(add) => {
                    added.push(add.message.id.clone());
                    removed.extend(add.replaces.clone());
                }
                Fact::InboxRemoved(gone) => removed.extend(gone.msgs.iter().cloned()),
                Fact::TurnEnd(end) => drop(ended.insert(end.turn, end.reason.clone())),
                Fact::RequestAttempt(a) => requests.push((a.turn, a.step, a.attempt)),
                Fact::ToolCall(call) => runs.push((call.call, call.run)),
                _ => {}
            }
        }
        let told = &self.witness.told;
        let mut lost =
            |what: &str, which: &dyn std::fmt::Debug| missing.push(format!("{what}: {which:?} is lost"));
        told.acknowledged.iter().filter(|id| !added.contains(id)).for_each(|id| lost("acknowledged", id));
        told.removed.iter().filter(|id| !removed.contains(id)).for_each(|id| lost("told as removed", id));
        told.requests.iter().filter(|at| !requests.contains(at)).for_each(|at| lost("sent", at));
        told.runs.iter().filter(|run| !runs.contains(run)).for_each(|run| lost("started", run));
        told.ended
            .iter()
            .filter(|end| ended.get(end.0) != Some(end.1))
            .for_each(|end| lost("told as ended", &end));
        for what in missing {
            self.broken.push(what);
        }
    }

    /// Every message ever acknowledged is in one place: read once, waiting, removed, or kept back by a hook.
    pub(crate) fn check_accounts(&mut self) {
        let mut wrong = Vec::new();
        let places = self.places();
        for id in &self.witness.told.acknowledged {
            let Some(place) = places.get(id) else { continue };
            let dropped = self.witness.told.dropped.contains(id);
            let right = match *place {
                Place { read: 0, pending: true, removed: false, claimed: None } => true,
                Place { read: 0, pending: false, removed: true, claimed: None } => true,
                Place { read: 1, pending: false, removed: false, claimed: None } => true,
                Place { read: 0, pending: false, removed: false, claimed: None } => dropped,
                Place { .. } => false,
            };
            if !right {
                wrong.push(format!("message {id} is not where it belongs: {place:?}"));
            }
        }
        self.broken.extend(wrong);
    }

    fn places(&self) -> BTreeMap<MsgId, Place> {
        let mut places = BTreeMap::<MsgId, Place>::new();
        let (mut admits, mut entering) = (0, Vec::new());
        let mut set = |ids: &[MsgId], how: &dyn Fn(&mut Place)| {
            ids.iter().for_each(|id| how(places.entry(id.clone()).or_default()));
        };
        for event in &self.witness.events {
            match &event.fact {
                Fact::InboxAdded(InboxAdded { message, replaces, .. }) => {
                    set(std::slice::from_ref(&message.id), &|place| place.pending = true);
                    let old = replaces.iter().cloned().collect::<Vec<_>>();
                    set(&old, &|place| (place.pending, place.removed) = (false, true));
                }
                Fact::InboxRemoved(gone) => {
                    set(&gone.msgs, &|place| (place.pending, place.removed) = (false, true));
                }
                Fact::InboxClaimed(claim) => {
                    set(&claim.msgs, &|place| (place.pending, place.claimed) = (false, Some(claim.turn)));
                }
                Fact::InboxReturned(back) => {
                    set(&back.msgs, &|place| (place.pending, place.claimed) = (true, None));
                }
                Fact::StepStart(start) => (admits, entering) = (start.admits as usize, Vec::new()),
                Fact::UserMessage(user) => {
                    entering.push(user.message.id.clone());
                    if entering.len() == admits {
                        set(&entering, &|place| (place.read, place.claimed) = (place.read + 1, None));
                    }
                }
                Fact::TurnEnd(_) => {}
                _ => {}
            }
        }
        // What was claimed and neither read nor given back was consumed.
        let open = self.witness.has_open_turn();
        places.values_mut().filter(|_| !open).for_each(|place| place.claimed = None);
        places
    }

    /// How this turn ended, and whether that is synced.
    pub(crate) fn ending(&self, turn: u32) -> Option<(EndReason, bool)> {
        let at = self.witness.last(|fact| matches!(fact, Fact::TurnEnd(end) if end.turn == turn))?;
        match &self.witness.events[at].fact {
            Fact::TurnEnd(end) => Some((end.reason.clone(), self.is_synced(at))),
            _ => None,
        }
    }

    /// The turn that claimed this message last and did not give it back.
    pub(crate) fn claimed_by(&self, id: &MsgId) -> Option<u32> {
        let mut by = None;
        for event in &self.witness.events {
            match &event.fact {
                Fact::InboxClaimed(claim) if claim.msgs.contains(id) => by = Some(claim.turn),
                Fact::InboxReturned(back) if back.msgs.contains(id) => by = None,
                _ => {}
            }
        }
        by
    }

    /// Whether it waits in the queue.
    pub(crate) fn waits(&self, id: &MsgId) -> bool {
        self.places().get(id).is_some_and(|place| place.pending)
    }

    /// The whole log is proven, line by line and request by request.
    pub(crate) fn check_proofs(&mut self) {
        let scan = Scan::new(Cursor::new(self.disk.log(<[u8]>::to_vec)), Path::new("sim:log"));
        match scan.and_then(|mut scan| verify_scan(&mut scan)) {
            Ok(report) if report.holds() => {}
            Ok(report) => self.broken.push(format!("verify: {:?} {:?}", report.bad, report.mismatches)),
            Err(e) => self.broken.push(format!("verify: {e}")),
        }
    }
}
