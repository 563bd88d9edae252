//! The table *stage × answer → facts, next stage*, as it was seen.

use std::collections::{BTreeMap, HashSet};

use terret_core::fact::{EndReason, Fact};

/// Stages in the order of a turn.
const STAGES: [&str; 11] = [
    "no turn",
    "pre-step",
    "preparing",
    "streaming",
    "recovering",
    "tools",
    "stopping",
    "cancelled",
    "suspended",
    "claiming",
    "closing",
];

type Row = (usize, &'static str, String);

/// Rows and where they lead.
#[derive(Default)]
pub(super) struct Table {
    known: HashSet<(&'static str, &'static str, Vec<&'static str>, &'static str)>,
    rows: BTreeMap<Row, Vec<&'static str>>,
}

impl Table {
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn see(
        &mut self,
        stage: &'static str,
        answer: &'static str,
        facts: &[Fact],
        next: &'static str,
    ) {
        let ended = facts.iter().position(|fact| matches!(fact, Fact::TurnEnd(_)));
        // What follows an end is a turn of its own.
        let (facts, next) = match ended {
            Some(at) if stage != "no turn" => (&facts[..=at], "no turn"),
            Some(_) | None => (facts, next),
        };
        let mut words: Vec<&'static str> = facts.iter().map(word).collect();
        words.dedup();
        let seen = (stage, answer, words, next);
        if self.known.contains(&seen) {
            return;
        }
        let order = STAGES.iter().position(|known| *known == stage).expect("a known stage");
        let events = seen.2.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let nexts = self.rows.entry((order, answer, events)).or_default();
        if !nexts.contains(&next) {
            nexts.push(next);
            nexts.sort_unstable();
        }
        self.known.insert(seen);
    }

    /// As Markdown.
    pub(super) fn page(&self) -> String {
        let mut out = String::from("| stage | answer | events | next |\n|---|---|---|---|\n");
        let (mut last_stage, mut last_answer) = (usize::MAX, "");
        for ((stage, answer, events), next) in &self.rows {
            let first = *stage != last_stage;
            let stage_word = if first { STAGES[*stage] } else { "" };
            let answer_word = if first || *answer != last_answer { answer } else { "" };
            let line = format!("| {stage_word} | {answer_word} | {events} | {} |\n", next.join(", "));
            out.push_str(&line.replace("|  |", "| |").replace("|  |", "| |"));
            (last_stage, last_answer) = (*stage, answer);
        }
        out
    }
}

fn word(fact: &Fact) -> &'static str {
    if let Fact::TurnEnd(end) = fact {
        return match end.reason {
            EndReason::Completed => "turn/end completed",
            EndReason::MaxTokens => "turn/end max-tokens",
            EndReason::Blocked { .. } => "turn/end blocked",
            EndReason::Aborted { .. } => "turn/end aborted",
            EndReason::Error { .. } => "turn/end error",
            EndReason::Interrupted => "turn/end interrupted",
        };
    }
    let known = Fact::TABLE.iter().find(|(name, _)| *name == fact.type_name());
    known.map_or("x", |(name, _)| name)
}
