//! What can be said of the log at this moment, read from its bytes as they are written, and what the world was
//! told and saw so far. The driver's state is never looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use terret::core::fact::{Cause, EffectClass, EndReason, Fact, Header, Outcome};
use terret::core::id::{CallId, MsgId};
use terret::core::line::{Event, Tip};
use terret::core::project::{Messages, Request};
use terret::model::{BodyCache, no_blobs};

use crate::limits::GRACE_SLACK_MS;
use crate::monitor::Monitor;
use crate::surface::is_paired;
use crate::world::State;

/// The log, and what was told.
#[derive(Default)]
pub(crate) struct Witness {
    pub(crate) events: Vec<Event>,
    /// Where each line ends, its newline included.
    pub(crate) ends: Vec<usize>,
    pub(crate) tip: Tip,
    /// Bytes of the log that were looked at: whole lines.
    pub(crate) until: usize,
    pub(crate) monitor: Monitor,
    request: Request,
    bodies: BodyCache,
    /// Events that went into `request`.
    folded: usize,
    /// The open turn, and when it was cancelled.
    open: Option<(u32, Option<u64>)>,
    pub(crate) told: Told,
}

/// What the outside was told or saw while the process lived: it must be in the log after any crash.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) acknowledged: BTreeSet<MsgId>,
    pub(crate) removed: BTreeSet<MsgId>,
    pub(crate) ended: BTreeMap<u32, EndReason>,
    pub(crate) requests: BTreeSet<(u32, u32, u32)>,
    pub(crate) runs: BTreeSet<(CallId, u32)>,
    /// Messages that hooks kept from the model.
    pub(crate) dropped: BTreeSet<MsgId>,
}

impl Told {
    fn has_started(&self, call: CallId) -> bool {
        self.runs.range((call, 0)..=(call, u32::MAX)).next().is_some()
    }
}

impl Witness {
    /// The log is read again, from its first event, which stands there.
    pub(crate) fn restart(&mut self, at: usize) {
        *self = Witness { told: std::mem::take(&mut self.told), until: at, ..Witness::default() };
        self.monitor.tools_are_watched = true;
    }

    /// One more event, whose line ends there. Gives the rule it breaks, if it breaks one.
    pub(crate) fn add(&mut self, event: Event, end: usize, now_ms: u64) -> Option<String> {
        if let Fact::TurnStart(start) = &event.fact {
            self.open = Some((start.turn, None));
        } else if let (Fact::TurnCancel(_), Some((_, cancelled))) = (&event.fact, &mut self.open) {
            cancelled.get_or_insert(now_ms);
        } else if let Fact::TurnEnd(_) = &event.fact {
            self.open = None;
        }
        let folded = catch_unwind(AssertUnwindSafe(|| self.monitor.fold(&event.fact)));
        self.events.push(event);
        self.ends.push(end);
        self.until = end;
        let rule = folded.err()?;
        Some(rule.downcast_ref::<String>().cloned().unwrap_or_else(|| "a rule is broken".to_owned()))
    }

    /// Whether this turn is open and nobody cancelled it.
    pub(crate) fn goes_on(&self, turn: u32) -> bool {
        self.open == Some((turn, None))
    }

    /// Whether a tool of this turn may still run.
    pub(crate) fn may_run(&self, turn: u32, now_ms: u64) -> bool {
        let limit = terret::limits::TOOL_GRACE_MS + GRACE_SLACK_MS;
        self.open
            .is_some_and(|(open, cancelled)| open == turn && cancelled.is_none_or(|at| now_ms <= at + limit))
    }

    pub(crate) fn has_open_turn(&self) -> bool {
        self.open.is_some()
    }

    /// The newest event of which this is true: its place.
    pub(crate) fn last(&self, is: impl Fn(&Fact) -> bool) -> Option<usize> {
        self.events.iter().rposition(|event| is(&event.fact))
    }
}

