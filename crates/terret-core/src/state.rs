//! The fold of the log: ids, counts and flags, never text. Only [`State::apply`] changes it.

mod inbox;
mod stage;
mod turn;

pub use inbox::{Inbox, Pending};
pub use stage::{CallState, CallStatus, CauseKind, Stage, Verdict};
pub use turn::Turn;

use crate::digest::{context_digest, header_digest};
use crate::fact::{Cause, EndReason, Fact};
use crate::id::Digest;

/// What the log amounts to, for the loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    last_turn: u32,
    open: Option<Turn>,
    inbox: Inbox,
    armed: bool,
    epoch: u64,
    header: Option<Digest>,
    context: Option<Digest>,
    resumed: bool,
}

impl State {
    /// The open turn.
    pub fn turn(&self) -> Option<&Turn> {
        self.open.as_ref()
    }

    /// Number of the last turn that started; 0 before the first.
    pub fn last_turn(&self) -> u32 {
        self.last_turn
    }

    /// The pending messages.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Whether a waking message would start a turn now.
    pub fn armed(&self) -> bool {
        self.armed
    }

    /// Count of writers so far.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Digest of the last header.
    pub fn header(&self) -> Option<Digest> {
        self.header
    }

    /// Digest of the last request context.
    pub fn context(&self) -> Option<Digest> {
        self.context
    }

    /// Whether this writer has not yet written a header of its own, though the log has one.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// Takes one fact in. A fact that cannot follow (a log not written by this machine) changes as little as
    /// it can; it never panics.
    pub fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::WriterOpened(opened) => {
                self.epoch = opened.epoch;
                self.armed = false;
                self.resumed = self.header.is_some();
                if let Some(turn) = &mut self.open {
                    turn.orphan();
                }
            }
            Fact::InboxAdded(added) => {
                let pending = Pending {
                    id: added.message.id.clone(),
                    lane: added.lane,
                    wake: added.wake,
                    held: false,
                    returned: false,
                };
                self.inbox.add(pending, added.replaces.as_ref());
                match &mut self.open {
                    Some(turn) if added.wake && turn.cancelled().is_some() => turn.latch(),
                    Some(_) | None => self.armed |= added.wake,
                }
            }
            Fact::InboxRemoved(removed) => {
                self.inbox.take(&removed.msgs);
            }
            Fact::InboxReleased(released) => {
                self.inbox.release(&released.msgs);
                match &mut self.open {
                    Some(turn) if turn.cancelled().is_some() => turn.latch(),
                    Some(_) | None => self.armed = true,
                }
            }
            Fact::InboxClaimed(claimed) => {
                let batch = self.inbox.take(&claimed.msgs);
                if let Some(turn) = &mut self.open {
                    turn.claim(batch);
                }
            }
            Fact::InboxReturned(returned) => {
                if let Some(turn) = &mut self.open {
                    let given = turn.give_back(&returned.msgs);
                    self.inbox.put_back(given, returned.held);
                }
            }
            Fact::TurnStart(start) => {
                self.last_turn = start.turn;
                self.open = Some(Turn::new(start.turn));
            }
            Fact::TurnCancel(cancel) => {
                if let Some(turn) = &mut self.open {
                    turn.cancel(match cancel.cause {
                        Cause::User { .. } => CauseKind::User,
                        Cause::Parent | Cause::Hook { .. } | Cause::Disposed | Cause::Budget { .. } => {
                            CauseKind::Other
                        }
                    });
                }
            }
            Fact::TurnEnd(end) => {
                if let Some(turn) = self.open.take() {
                    let goes_on = match end.reason {
                        EndReason::Completed | EndReason::MaxTokens => true,
                        EndReason::Blocked { .. } => !turn.gave_back(),
                        EndReason::Aborted { .. } | EndReason::Error { .. } | EndReason::Interrupted => false,
                    };
                    self.armed = if goes_on { self.armed } else { turn.latched() };
                }
            }
            Fact::RequestHeader(header) => {
                self.header = Some(header_digest(&header.header));
                self.resumed = false;
            }
            Fact::RequestContext(context) => self.context = Some(context_digest(context)),
            Fact::StepStart(start) => self.in_turn(|turn| turn.start_step(start.step, start.admits)),
            Fact::UserMessage(_) => self.in_turn(Turn::admit_one),
            Fact::RequestAttempt(attempt) => self.in_turn(|turn| turn.attempt(attempt.attempt)),
            Fact::AssistantChunk(chunk) => self.in_turn(|turn| turn.chunk(&chunk.chunk)),
            Fact::AssistantMessage(message) => self.in_turn(|turn| turn.answer(message)),
            Fact::RequestFailed(failed) => self.in_turn(|turn| turn.fail(failed)),
            Fact::RequestRetry(retry) => self.in_turn(|turn| turn.retry(retry.attempt, retry.delay_ms)),
            Fact::ToolCall(call) => self.in_turn(|turn| turn.start_call(call)),
            Fact::ToolResult(result) => self.in_turn(|turn| turn.finish_call(result)),
            Fact::StepEnd(_) => {
                let more = self.inbox.has_next_step();
                self.in_turn(|turn| turn.end_step(more));
            }
            Fact::WriterIdle(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
    }

    fn in_turn(&mut self, f: impl FnOnce(&mut Turn)) {
        if let Some(turn) = &mut self.open {
            f(turn);
        }
    }
}
