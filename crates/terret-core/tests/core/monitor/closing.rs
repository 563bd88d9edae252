//! What may still follow once a turn can only end.

use terret_core::fact::{Fact, Next};

use super::Monitor;
use crate::rules::Rule;

impl Monitor {
    pub(super) fn only_closers_after_an_end_is_certain(&self, fact: &Fact) {
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.cancelled || turn.closing) else { return };
        let closer = match fact {
            Fact::WriterOpened(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::ToolResult(_)
            | Fact::StepEnd(_)
            | Fact::TurnEnd(_) => true,
            // The first cancel wins.
            Fact::TurnCancel(_) => turn.cancelled,
            Fact::RequestFailed(failed) => failed.next == Next::End,
            Fact::AssistantMessage(answer) => answer.interrupted,
            Fact::WriterIdle(_)
            | Fact::InboxClaimed(_)
            | Fact::TurnStart(_)
            | Fact::StepStart(_)
            | Fact::UserMessage(_)
            | Fact::RequestHeader(_)
            | Fact::RequestContext(_)
            | Fact::RequestAttempt(_)
            | Fact::RequestRetry(_)
            | Fact::AssistantChunk(_)
            | Fact::ToolCall(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => false,
        };
        Rule::Closers.demand(closer, fact);
    }
}
