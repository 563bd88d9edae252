//! A state, what the log's rules remember of the way there, and what a loss of power would take.

use std::rc::Rc;

use terret_core::chunk::{Failure, code};
use terret_core::effect::{Effect, Question};
use terret_core::fact::{Class, Fact};
use terret_core::input::{Answer, Input, Recovery};
use terret_core::machine::{Handled, Machine};
use terret_core::state::{Stage, State};

use super::Left;
use super::key::Canon;
use crate::monitor::Monitor;
use crate::rules::Rule;
use crate::samples::opened;

#[derive(Clone)]
pub(super) struct Node {
    pub(super) machine: Machine,
    pub(super) monitor: Monitor,
    pub(super) left: Left,
    /// The disk was full, and nobody posted since.
    full: bool,
    /// The driver is being put away.
    resting: bool,
    /// Ends the log may have after a loss of power: at the last sync, after each fact since.
    tail: Vec<Rc<Cut>>,
}

/// The log up to some fact.
pub(super) struct Cut {
    state: State,
    monitor: Monitor,
    key: u128,
}

impl Cut {
    fn new(state: State, monitor: Monitor) -> Rc<Self> {
        let key = Canon::default().with(&state).with(&monitor).key();
        Rc::new(Cut { state, monitor, key })
    }
}

impl Node {
    pub(super) fn first(left: Left) -> Node {
        let tail = vec![Cut::new(State::default(), Monitor::default())];
        let (machine, monitor) = (Machine::default(), Monitor::default());
        Node { machine, monitor, left, full: false, resting: false, tail }
            .step(Input::Opened(opened(1)), left)
            .0
    }

    pub(super) fn key(&self) -> u128 {
        let mut tail: Vec<u128> = self.tail.iter().map(|cut| cut.key).collect();
        tail.sort_unstable();
        tail.dedup();
        let canon = Canon::default().with(&self.machine).with(&self.monitor);
        canon.with(&self.left).with(&self.full).with(&self.resting).with(&tail).key()
    }

    pub(super) fn effects(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.machine.effects(&mut effects);
        effects
    }

    /// An id no living message has.
    pub(super) fn fresh_id(&self, taken: u8) -> String {
        let inbox = self.machine.state().inbox().iter();
        let batch = self.machine.state().turn().into_iter().flat_map(|turn| turn.batch());
        let used: Vec<_> = inbox.chain(batch).map(|p| p.id.clone()).collect();
        let free = (b'a'..=b'z').map(|c| format!("msg-{}", c as char));
        free.filter(|id| !used.iter().any(|used| *used.0 == **id)).nth(taken.into()).expect("few messages")
    }

    /// Takes an input; gives the next node, nothing synced yet, and the facts on the way.
    pub(super) fn step(&self, input: Input, left: Left) -> (Node, Vec<Fact>) {
        let mut next = Node { left, ..self.clone() };
        next.full &= match &input {
            Input::Send(send) => !send.wake,
            Input::Release { .. } => false,
            _ => true,
        };
        next.resting |= matches!(input, Input::Rest);
        let asked = match &input {
            Input::Answer(question, _) => Some(*question),
            _ => None,
        };
        let closes = matches!(input, Input::Recover(Recovery::Close));
        let mut out = Vec::new();
        let handled = next.machine.handle(input, &mut out);
        let ended = self
            .machine
            .state()
            .turn()
            .is_none_or(|old| next.machine.state().turn().is_none_or(|new| new.number() != old.number()));
        Rule::Close.demand(!closes || ended, &next.machine);
        Rule::Owed.demand(handled != Handled::Refused, &asked);
        let facts: Vec<Fact> = out.into_iter().map(|decided| decided.fact).collect();
        let mut state = self.machine.state().clone();
        for fact in &facts {
            state.apply(fact);
            next.monitor.fold(fact);
            if left.crashes > 0 {
                next.tail.push(Cut::new(state.clone(), next.monitor.clone()));
            }
        }
        Rule::Fold.demand(state == *next.machine.state(), &facts);
        if left.crashes == 0 {
            next.tail.clear();
        }
        if let Some(question) = asked {
            next.late(question);
        }
        (next, facts)
    }

    /// A second answer to the same question.
    fn late(&mut self, question: Question) {
        if self.effects().iter().any(|effect| effect.question() == question) {
            return;
        }
        let mut out = Vec::new();
        let handled = self.machine.handle(Input::Answer(question, Answer::Voted), &mut out);
        Rule::Late.demand(handled == Handled::Late && out.is_empty(), &question);
    }

