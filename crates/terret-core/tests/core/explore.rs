//! Every state under a small budget: all answers to all questions, mail and crashes between any two facts.

use std::collections::HashSet;

use terret_core::chunk::{FinishKind, code};
use terret_core::effect::{Effect, Question};
use terret_core::fact::{CallMode, Cause, EffectClass, Fact, Lane, Outcome};
use terret_core::input::{Answer, Input, Settled};
use terret_core::machine::Machine;
use terret_core::message::{Block, Message};

use crate::harness::{
    admitted, broken, calls, close, enter, failed, finished, prepared, ran, reject, resume, said, send,
    settled,
};
use crate::monitor::Monitor;
use crate::samples::opened;

/// A state, what the log's rules remember of the way there, and what is left of the budget.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node {
    machine: Machine,
    monitor: Monitor,
    left: Budget,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Budget {
    sends: u8,
    injects: u8,
    cancels: u8,
    crashes: u8,
    /// Answers that do not lead straight to the end of the turn.
    detours: u8,
    steps: u32,
}

impl Node {
    /// Everything that may happen next, and what it costs.
    fn inputs(&self) -> Vec<(Input, Budget)> {
        let mut out = Vec::new();
        let mut mail = |left: u8, input: Input, pay: fn(&mut Budget)| {
            if left > 0 {
                let mut budget = self.left;
                pay(&mut budget);
                out.push((input, budget));
            }
        };
        let left = self.left;
        mail(left.sends, send(&format!("m{}", left.sends), Lane::NextTurn, true), |b| b.sends -= 1);
        mail(left.injects, send("s", Lane::NextStep, false), |b| b.injects -= 1);
        mail(left.cancels, Input::Cancel { cause: Cause::User { text: None } }, |b| b.cancels -= 1);
        mail(left.cancels, Input::Cancel { cause: Cause::Parent }, |b| b.cancels -= 1);
        if self.machine.suspended() {
            out.push((close(), left));
            out.push((resume(), left));
        }
        let mut effects = Vec::new();
        self.machine.effects(&mut effects);
        for effect in effects {
            for (answer, detour) in answers(&effect, left.steps) {
                let mut budget = left;
                if detour {
                    let Some(detours) = left.detours.checked_sub(1) else { continue };
                    budget.detours = detours;
                }
                out.push((Input::Answer(effect.question(), answer), budget));
            }
        }
        out
    }

    /// Takes an input; gives the next node and the facts on the way.
    fn step(&self, input: Input, left: Budget) -> (Node, Vec<Fact>) {
        let mut next = Node { left, ..self.clone() };
        let mut out = Vec::new();
        next.machine.handle(input, &mut out);
        let facts: Vec<Fact> = out.into_iter().map(|decided| decided.fact).collect();
        facts.iter().for_each(|fact| next.monitor.fold(fact));
        (next, facts)
    }

    /// The writer dies after the first `written` facts and another one opens.
    fn crash(&self, facts: &[Fact], left: Budget) -> Node {
        let (mut state, mut monitor) = (self.machine.state().clone(), self.monitor.clone());
        for fact in facts {
            state.apply(fact);
            monitor.fold(fact);
        }
        let left = Budget { crashes: left.crashes - 1, ..left };
        let epoch = state.epoch() + 1;
        let node = Node { machine: Machine::new(state), monitor, left };
        node.step(Input::Opened(opened(epoch)), left).0
    }

    fn check(&self) {
        let mut effects = Vec::new();
        self.machine.effects(&mut effects);
        match self.machine.state().turn() {
            Some(_) => assert!(self.machine.suspended() || !effects.is_empty(), "an open turn moves on"),
            None => {
                assert!(effects.is_empty() && !self.machine.suspended());
                self.monitor.assert_closed();
            }
        }
    }
}

