//! One person: acts, and judges what comes back by the log.

use std::time::Duration;

use terret::Error;
use terret::agent::{Agent, Receipt, Settlement, Status};
use terret::core::fact::{Cause, Fact, PluginEvent, Rel};
use terret::core::id::MsgId;
use terret::core::input::{Record, Recovery};
use terret::core::message::Message;
use terret::core::raw::Raw;

use crate::limits::WINDOW_MS;
use crate::reached::Situation;
use crate::world::World;

/// What somebody does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Prompt,
    Steer,
    Inject,
    SendAgain,
    ReuseId,
    Edit,
    Remove,
    Release,
    Clear,
    Cancel,
    Look,
    WaitIdle,
    Read,
    Record,
    Replace,
    Recover,
}

/// Prompts first: most of what is done is asking for something.
pub(crate) const ACTS: [Act; 22] = [
    Act::Prompt,
    Act::Prompt,
    Act::Prompt,
    Act::Prompt,
    Act::Steer,
    Act::Steer,
    Act::Inject,
    Act::SendAgain,
    Act::ReuseId,
    Act::Edit,
    Act::Remove,
    Act::Release,
    Act::Clear,
    Act::Cancel,
    Act::Cancel,
    Act::Look,
    Act::WaitIdle,
    Act::Read,
    Act::Record,
    Act::Replace,
    Act::Replace,
    Act::Recover,
];

/// One person's view of an agent.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) world: World,
    pub(crate) agent: Agent,
}

impl Person {
    pub(crate) async fn act(&self, act: Act) -> Option<(MsgId, Receipt)> {
        match act {
            Act::Prompt => self.sent(act, self.agent.followup(self.message()).await),
            Act::Steer => self.sent(act, self.agent.steer(self.message()).await),
            Act::Inject => self.sent(act, self.agent.inject(self.message()).await),
            Act::SendAgain => {
                let message = self.earlier()?;
                let receipt = self.sent(act, self.agent.followup(message).await);
                receipt.inspect(|_| self.world.count(Situation::SentAgain))
            }
            Act::ReuseId => {
                let id = self.acknowledged()?;
                let other = Message::user(id.clone(), "something else");
                if self.sent(act, self.agent.followup(other).await).is_some() {
                    self.world.broken(format!("{id} was taken twice, with different words"));
                }
                None
            }
            Act::Edit => {
                let old = self.earlier()?.id;
                self.takes_off(std::slice::from_ref(&old));
                self.sent(act, self.agent.edit(old, self.message()).await)
            }
            Act::Remove => {
                let id = self.earlier()?.id;
                self.takes_off(std::slice::from_ref(&id));
                if self.done(act, self.agent.remove(vec![id.clone()]).await) {
                    self.removed(&id);
                }
                None
            }
            Act::Release => {
                let msgs = self.pending().await;
                self.done(act, self.agent.release(msgs).await);
                None
            }
            Act::Clear => {
                let msgs = self.pending().await;
                self.takes_off(&msgs);
                self.done(act, self.agent.remove(msgs).await);
                None
            }
            Act::Cancel => {
                self.done(act, self.agent.cancel(self.cause()).await);
                None
            }
            Act::Look => {
                self.done(act, self.agent.look().await.map(drop));
                None
            }
            Act::WaitIdle => {
                let limit = Duration::from_millis(WINDOW_MS);
                if let Ok(Ok(progress)) = tokio::time::timeout(limit, self.agent.when_idle()).await {
                    self.idle(progress.status);
                }
                None
            }
            Act::Read => {
                self.read().await;
                None
            }
            Act::Record => {
                let data = Raw::parse("{}").unwrap_or_else(|_| Raw::string(""));
                let event = PluginEvent { kind: "x/sim/note".into(), rel: Rel::View, v: 1, data };
                if self.done(act, self.agent.record(Record::Plugin(event)).await) {
                    self.world.count(Situation::Recorded);
                }
                None
            }
            Act::Replace => {
                let replaced = self.world.lock().replacement()?;
                if !self.done(act, self.agent.record(Record::Surface(replaced)).await) {
                    self.world.count(Situation::ReplaceRefused);
                }
                None
            }
            Act::Recover => {
                self.done(act, self.agent.recover(Recovery::Close).await);
                None
            }
        }
    }