impl State {
    /// Bytes reached the log.
    pub(crate) fn write(&mut self, lines: &[u8]) {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let Some(whole) = line.strip_suffix(b"\n") else { return };
            let end = self.witness.until + line.len();
            match self.witness.tip.check(whole).and_then(|line| line.event()) {
                Ok(event) => self.written(event, end),
                Err(e) => self.fault(format!("a line was written that cannot be read: {e}")),
            }
        }
    }

    fn written(&mut self, event: Event, end: usize) {
        let now = self.now_ms();
        self.tell(|| format!("{:>5} {} {}", event.seq, event.fact.type_name(), short(&event.fact)));
        self.reached.event(&event.fact);
        if let Fact::ToolResult(result) = &event.fact
            && result.outcome == Outcome::NotStarted
            && self.witness.told.has_started(result.call)
        {
            self.fault(format!("call {} is said not to have started, and it did", result.call));
        }
        if let (Fact::TurnCancel(cancel), true) = (&event.fact, self.resting) {
            self.disposed |= cancel.cause == Cause::Disposed;
        }
        if self.disposed && matches!(event.fact, Fact::TurnStart(_)) {
            self.fault("a turn starts in a session that was shut down");
        }
        let removed = match &event.fact {
            Fact::InboxRemoved(gone) => gone.msgs.as_slice(),
            _ => &[],
        };
        for id in removed.iter().filter(|id| !self.unwanted.contains(id)).cloned().collect::<Vec<_>>() {
            self.fault(format!("{id} was taken off, and nobody asked for that"));
        }
        match &event.fact {
            Fact::ApprovalDecided(decided) => self.check_decided(decided),
            Fact::SurfaceReplaced(replaced) => self.check_replaced(replaced),
            _ => {}
        }
        if let Some(rule) = self.witness.add(event, end, now) {
            self.fault(rule);
        }
    }

    /// Whether the event at this place is synced.
    pub(crate) fn is_synced(&self, at: usize) -> bool {
        self.witness.ends[at] <= self.disk.synced
    }

    /// A request reached the model. Gives its attempt.
    pub(crate) fn requested(&mut self, header: &Arc<Header>, body: &Bytes) -> Option<(u32, u32, u32)> {
        let Some(at) = self.witness.last(|fact| matches!(fact, Fact::RequestAttempt(_))) else {
            self.fault("a request was sent that the log does not know");
            return None;
        };
        let Fact::RequestAttempt(attempt) = self.witness.events[at].fact.clone() else { return None };
        let place = (attempt.turn, attempt.step, attempt.attempt);
        if !self.is_synced(at) {
            self.fault(format!("request {place:?} was sent before its attempt was synced"));
        }
        if self.disk.poisoned {
            self.fault(format!("request {place:?} was sent from a poisoned session"));
        }
        if !self.dead && !self.witness.told.requests.insert(place) {
            self.fault(format!("request {place:?} was sent twice"));
        }
        let Witness { events, request, bodies, folded, .. } = &mut self.witness;
        events[*folded..at].iter().for_each(|event| request.fold(event));
        *folded = at;
        let paired = is_paired(request.messages());
        let logged = request.header().cloned();
        let built = bodies.build(header, request.messages(), &no_blobs);
        if !paired {
            self.fault(format!(
                "request {place:?} has a call without its result, or a result without its call"
            ));
        }
        if logged.as_ref() != Some(header) {
            self.fault(format!("request {place:?} does not have the header of the log"));
        }
        if logged.map(|header| self.witness.request.digest(&header)) != Some(attempt.digest) {
            self.fault(format!("request {place:?} is not what the log rebuilds"));
        }
        let by_hand = by_hand(header, self.witness.request.messages());
        let same = match built {
            Ok(Some(built)) => {
                built.bytes == *body && by_hand == *body && attempt.wire_digest == Some(built.digest)
            }
            // A plugin serves it, and nobody makes a body.
            Ok(None) => body.is_empty() && attempt.wire_digest.is_none(),
            Err(_) => false,
        };
        if !same {
            self.fault(format!("request {place:?} has other bytes than the log rebuilds"));
        }
        Some(place)
    }

    /// Whether this attempt is open in the log.
    pub(crate) fn is_streaming(&self, place: (u32, u32, u32)) -> bool {
        let last = self.witness.last(|fact| {
            matches!(fact, Fact::RequestAttempt(_) | Fact::RequestFailed(_) | Fact::AssistantMessage(_))
        });
        let open = last.map(|at| &self.witness.events[at].fact);
        matches!(open, Some(Fact::RequestAttempt(a)) if (a.turn, a.step, a.attempt) == place)
            && self.witness.goes_on(place.0)
    }

    /// The body of a tool starts.
    pub(crate) fn tool_starts(&mut self, call: CallId, effect: EffectClass) {
        let at = self.witness.last(|fact| matches!(fact, Fact::ToolCall(c) if c.call == call));
        let Some(at) = at else {
            return self.fault(format!("call {call} starts, and the log does not know it"));
        };
        let Fact::ToolCall(started) = &self.witness.events[at].fact else { return };
        let run = started.run;
        if !self.is_synced(at) {
            self.fault(format!("call {call} starts before its `tool/call` is synced"));
        }
        if self.disk.poisoned {
            self.fault(format!("call {call} starts in a poisoned session"));
        }
        if self.dead {
            return;
        }
        if !self.witness.goes_on(call.turn) {
            self.fault(format!("call {call} starts though its turn was cancelled before"));
        }
        if run == 1 {
            self.check_consent(call, at);
        }
        let told = &mut self.witness.told;
        let again = told.has_started(call);
        let twice = !told.runs.insert((call, run));
        if twice || (again && effect == EffectClass::Unsafe) {
            self.fault(format!("call {call} starts again, run {run}, {effect:?}"));
        }
    }
}

/// The body of `script@1`, made without any of the code that makes it for real.
fn by_hand(header: &Header, messages: &Messages) -> Vec<u8> {
    let mut body = b"{\"header\":".to_vec();
    // What cannot be written makes a body that is not the one that was sent.
    let _ = serde_json::to_writer(&mut body, header);
    let mut before: &[u8] = b",\"messages\":[";
    for projected in messages.list() {
        body.extend_from_slice(before);
        let _ = serde_json::to_writer(&mut body, &*projected.message);
        before = b",";
    }
    body.extend_from_slice(if messages.list().is_empty() { b",\"messages\":[]}" } else { b"]}" });
    body
}

/// A fact in a few words, for the story.
fn short(fact: &Fact) -> String {
    let mut json = Vec::new();
    let mut words = match fact.write_data(&mut json) {
        Ok(()) => String::from_utf8_lossy(&json).into_owned(),
        Err(e) => e.to_string(),
    };
    if words.len() > 200 {
        words.truncate(words.floor_char_boundary(200));
        words.push('…');
    }
    words
}
