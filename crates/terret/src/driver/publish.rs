//! Tells those who watch what was written, in the order of the log.

use std::collections::HashMap;

use terret_core::fact::{EndReason, Fact, InboxAdded, Removal};
use terret_core::id::CallId;
use terret_core::line::Event;

use super::Driver;
use super::ledger::Folds;
use crate::hook::{InboxNotice, Seams, Settled, TurnError};
use crate::mail::Status;

/// What of the log before it is said again beside an event.
#[derive(Default)]
pub(super) struct Watched {
    /// The last step that was published; 0 before the first of a turn.
    step: u32,
    /// Tools of the last answer's calls.
    tools: HashMap<CallId, String>,
}

impl Watched {
    /// Goes on behind what a log holds already.
    pub(super) fn after(folds: &Folds) -> Self {
        let Some(turn) = folds.state.turn() else { return Watched::default() };
        let named = |id: CallId| folds.open.call(id).map(|(name, _)| (id, name.to_owned()));
        Watched { step: turn.step(), tools: turn.calls().iter().filter_map(|call| named(call.id)).collect() }
    }
}

impl Driver {
    /// Shows one written event to those who are there now.
    pub(super) fn publish(&mut self, event: &Event) {
        let seams = self.world.registry.now();
        self.before(event, &seams);
        seams.events.emit(event);
        if !seams.inbox.is_empty() {
            for notice in notices(&event.fact) {
                seams.inbox.emit(&notice);
            }
        }
    }

    /// What is told before the event itself.
    fn before(&mut self, event: &Event, seams: &Seams) {
        match &event.fact {
            Fact::TurnStart(_) => {
                self.watched.step = 0;
                self.announce(Status::Running);
            }
            Fact::StepStart(start) => self.watched.step = start.step,
            Fact::AssistantMessage(answer) => {
                let named = answer.calls.iter().map(|call| (call.call, call.name.clone()));
                self.watched.tools = named.collect();
            }
            Fact::ToolResult(result) if !seams.results.is_empty() => {
                let name = self.watched.tools.get(&result.call).cloned().unwrap_or_default();
                seams.results.emit(&Settled { name, result: result.clone() });
            }
            Fact::TurnEnd(end) => {
                if let EndReason::Error { failure } = &end.reason {
                    let (step, failure) = (self.watched.step, failure.clone());
                    seams.errors.emit(&TurnError { turn: end.turn, step, failure });
                }
            }
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnCancel(_)
            | Fact::StepEnd(_)
            | Fact::UserMessage(_)
            | Fact::RequestHeader(_)
            | Fact::RequestContext(_)
            | Fact::RequestAttempt(_)
            | Fact::RequestFailed(_)
            | Fact::RequestRetry(_)
            | Fact::AssistantChunk(_)
            | Fact::ToolCall(_)
            | Fact::ToolResult(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
    }

    /// Says where the agent stands, if that is new.
    pub(super) fn announce(&self, status: Status) {
        let changed = self.progress.send_if_modified(|p| {
            let changed = p.status != status;
            p.status = status;
            changed
        });
        if changed {
            self.world.registry.now().status.emit(&status);
        }
    }
}

/// What an event means for single messages of the inbox.
fn notices(fact: &Fact) -> Vec<InboxNotice> {
    let discarded = |msg: &terret_core::id::MsgId, why| InboxNotice::Discarded { msg: msg.clone(), why };
    match fact {
        Fact::InboxAdded(InboxAdded { message, replaces, .. }) => {
            let replaced = replaces.iter().map(|old| discarded(old, Removal::Replaced));
            replaced.chain([InboxNotice::Inserted(message.clone())]).collect()
        }
        Fact::InboxClaimed(claimed) => {
            let turn = claimed.turn;
            claimed.msgs.iter().map(|msg| InboxNotice::Claimed { msg: msg.clone(), turn }).collect()
        }
        Fact::InboxRemoved(removed) => removed.msgs.iter().map(|msg| discarded(msg, removed.why)).collect(),
        Fact::WriterOpened(_)
        | Fact::WriterIdle(_)
        | Fact::InboxReturned(_)
        | Fact::InboxReleased(_)
        | Fact::TurnStart(_)
        | Fact::TurnCancel(_)
        | Fact::TurnEnd(_)
        | Fact::StepStart(_)
        | Fact::StepEnd(_)
        | Fact::UserMessage(_)
        | Fact::RequestHeader(_)
        | Fact::RequestContext(_)
        | Fact::RequestAttempt(_)
        | Fact::RequestFailed(_)
        | Fact::RequestRetry(_)
        | Fact::AssistantChunk(_)
        | Fact::AssistantMessage(_)
        | Fact::ToolCall(_)
        | Fact::ToolResult(_)
        | Fact::ApprovalAsked(_)
        | Fact::ApprovalDecided(_)
        | Fact::SurfaceReplaced(_)
        | Fact::SeamChanged(_)
        | Fact::Plugin(_) => Vec::new(),
    }
}