    async fn pending(&self) -> Vec<MsgId> {
        let pending = self.agent.look().await.map(|reading| reading.pending).unwrap_or_default();
        pending.into_iter().map(|pending| pending.id).collect()
    }

    /// Somebody wants these off the queue: nobody else may take them off.
    fn takes_off(&self, msgs: &[MsgId]) {
        self.world.lock().unwanted.extend(msgs.iter().cloned());
    }

    /// Somebody sends a message without caring what becomes of it.
    pub(crate) async fn sends(&self) {
        self.sent(Act::Prompt, self.agent.followup(self.message()).await);
    }

    /// A message nobody sent before.
    fn message(&self) -> Message {
        let message = self.agent.user("do something");
        let mut state = self.world.lock();
        state.sent.push(message.clone());
        if state.disk.syncing {
            state.reached.count(Situation::MailInBarrier);
        }
        message
    }

    /// A message somebody sent before.
    fn earlier(&self) -> Option<Message> {
        let mut state = self.world.lock();
        let sent = state.sent.len() as u32;
        let n = state.dice.below(sent) as usize;
        state.sent.get(n).cloned()
    }

    fn acknowledged(&self) -> Option<MsgId> {
        let mut state = self.world.lock();
        let acknowledged = state.witness.told.acknowledged.len() as u32;
        let n = state.dice.below(acknowledged) as usize;
        state.witness.told.acknowledged.iter().nth(n).cloned()
    }

    fn cause(&self) -> Cause {
        match self.world.lock().dice.below(5) {
            0 => Cause::Parent,
            1 => Cause::Hook { plugin: "sim".into(), reason: "enough".into() },
            2 => Cause::Budget { which: "money".into(), limit: 1 },
            3 => Cause::Disposed,
            _ => Cause::User { text: None },
        }
    }

    /// A send came back: what is acknowledged is synced.
    fn sent(&self, act: Act, sent: Result<Receipt, Error>) -> Option<(MsgId, Receipt)> {
        let receipt = match sent {
            Ok(receipt) => receipt,
            Err(error) => {
                self.excuse(act, &error);
                return None;
            }
        };
        let mut state = self.world.lock();
        if state.dead {
            return None;
        }
        let id = receipt.id.clone();
        state.reached.count(Situation::Acknowledged);
        state.tell(|| format!("{id} is acknowledged"));
        let added = state.witness.last(|fact| matches!(fact, Fact::InboxAdded(add) if add.message.id == id));
        if !added.is_some_and(|at| state.is_synced(at)) {
            state.fault(format!("{id} was acknowledged before it was synced"));
        }
        state.witness.told.acknowledged.insert(id.clone());
        Some((id, receipt))
    }

    /// Something else came back.
    fn done(&self, act: Act, done: Result<(), Error>) -> bool {
        done.map_err(|error| self.excuse(act, &error)).is_ok()
    }

    /// What was refused was refused for a reason.
    fn excuse(&self, act: Act, error: &Error) {
        let mut state = self.world.lock();
        state.tell(|| format!("{act:?} failed: {error}"));
        let poisoned = state.disk.poisoned || state.disk.closing;
        let fair = match error {
            Error::Full { .. } => state.was_full,
            Error::Poisoned { .. } => poisoned,
            Error::Gone => poisoned || state.resting,
            Error::Refused(_) => {
                state.reached.count(Situation::Refused);
                true
            }
            Error::IdReused(_) => {
                state.reached.count(Situation::IdReused);
                matches!(act, Act::ReuseId)
            }
            _ => false,
        };
        if !fair {
            state.fault(format!("{act:?} failed for no reason: {error}"));
        }
    }

    /// A removal was acknowledged: if there was one, it is synced.
    fn removed(&self, id: &MsgId) {
        let mut state = self.world.lock();
        let removed = |fact: &Fact| matches!(fact, Fact::InboxRemoved(gone) if gone.msgs.contains(id));
        let Some(at) = state.witness.last(removed).filter(|_| !state.dead) else { return };
        if !state.is_synced(at) {
            state.fault(format!("the removal of {id} was acknowledged before it was synced"));
        }
        state.witness.told.removed.insert(id.clone());
    }

