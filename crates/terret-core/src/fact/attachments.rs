//! What a fact names that is kept beside the log.

use super::Fact;
use crate::message::{Attachment, Block, Message};

impl Fact {
    /// The attachments of the message or the result it carries.
    pub fn attachments(&self) -> Vec<&Attachment> {
        match self {
            Fact::InboxAdded(added) => added.message.attachments(),
            Fact::UserMessage(user) => user.message.attachments(),
            Fact::AssistantMessage(answer) => answer.message.attachments(),
            Fact::SurfaceReplaced(replaced) => replaced.message.attachments(),
            Fact::ToolResult(result) => within(&result.content),
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnStart(_)
            | Fact::TurnCancel(_)
            | Fact::TurnEnd(_)
            | Fact::StepStart(_)
            | Fact::StepEnd(_)
            | Fact::RequestHeader(_)
            | Fact::RequestContext(_)
            | Fact::RequestAttempt(_)
            | Fact::RequestFailed(_)
            | Fact::RequestRetry(_)
            | Fact::AssistantChunk(_)
            | Fact::ToolCall(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => Vec::new(),
        }
    }
}

impl Message {
    /// What it names that is kept beside the log, results of tools included.
    pub fn attachments(&self) -> Vec<&Attachment> {
        within(&self.content)
    }
}

fn within(blocks: &[Block]) -> Vec<&Attachment> {
    let of = |block| match block {
        &Block::Image { ref attachment } | &Block::File { ref attachment } => vec![attachment],
        Block::ToolResult { content, .. } => within(content),
        Block::Text { .. }
        | Block::Refusal { .. }
        | Block::Reasoning { .. }
        | Block::ToolCall { .. }
        | Block::Json { .. }
        | Block::Provider { .. } => Vec::new(),
    };
    blocks.iter().flat_map(of).collect()
}
