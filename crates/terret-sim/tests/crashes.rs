//! Crashes of the store with every `cargo test`; `cargo xtask crashes` takes more.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;

use terret_sim::crashes::{Count, Fault, Tally, crash, pairs};

/// Runs of each fault in each procedure.
const RUNS: u64 = 200;

#[test]
fn whatever_strikes_wherever_nothing_that_was_told_is_lost_or_altered() {
    let pairs = pairs();
    let all = RUNS * pairs.len() as u64;
    let half = |odd: u64| {
        move || {
            let (mut tally, mut struck) = (Tally::default(), BTreeSet::new());
            for seed in (0..all).filter(|seed| seed % 2 == odd) {
                let crash = crash(seed);
                tally.count(&crash);
                struck.insert((crash.fault as u8, crash.procedure as u8, crash.at));
                assert!(crash.broken.is_empty(), "cargo xtask crashes --seed {seed}\n{:#?}", crash.broken);
            }
            (tally, struck)
        }
    };
    let (mut tally, mut struck) = (Tally::default(), BTreeSet::new());
    std::thread::scope(|scope| {
        for half in [scope.spawn(half(0)), scope.spawn(half(1))] {
            let (one, more) = half.join().unwrap();
            tally.add(&one);
            struck.extend(more);
        }
    });
    for (fault, to, count) in tally.rows() {
        assert_eq!(count, Count { runs: RUNS, ..Count::default() }, "{fault:?} in {to:?}");
        if fault == Fault::Combined {
            // Each of its faults has a row of its own.
            continue;
        }
        let at = |n| struck.contains(&(fault as u8, to as u8, n));
        let most = (0..).take_while(|n| at(*n)).count();
        assert!(
            most > 0 && (0..400).filter(|n| at(*n)).count() == most,
            "{fault:?} in {to:?}: some are passed over"
        );
    }
}