/// Every kind of answer to a question; `true`: the turn takes longer by it.
fn answers(effect: &Effect, steps: u32) -> Vec<(Answer, bool)> {
    match effect {
        Effect::PreStep { batch, .. } => {
            let batch: Vec<&str> = batch.iter().map(|id| &*id.0).collect();
            let extended = [&["x"][..], &batch].concat();
            vec![
                (enter(&batch), false),
                (enter(&extended), true),
                (enter(&[]), true),
                (reject(true), true),
                (reject(false), true),
                (broken(code::HOOK), true),
            ]
        }
        Effect::Prepare { .. } => vec![(prepared(), false), (broken(code::HOOK), true)],
        Effect::Stream { turn, step, .. } => {
            let text = |kind| finished(kind, vec![Block::text("x")], &[]);
            let mut out = vec![
                (text(FinishKind::Stop), false),
                (text(FinishKind::MaxTokens), true),
                (text(FinishKind::Refusal), true),
                (said("x"), true),
                (failed(code::SERVER), true),
                (broken(code::RECONSTRUCTION), true),
            ];
            if *step < steps {
                let modes = [CallMode::Parallel, CallMode::Exclusive];
                out.push((calls((*turn, *step), FinishKind::ToolCalls, &modes), false));
                out.push((calls((*turn, *step), FinishKind::ToolCalls, &[CallMode::Parallel; 2]), true));
                out.push((text(FinishKind::Pause), true));
            }
            out
        }
        Effect::Recover { .. } => vec![
            (Answer::GiveUp, false),
            (Answer::Retry { by: "retry".into(), delay_ms: 1 }, true),
            (broken(code::HOOK), true),
        ],
        Effect::Admit { .. } => vec![
            (admitted(EffectClass::Unsafe), false),
            (admitted(EffectClass::Read), true),
            (Answer::Refused(Settled::notice(Outcome::Denied, "no")), true),
        ],
        Effect::Run { call, .. } => {
            let context = vec![Message::user(&*format!("c{call}"), "context")];
            vec![
                (ran(), false),
                (settled(Settled { concludes: true, ..Settled::ok("done") }), true),
                (settled(Settled::notice(Outcome::Error, "failed")), true),
                (Answer::Settled { settled: Settled::ok("ran"), contexts: context }, true),
            ]
        }
        Effect::Stopping { .. } => vec![(Answer::Voted, false), (broken(code::HOOK), true)],
    }
}

/// Visits everything; gives the number of states and edges, and the questions that were asked.
fn visit(left: Budget) -> (usize, usize, HashSet<std::mem::Discriminant<Question>>) {
    let first = Node { machine: Machine::default(), monitor: Monitor::default(), left };
    let (first, _) = first.step(Input::Opened(opened(1)), left);
    let mut seen = HashSet::from([first.clone()]);
    let mut queue = vec![first];
    let (mut edges, mut asked) = (0, HashSet::new());
    while let Some(node) = queue.pop() {
        node.check();
        for (input, left) in node.inputs() {
            edges += 1;
            if let Input::Answer(question, _) = &input {
                asked.insert(std::mem::discriminant(question));
            }
            let (next, facts) = node.step(input, left);
            let torn = if left.crashes > 0 { facts.len() + 1 } else { 0 };
            let crashed = (0..torn).map(|written| node.crash(&facts[..written], left));
            for next in crashed.chain([next]) {
                if seen.insert(next.clone()) {
                    queue.push(next);
                }
            }
        }
    }
    (seen.len(), edges, asked)
}

#[test]
fn every_reachable_state_keeps_the_rules() {
    let wide = Budget { sends: 2, injects: 1, cancels: 1, crashes: 1, detours: 1, steps: 2 };
    let deep = Budget { sends: 1, injects: 1, cancels: 1, crashes: 1, detours: 2, steps: 2 };
    let long = Budget { sends: 1, injects: 0, cancels: 1, crashes: 0, detours: 4, steps: 3 };
    let torn = Budget { sends: 1, injects: 1, cancels: 0, crashes: 2, detours: 2, steps: 2 };
    let mut states = 0;
    for budget in [wide, deep, long, torn] {
        let (seen, edges, asked) = visit(budget);
        assert_eq!(asked.len(), 7, "every question is asked");
        println!("{seen} states, {edges} edges");
        states += seen;
    }
    assert!(states > 1000, "the budget reaches far: {states}");
}
