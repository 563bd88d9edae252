//! The bounds, and what is measured for each.

use super::program::Program;
use super::run::Observed;
use super::table::{Bound, Row};
use super::{Bench, Result};
use crate::mock::{Scenario, gaps_ms};
use crate::stats::median;

/// From the birth of `terret run` to its first request.
const MAX_START_CPU_MS: f64 = 15.0;

/// The prompt, its claim and the attempt are made durable before a request is sent; nothing else may be.
const MAX_START_SYNCS: f64 = 4.0;

/// Steps of the run that measures what a step costs.
const STEPS: u32 = 50;

/// A step's gap beside the floor's.
const MAX_GAP_RATIO: f64 = 1.5;

/// A step's own CPU beside the floor's.
const MAX_STEP_CPU_RATIO: f64 = 2.0;

/// Resident memory over those steps.
const MAX_RSS_MB: f64 = 20.0;

/// Steps of the run that shows whether the cost grows with the history.
const LONG_STEPS: u32 = 300;

/// Late gaps beside early ones.
const MAX_GROWTH_RATIO: f64 = 1.2;

/// Gaps taken around each of the two places.
const GROWTH_WINDOW: usize = 20;

/// Text deltas in one answer.
const BURST_DELTAS: u32 = 100_000;

/// From the first byte of the burst to the exit.
const MAX_BURST_CPU_MS: f64 = 500.0;

/// What happens before the first request.
pub(super) fn start(bench: &Bench) -> Result<Vec<Row>> {
    bench.runner.observe(&bench.subject, Scenario::Text)?;
    let (mut http, mut https) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs {
        http.push(ms(bench.runner.observe(&bench.subject, Scenario::Text)?.start_cpu_ns));
        https.push(ms(bench.runner.observe_hello(&bench.subject)?));
    }
    let syncs = match bench.runner.count_syncs(&bench.subject)? {
        Some(count) => {
            Row::at_most("start: syncs before it", "", count as f64, Bound::Absolute(MAX_START_SYNCS))
        }
        None => Row::skipped("start: syncs before it", "not measured (no strace that works)"),
    };
    let bound = || Bound::Absolute(MAX_START_CPU_MS);
    Ok(vec![
        Row::at_most("start: CPU to the first request, http", "ms", middle(&http)?, bound()),
        Row::at_most("start: CPU to the TLS ClientHello, https *", "ms", middle(&https)?, bound()),
        syncs,
    ])
}

/// What one tool step costs.
pub(super) fn steps(bench: &Bench) -> Result<Vec<Row>> {
    let scenario = Scenario::Loop(STEPS);
    let pairs = alternate(bench, scenario)?;
    let gap = |run: &Observed| median(&gaps_ms(&run.records));
    let own_cpu =
        |run: &Observed| Some(ms(run.last_cpu_ns.saturating_sub(run.start_cpu_ns)) / f64::from(STEPS));
    let rss = |run: &Observed| Some(run.peak_rss_kib as f64 / 1024.0);
    for run in pairs.floor.iter().chain(&pairs.subject) {
        expect_requests(run, STEPS)?;
    }
    Ok(vec![
        pairs.row("step: gap p50 (loop:50)", "ms", gap, Some(MAX_GAP_RATIO))?,
        pairs.row("step: own CPU", "ms", own_cpu, Some(MAX_STEP_CPU_RATIO))?,
        Row::at_most("step: peak memory", "MB", pairs.middle_of_subject(rss)?, Bound::Absolute(MAX_RSS_MB))
            .beside(pairs.middle_of_floor(rss)?),
    ])
}

