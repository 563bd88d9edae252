//! Turns, told from outside: what each took, cost and said.

use crate::chunk::Usage;
use crate::fact::{EndReason, Fact};
use crate::id::{MsgId, Seq};
use crate::line::Event;

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSummary {
    /// Its number.
    pub turn: u32,
    /// Seq of its start.
    pub start: Seq,
    /// Seq of its end; `None` while it is open.
    pub end: Option<Seq>,
    /// How it ended; `None` while it is open.
    pub reason: Option<EndReason>,
    /// Steps that started.
    pub steps: u32,
    /// Requests that were sent.
    pub attempts: u32,
    /// Calls that have a result.
    pub calls: u32,
    /// Tokens of all its requests, failed ones included; `None` if no provider counted.
    pub usage: Option<Usage>,
    /// Text of its last answer.
    pub text: String,
    /// Messages it claimed and did not give back.
    pub claimed: Vec<MsgId>,
}

/// Folds events into turns. Keeps the open one; hands each out when it ends.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    open: Option<TurnSummary>,
}

impl Turns {
    /// Goes on from a turn that is open already.
    pub fn within(open: Option<TurnSummary>) -> Self {
        Turns { open }
    }

    /// The open turn.
    pub fn open(&self) -> Option<&TurnSummary> {
        self.open.as_ref()
    }

    /// Takes one event in; gives the turn it ended.
    pub fn fold(&mut self, event: &Event) -> Option<TurnSummary> {
        if let Fact::TurnStart(start) = &event.fact {
            self.open = Some(TurnSummary {
                turn: start.turn,
                start: event.seq,
                end: None,
                reason: None,
                steps: 0,
                attempts: 0,
                calls: 0,
                usage: None,
                text: String::new(),
                claimed: Vec::new(),
            });
        }
        let turn = self.open.as_mut()?;
        match &event.fact {
            Fact::InboxClaimed(claimed) => turn.claimed.extend(claimed.msgs.iter().cloned()),
            Fact::InboxReturned(returned) => turn.claimed.retain(|id| !returned.msgs.contains(id)),
            Fact::StepStart(start) => turn.steps = start.step,
            Fact::RequestAttempt(_) => turn.attempts += 1,
            Fact::RequestFailed(failed) => turn.count(failed.usage.as_ref()),
            Fact::AssistantMessage(answer) => {
                turn.text = answer.message.text();
                turn.count(answer.usage.as_ref());
            }
            Fact::ToolResult(_) => turn.calls += 1,
            Fact::TurnEnd(end) => {
                turn.end = Some(event.seq);
                turn.reason = Some(end.reason.clone());
                return self.open.take();
            }
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxReleased(_)
            | Fact::TurnStart(_)
            | Fact::TurnCancel(_)
            | Fact::StepEnd(_)
            | Fact::UserMessage(_)
            | Fact::RequestHeader(_)
            | Fact::RequestContext(_)
            | Fact::RequestRetry(_)
            | Fact::AssistantChunk(_)
            | Fact::ToolCall(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
        None
    }
}

impl TurnSummary {
    fn count(&mut self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.usage.get_or_insert_with(Usage::default).add(usage);
        }
    }
}
