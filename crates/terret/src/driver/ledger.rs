//! One log and everything folded from it: a fact goes in once, and every projection sees it.

use std::collections::{BTreeMap, HashMap};

use terret_core::decided::Decided;
use terret_core::digest::message_digest;
use terret_core::fact::Fact;
use terret_core::id::{Digest, MsgId};
use terret_core::input::Input;
use terret_core::line::Event;
use terret_core::machine::{Handled, Machine};
use terret_core::message::{Block, Message, Source};
use terret_core::project::{OpenTurn, Request, TurnSummary, Turns};
use terret_core::state::State;

use crate::error::Error;
use crate::store::Journal;

/// The log of one session, its machine and its projections.
pub(super) struct Ledger {
    pub(super) machine: Machine,
    pub(super) journal: Journal,
    pub(super) folds: Folds,
    /// Recorded and not yet published.
    pub(super) fresh: Vec<Event>,
    /// Turns that ended since they were last asked for.
    pub(super) ended: Vec<TurnSummary>,
    decided: Vec<Decided>,
}

/// What is folded from events, beside the machine's state.
#[derive(Default)]
pub(crate) struct Folds {
    pub(crate) state: State,
    pub(super) open: OpenTurn,
    pub(super) request: Request,
    pub(crate) turns: Turns,
    /// Digest of every message ever accepted, by id.
    pub(super) accepted: HashMap<MsgId, Digest>,
    /// Accepted and not yet settled by a turn's end.
    pub(super) waiting: HashMap<MsgId, Message>,
    /// Text of each plugin's last context message.
    pub(super) known: BTreeMap<String, String>,
    /// Messages looked at for contexts, and of which past.
    noted: usize,
    rewrites: u64,
    /// Who had the open step's request sent to its provider again, a name for each time.
    pub(super) retried: Vec<String>,
}

impl Folds {
    /// Takes one event in; gives the turn it ended.
    pub(crate) fn fold(&mut self, event: &Event) -> Option<TurnSummary> {
        let before = self.request.header().cloned();
        self.open.fold(event);
        self.request.fold(event);
        self.note_contexts();
        match &event.fact {
            Fact::InboxAdded(added) => {
                let message = &added.message;
                self.accepted.insert(message.id.clone(), message_digest(message));
                self.waiting.insert(message.id.clone(), message.clone());
                if let Some(old) = &added.replaces {
                    self.waiting.remove(old);
                }
            }
            Fact::InboxRemoved(removed) => {
                for id in &removed.msgs {
                    self.waiting.remove(id);
                }
            }
            Fact::StepStart(_) => self.retried.clear(),
            Fact::RequestHeader(header) => {
                if before.is_none_or(|before| before.provider != header.header.provider) {
                    self.retried.clear();
                }
            }
            Fact::RequestRetry(retry) => self.retried.push(retry.by.clone()),
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnStart(_)
            | Fact::TurnCancel(_)
            | Fact::TurnEnd(_)
            | Fact::StepEnd(_)
            | Fact::UserMessage(_)
            | Fact::SurfaceReplaced(_)
            | Fact::RequestContext(_)
            | Fact::RequestAttempt(_)
            | Fact::RequestFailed(_)
            | Fact::AssistantChunk(_)
            | Fact::AssistantMessage(_)
            | Fact::ToolCall(_)
            | Fact::ToolResult(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
        let ended = self.turns.fold(event);
        for id in ended.iter().flat_map(|turn| &turn.claimed) {
            self.waiting.remove(id);
        }
        ended
    }
}

impl Folds {
    /// What plugins told the model, as the next request carries it: a message that never entered says nothing.
    fn note_contexts(&mut self) {
        let messages = self.request.messages();
        if self.rewrites != messages.rewrites() {
            self.rewrites = messages.rewrites();
            self.known.clear();
            self.noted = 0;
        }
        for projected in &messages.list()[self.noted.min(messages.list().len())..] {
            if let (Source::Plugin { plugin, .. }, [Block::Text { text, .. }]) =
                (&projected.message.source, &*projected.message.content)
            {
                self.known.insert(plugin.clone(), text.clone());
            }
        }
        self.noted = messages.list().len();
    }
}

impl Ledger {
    pub(super) fn new(mut folds: Folds, journal: Journal) -> Self {
        let machine = Machine::new(std::mem::take(&mut folds.state));
        Ledger { machine, journal, folds, fresh: Vec::new(), ended: Vec::new(), decided: Vec::new() }
    }

    /// Hands the machine one input and records what follows. Nothing is written yet.
    pub(super) fn take(&mut self, time: u64, input: Input) -> Result<Handled, Error> {
        let handled = self.machine.handle(input, &mut self.decided);
        for decided in std::mem::take(&mut self.decided) {
            let fact = self.folds.open.complete(decided);
            let seq = self.journal.push(time, &fact)?;
            let event = Event { seq, time, fact };
            self.ended.extend(self.folds.fold(&event));
            self.fresh.push(event);
        }
        Ok(handled)
    }

    /// Folds the log again from its bytes, after a write that failed.
    pub(super) fn refold(&mut self) -> Result<(), Error> {
        let path = self.journal.log().path().to_owned();
        let mut scan = crate::store::Scan::new(self.journal.log().reader(0)?, &path)?;
        let mut folds = Folds::default();
        let bad = scan.fold(&mut |event| {
            folds.state.apply(&event.fact);
            folds.fold(event);
        })?;
        if let Some(bad) = bad {
            return Err(bad.into_error(&path));
        }
        self.machine = Machine::new(std::mem::take(&mut folds.state));
        self.folds = folds;
        self.fresh.clear();
        // A turn whose end is in the log has ended, whoever was not told yet.
        let written = scan.tip().next_seq();
        self.ended.retain(|turn| turn.end.is_some_and(|end| end < written));
        self.decided.clear();
        self.journal.rewind(scan.tip().clone());
        Ok(())
    }
}