/// Whether a step costs the same late in a session as early.
pub(super) fn flat(bench: &Bench) -> Result<Vec<Row>> {
    let pairs = alternate(bench, Scenario::Loop(LONG_STEPS))?;
    for run in pairs.floor.iter().chain(&pairs.subject) {
        expect_requests(run, LONG_STEPS)?;
    }
    let around = |run: &Observed, step: usize| {
        let gaps = gaps_ms(&run.records);
        let from = step - GROWTH_WINDOW / 2;
        gaps.get(from..from + GROWTH_WINDOW).and_then(median)
    };
    let growth = |run: &Observed| Some(around(run, 280)? / around(run, 20)?);
    Ok(vec![
        pairs.row("flat: gaps around step 20 (loop:300)", "ms", |run| around(run, 20), None)?,
        pairs.row("flat: gaps around step 280", "ms", |run| around(run, 280), None)?,
        Row::at_most(
            "flat: late gaps / early gaps",
            "",
            pairs.middle_of_subject(growth)?,
            Bound::Absolute(MAX_GROWTH_RATIO),
        )
        .beside(pairs.middle_of_floor(growth)?),
    ])
}

/// What a hundred thousand deltas cost.
pub(super) fn burst(bench: &Bench) -> Result<Vec<Row>> {
    let pairs = alternate(bench, Scenario::Burst(BURST_DELTAS))?;
    let cpu = |run: &Observed| Some(ms(run.whole_cpu_ns.saturating_sub(run.start_cpu_ns)));
    let missing = |run: &Observed| Some(f64::from(BURST_DELTAS) - run.logged_deltas as f64);
    let lost = pairs.subject.iter().filter_map(missing).map(f64::abs).fold(0.0, f64::max);
    Ok(vec![
        Row::at_most(
            "burst: CPU of 100,000 deltas (10 ms ticks)",
            "ms",
            pairs.middle_of_subject(cpu)?,
            Bound::Absolute(MAX_BURST_CPU_MS),
        )
        .beside(pairs.middle_of_floor(cpu)?),
        Row::at_most("burst: deltas sent but not in the log", "", lost, Bound::Absolute(0.0)),
    ])
}

/// Runs of both programs that happened in turn, so that a noisy minute hits both.
struct Pairs {
    floor: Vec<Observed>,
    subject: Vec<Observed>,
}

fn alternate(bench: &Bench, scenario: Scenario) -> Result<Pairs> {
    let observe = |program: &Program| bench.runner.observe(program, scenario);
    observe(&bench.floor)?;
    observe(&bench.subject)?;
    let mut pairs = Pairs { floor: Vec::new(), subject: Vec::new() };
    for _ in 0..bench.runs {
        pairs.floor.push(observe(&bench.floor)?);
        pairs.subject.push(observe(&bench.subject)?);
    }
    Ok(pairs)
}

impl Pairs {
    fn row(
        &self,
        what: &str,
        unit: &'static str,
        measure: impl Fn(&Observed) -> Option<f64>,
        max_ratio: Option<f64>,
    ) -> Result<Row> {
        let floor = self.middle_of_floor(&measure)?;
        let subject = self.middle_of_subject(&measure)?;
        Ok(match max_ratio {
            Some(max) => Row::at_most(what, unit, subject, Bound::TimesFloor(max, floor)),
            None => Row::shown(what, unit, subject).beside(floor),
        })
    }

    fn middle_of_floor(&self, measure: impl Fn(&Observed) -> Option<f64>) -> Result<f64> {
        middle(&self.floor.iter().filter_map(measure).collect::<Vec<_>>())
    }

    fn middle_of_subject(&self, measure: impl Fn(&Observed) -> Option<f64>) -> Result<f64> {
        middle(&self.subject.iter().filter_map(measure).collect::<Vec<_>>())
    }
}

/// A run that skipped or repeated steps must not pass for a fast or slow one.
fn expect_requests(run: &Observed, steps: u32) -> Result<()> {
    let (seen, wanted) = (run.records.len(), steps as usize + 1);
    if seen == wanted { Ok(()) } else { Err(format!("{seen} requests came, {wanted} were scripted").into()) }
}

fn middle(sample: &[f64]) -> Result<f64> {
    median(sample).ok_or_else(|| "no run gave this figure".into())
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