    /// Where a crash may find the log's end, with a key for each that tells what may follow.
    pub(super) fn dead(&self, facts: &[Fact]) -> impl Iterator<Item = (u128, Rc<Cut>)> {
        let sound = if facts.is_empty() { 0 } else { self.tail.len() };
        let key = |cut: &Cut| Canon::default().with(&cut.key).with(&self.left).key();
        self.tail[..sound].iter().map(move |cut| (key(cut), cut.clone()))
    }

    /// Another writer opens what is left.
    pub(super) fn reopened(&self, cut: &Cut, left: Left) -> Node {
        let left = Left { crashes: left.crashes - 1, ..left };
        let node = Node::at(cut, left);
        node.step(Input::Opened(opened(cut.state.epoch() + 1)), left).0
    }

    /// The disk was full: the same writer folds again what is there.
    pub(super) fn refolded(&self, cut: &Cut, left: Left) -> Node {
        let left = Left { crashes: left.crashes - 1, ..left };
        let failure = Failure::new(code::STORE_FULL, "the disk is full");
        let mut node = Node::at(cut, left).step(Input::StoreFull { failure, reported: vec![] }, left).0;
        Rule::Close.demand(node.machine.state().turn().is_none(), &"a full disk");
        node.full = true;
        node
    }

    fn at(cut: &Cut, left: Left) -> Node {
        let tail = Vec::new();
        let (machine, monitor) = (Machine::new(cut.state.clone()), cut.monitor.clone());
        let node = Node { machine, monitor, left, full: false, resting: false, tail };
        match left.crashes {
            0 => node,
            _ => Node { tail: vec![Cut::new(cut.state.clone(), cut.monitor.clone())], ..node },
        }
    }

    /// The driver syncs before it acknowledges, announces, or lets something leave the process.
    pub(super) fn synced(mut self, before: &Node, facts: &[Fact]) -> Node {
        let (old, new) = (before.effects(), self.effects());
        let started = |effect: &&Effect| !old.iter().any(|known| known.question() == effect.question());
        let mut syncs = false;
        for effect in new.iter().filter(started) {
            let barrier = |wanted: fn(&Fact) -> bool| {
                facts.iter().any(|fact| wanted(fact) && fact.class() == Class::Barrier)
            };
            // What reaches outside is said here once more, so that the effect is not believed.
            let outside = match effect {
                Effect::Stream { .. } => Some(barrier(|fact| matches!(fact, Fact::RequestAttempt(_)))),
                Effect::Run { .. } => Some(barrier(|fact| matches!(fact, Fact::ToolCall(_)))),
                _ => None,
            };
            syncs |= effect.leaves_process();
            Rule::Durable.demand(outside.is_none_or(|held| held && effect.leaves_process()), effect);
        }
        for fact in facts {
            let announced = matches!(fact, Fact::InboxAdded(_) | Fact::TurnEnd(_));
            Rule::Durable.demand(!announced || fact.class() == Class::Barrier, fact);
            syncs |= announced;
        }
        if syncs {
            self.tail.drain(..self.tail.len().saturating_sub(1));
        }
        self
    }

    pub(super) fn check(&self) {
        let (effects, turn) = (self.effects(), self.machine.state().turn());
        let owes = !effects.is_empty();
        Rule::Owed.demand(turn.is_some() == (owes || self.machine.suspended()), &turn);
        Rule::Owed.demand(!(owes && self.machine.suspended()), &effects);
        Rule::Drain.demand(self.full || self.resting || !self.monitor.waits(), &self.machine);
        if turn.is_none() {
            self.monitor.assert_closed();
        }
    }

    /// Where the turn stands, in the words of the reference.
    pub(super) fn stage(&self) -> &'static str {
        let Some(turn) = self.machine.state().turn() else { return "no turn" };
        if self.machine.suspended() {
            return "suspended";
        }
        if turn.cancelled().is_some() {
            return "cancelled";
        }
        match turn.stage() {
            Stage::Claiming => "claiming",
            Stage::PreStep => "pre-step",
            Stage::Entering { .. } => "entering",
            Stage::Emptied => "emptied",
            Stage::Preparing { .. } => "preparing",
            Stage::Streaming { .. } => "streaming",
            Stage::Recovering { .. } => "recovering",
            Stage::Tools(_) => "tools",
            Stage::StepDone => "step done",
            Stage::Stopping => "stopping",
            Stage::Closing => "closing",
        }
    }
}
