//! Runs counted by what struck in what.

use std::collections::BTreeMap;

use super::{Broken, Crash, Fault, Procedure, pairs};

/// How many runs there were of one pair, and what broke in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Runs.
    pub runs: u64,
    /// With something lost.
    pub lost: u64,
    /// With something altered.
    pub altered: u64,
    /// With a second opening that was not like the first.
    pub not_idempotent: u64,
    /// With anything else broken.
    pub other: u64,
}

/// The counts of every pair.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<usize, Count>);

impl Tally {
    /// Adds one run.
    pub fn count(&mut self, crash: &Crash) {
        let all = pairs();
        let Some(at) = all.iter().position(|pair| *pair == (crash.fault, crash.procedure)) else { return };
        let count = self.0.entry(at).or_default();
        let any = |is: fn(&Broken) -> bool| u64::from(crash.broken.iter().any(is));
        count.runs += 1;
        count.lost += any(|broken| matches!(broken, Broken::Lost(_)));
        count.altered += any(|broken| matches!(broken, Broken::Altered(_)));
        count.not_idempotent += any(|broken| matches!(broken, Broken::NotIdempotent(_)));
        count.other += any(|broken| matches!(broken, Broken::Other(_)));
    }

    /// Adds other runs.
    pub fn add(&mut self, other: &Tally) {
        for (at, more) in &other.0 {
            let count = self.0.entry(*at).or_default();
            count.runs += more.runs;
            count.lost += more.lost;
            count.altered += more.altered;
            count.not_idempotent += more.not_idempotent;
            count.other += more.other;
        }
    }

    /// Each pair and its count.
    pub fn rows(&self) -> impl Iterator<Item = (Fault, Procedure, Count)> {
        let count = |at: &usize| self.0.get(at).copied().unwrap_or_default();
        pairs().into_iter().enumerate().map(move |(at, (fault, to))| (fault, to, count(&at)))
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut table = format!(
            "{:<26} {:<12} {:>9} {:>6} {:>8} {:>15} {:>6}\n",
            "fault", "in", "runs", "lost", "altered", "not idempotent", "other"
        );
        for (fault, to, count) in self.rows() {
            let Count { runs, lost, altered, not_idempotent, other } = count;
            let (fault, to) = (fault.words(), to.words());
            table += &format!(
                "{fault:<26} {to:<12} {runs:>9} {lost:>6} {altered:>8} {not_idempotent:>15} {other:>6}\n"
            );
        }
        table
    }
}
