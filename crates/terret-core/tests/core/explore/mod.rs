//! Every state under a budget: all answers to all questions, mail, and crashes between any two facts that
//! lose what no barrier covered. Checked at each edge: the rules of the log, and what they cannot see.

mod answers;
mod key;
mod node;
mod table;

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

use terret_core::fact::CallMode::{Exclusive, Parallel};
use terret_core::fact::EffectClass::{Idempotent, Keyed, Read, Unsafe};
use terret_core::fact::{CallMode, Cause, EffectClass};

use crate::rules::Rule;
use node::Node;
use table::Table;

/// What may happen, and how often.
pub(crate) struct Scope {
    name: &'static str,
    left: Left,
    /// Steps that may ask for tools or pause, in each turn.
    rounds: u32,
    /// Attempts a step, those after a crash not counted.
    attempts: u32,
    /// What a model may ask for.
    calls: &'static [&'static [CallMode]],
    causes: fn() -> Vec<Cause>,
    consent: bool,
    /// What running a call twice may mean.
    classes: &'static [EffectClass],
}

/// What is left to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    prompts: u8,
    steers: u8,
    injects: u8,
    /// Something pending replaced.
    edits: u8,
    /// Everything pending let go, or taken off.
    releases: u8,
    cancels: u8,
    /// Deaths of the process, losses of power, full disks.
    crashes: u8,
    /// Answers other than the plainest.
    detours: u8,
}

fn who_cancels() -> Vec<Cause> {
    vec![Cause::User { text: None }, Cause::Parent]
}

fn every_cause() -> Vec<Cause> {
    let (plugin, reason) = ("p".to_owned(), "r".to_owned());
    let mut causes = who_cancels();
    causes.extend([Cause::Hook { plugin, reason }, Cause::Disposed]);
    causes.push(Cause::Budget { which: "steps".into(), limit: 1 });
    causes
}

const ROUNDS: &[&[CallMode]] =
    &[&[Parallel], &[Parallel, Parallel], &[Parallel, Exclusive], &[Exclusive, Parallel]];

/// Visited by every `cargo test`.
const SMALL: Scope = Scope {
    name: "small",
    left: Left {
        prompts: 1,
        steers: 1,
        injects: 0,
        edits: 0,
        releases: 0,
        cancels: 1,
        crashes: 1,
        detours: 2,
    },
    rounds: 2,
    attempts: 2,
    calls: ROUNDS,
    causes: who_cancels,
    consent: false,
    classes: &[Unsafe, Read],
};

/// Visited by `cargo xtask explore --full`: as much as fits into minutes, in six directions.
const FULL: [Scope; 6] = [
    Scope {
        name: "crashing",
        left: Left {
            prompts: 1,
            steers: 1,
            injects: 0,
            edits: 0,
            releases: 1,
            cancels: 1,
            crashes: 2,
            detours: 2,
        },
        rounds: 2,
        attempts: 2,
        calls: &[&[Parallel], &[Parallel, Exclusive]],
        causes: who_cancels,
        consent: false,
        classes: &[Unsafe, Read],
    },
    // No bound on detours: the rounds and the attempts alone end it.
    Scope {
        name: "winding",
        left: Left {
            prompts: 1,
            steers: 0,
            injects: 0,
            edits: 0,
            releases: 0,
            cancels: 1,
            crashes: 0,
            detours: u8::MAX,
        },
        rounds: 1,
        attempts: 2,
        calls: &[&[Parallel, Exclusive, Parallel]],
        causes: who_cancels,
        consent: true,
        classes: &[Unsafe, Read],
    },
    Scope {
        name: "wide",
        left: Left {
            prompts: 2,
            steers: 1,
            injects: 0,
            edits: 0,
            releases: 0,
            cancels: 1,
            crashes: 1,
            detours: 2,
        },
        rounds: 3,
        attempts: 3,
        calls: &[&[Parallel], &[Parallel, Exclusive, Parallel]],
        causes: every_cause,
        consent: true,
        classes: &[Unsafe, Read],
    },
    Scope {
        name: "deep",
        left: Left {
            prompts: 2,
            steers: 1,
            injects: 0,
            edits: 0,
            releases: 0,
            cancels: 1,
            crashes: 1,
            detours: 3,
        },
        rounds: 2,
        attempts: 2,
        calls: &[&[Parallel], &[Parallel, Exclusive, Parallel]],
        causes: every_cause,
        consent: true,
        classes: &[Unsafe, Read],
    },
    // The queue: what is put in, replaced, let go and taken off, around turns that end in every way.
    Scope {
        name: "queueing",
        left: Left {
            prompts: 2,
            steers: 1,
            injects: 1,
            edits: 1,
            releases: 1,
            cancels: 1,
            crashes: 1,
            detours: 1,
        },
        rounds: 1,
        attempts: 1,
        calls: &[&[Parallel]],
        causes: who_cancels,
        consent: false,
        classes: &[Unsafe],
    },
    // Calls that may run again, after one death and after two.
    Scope {
        name: "again",
        left: Left {
            prompts: 1,
            steers: 0,
            injects: 0,
            edits: 0,
            releases: 0,
            cancels: 1,
            crashes: 2,
            detours: 2,
        },
        rounds: 1,
        attempts: 1,
        calls: &[&[Parallel, Parallel], &[Parallel, Exclusive]],
        causes: who_cancels,
        consent: true,
        classes: &[Unsafe, Read, Idempotent, Keyed],
    },
];