    /// A receipt resolved: the log says the same, for good.
    pub(crate) fn settled(&self, id: &MsgId, settlement: Settlement) {
        let mut state = self.world.lock();
        if state.dead {
            return;
        }
        state.tell(|| format!("{id} settled: {settlement:?}"));
        let (outcome, right) = match &settlement {
            Settlement::Ended(outcome) => {
                state.reached.count(Situation::Settled);
                (outcome, state.claimed_by(id) == Some(outcome.turn))
            }
            Settlement::Parked(outcome) | Settlement::Held(outcome) => {
                let held = matches!(settlement, Settlement::Held(_));
                state.reached.count(if held { Situation::Held } else { Situation::Parked });
                (outcome, state.claimed_by(id).is_none_or(|turn| turn > outcome.turn))
            }
            Settlement::Removed(_) => {
                let gone = |fact: &Fact| match fact {
                    Fact::InboxRemoved(gone) => gone.msgs.contains(id),
                    Fact::InboxAdded(add) => add.replaces.as_ref() == Some(id),
                    _ => false,
                };
                if !state.witness.last(gone).is_some_and(|at| state.is_synced(at)) {
                    state.fault(format!("{id} is told to be removed before that is synced"));
                }
                state.witness.told.removed.insert(id.clone());
                return;
            }
            Settlement::Earlier => {
                if state.waits(id) {
                    state.fault(format!("{id} is told to be settled, and waits"));
                }
                return;
            }
        };
        let ending = state.ending(outcome.turn);
        if !right || ending != Some((outcome.ending.clone(), true)) {
            state.fault(format!("{id} settled as {settlement:?}, the log says {ending:?}"));
        }
        state.witness.told.ended.insert(outcome.turn, outcome.ending.clone());
    }

    /// Nobody will say what became of a message.
    pub(crate) fn let_go(&self, id: &MsgId) {
        let mut state = self.world.lock();
        if !state.resting && !state.disk.poisoned && !state.disk.closing {
            state.fault(format!("the receipt of {id} was let go of"));
        }
    }

    /// The agent says that it does nothing.
    pub(crate) fn idle(&self, status: Status) {
        let mut state = self.world.lock();
        if state.dead {
            return;
        }
        let open = state.witness.has_open_turn();
        let ended = state.witness.last(|fact| matches!(fact, Fact::TurnEnd(_)));
        // What a dead process left is found, not told.
        let ours = ended.filter(|at| *at >= state.began);
        let synced = ours.is_none_or(|at| state.is_synced(at));
        // What a dead process was told to start counts no more; our first line says so.
        let began = state.witness.events.len() > state.began;
        let due = state.witness.monitor.waits() && began && !state.was_full && !state.resting;
        let poisoned = state.disk.poisoned;
        let right = match status {
            Status::Idle | Status::Parked => poisoned || (!open && synced && !due),
            // Its end may be on its way to the disk.
            Status::Suspended => open || !synced,
            Status::Poisoned => poisoned,
            Status::Running => false,
        };
        if !right {
            state.fault(format!("told {status:?}: open {open}, ends synced {synced}, a turn is due {due}"));
        }
    }

    /// Reads along: the same bytes as in the log.
    async fn read(&self) {
        let Ok(mut subscription) = self.agent.subscribe().await else { return };
        let until = self.world.lock().dice.within(0..WINDOW_MS);
        let mut read = Vec::new();
        let reading = async {
            while let Ok(Some(lines)) = subscription.next().await {
                read.extend(lines);
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(until), reading).await;
        let mut state = self.world.lock();
        let from = state.began_at;
        let same = state.disk.log(|log| log.get(from..).unwrap_or_default().starts_with(&read));
        let any = !read.is_empty();
        if !same {
            state.fault("a subscription gave other bytes than the log has");
        }
        if any {
            state.reached.count(Situation::Subscribed);
        }
    }
}