/// The identity: keys are hashes already.
#[derive(Default)]
struct Key(u64);

impl Hasher for Key {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u128");
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

type Keys = HashSet<u128, BuildHasherDefault<Key>>;

/// More states than this are a budget that was chosen too wide, not a reason to fill the machine.
const MAX_STATES: usize = 40_000_000;

/// What a visit saw.
struct Seen {
    states: usize,
    edges: usize,
    crashes: usize,
    table: Table,
}

/// Visits everything within the scope.
fn visit(scope: &Scope) -> Seen {
    let first = Node::first(scope.left);
    let mut seen = Keys::default();
    seen.insert(first.key());
    let mut died = Keys::default();
    let mut queue = vec![first];
    let (mut edges, mut crashes, mut table) = (0, 0, Table::default());
    while let Some(node) = queue.pop() {
        assert!(seen.len() < MAX_STATES, "budget {} is not exhausted", scope.name);
        for (name, input, left) in answers::inputs(&node, scope) {
            edges += 1;
            let (next, facts) = node.step(input, left);
            if !matches!(
                name,
                answers::PROMPT
                    | answers::STEER
                    | answers::CONTEXT
                    | answers::EDIT
                    | answers::RELEASE
                    | answers::REMOVE
                    | answers::IDLE
                    | answers::REST
            ) {
                table.see(node.stage(), name, &facts, next.stage());
            }
            let dead = next
                .dead(&facts)
                .filter(|(key, _)| died.insert(*key))
                .flat_map(|(_, cut)| [next.reopened(&cut, left), next.refolded(&cut, left)]);
            let dead: Vec<Node> = dead.collect();
            edges += dead.len();
            crashes += dead.len();
            let next = next.synced(&node, &facts);
            for next in dead.into_iter().chain([next]) {
                next.check();
                if seen.insert(next.key()) {
                    queue.push(next);
                }
            }
        }
    }
    Seen { states: seen.len(), edges, crashes, table }
}

/// The most memory this process had, in MiB.
fn peak_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn run(scope: &Scope) -> Seen {
    let start = Instant::now();
    println!("budget {}: {:?}", scope.name, scope.left);
    println!("  {} tool rounds a turn, of {:?}", scope.rounds, scope.calls);
    println!("  {} attempts a step, {} causes of a cancel", scope.attempts, (scope.causes)().len());
    let seen = visit(scope);
    println!(
        "  {} states, {} edges ({} of them crashes), queue exhausted",
        seen.states, seen.edges, seen.crashes
    );
    println!(
        "  {} rows of the table, {:.1} s, peak {} MiB",
        seen.table.rows(),
        start.elapsed().as_secs_f64(),
        peak_mib()
    );
    seen
}

#[test]
fn every_reachable_state_keeps_the_rules() {
    let seen = run(&SMALL);
    assert!(seen.states > 10_000, "the budget reaches far: {}", seen.states);
    if let Some(path) = std::env::var_os(PAGE) {
        std::fs::write(path, page(&seen.table)).unwrap();
    }
}

#[test]
#[ignore = "takes minutes: cargo xtask explore --full"]
fn every_state_of_the_full_budget() {
    let (mut states, mut edges) = (0, 0);
    for scope in &FULL {
        let seen = run(scope);
        (states, edges) = (states + seen.states, edges + seen.edges);
    }
    println!("{states} states, {edges} edges, {} rules kept", Rule::ALL.len());
    Rule::ALL.iter().for_each(|(name, statement)| println!("  {name}: {statement}"));
}

/// Names the file for the generated block of the reference.
const PAGE: &str = "TERRET_EXPLORE_PAGE";

fn page(table: &Table) -> String {
    let rules = Rule::ALL.iter().map(|(name, statement)| format!("* **{name}**: {statement}\n"));
    format!("{}\n{}", rules.collect::<String>(), table.page())
}
