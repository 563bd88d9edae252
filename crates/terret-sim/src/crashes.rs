//! Crashes counted: the real store on the simulated file system, without a driver, thousands of times a second.
//!
//! A run strikes one operation of one procedure with one fault, goes on for some lives, and judges the log after each
//! from its bytes and from what was told. The number of a run is all there is to know of it.

mod armed;
mod judge;
mod ledger;
mod moves;
mod plan;
mod run;
mod tally;

pub use judge::Broken;
pub use plan::{Fault, Procedure, pairs};
pub use tally::{Count, Tally};

use std::sync::OnceLock;

use crate::limits::CRASH_LOOKS;
use run::Run;

/// What came of one run.
pub struct Crash {
    /// Its number.
    pub seed: u64,
    /// What struck.
    pub fault: Fault,
    /// In what.
    pub procedure: Procedure,
    /// The operation that was struck, from 0.
    pub at: u32,
    /// Promises that were broken.
    pub broken: Vec<Broken>,
}

/// Does one run. Numbers that follow each other are of different pairs of fault and procedure; every pair strikes
/// its operations in turn.
pub fn crash(seed: u64) -> Crash {
    let pairs = pairs();
    let (fault, procedure) = pairs[(seed % pairs.len() as u64) as usize];
    let turn = seed / pairs.len() as u64;
    let first = match fault {
        Fault::Combined => {
            let mut faults = Fault::ALL.to_vec();
            faults.retain(|first| *first != fault && first.applies(procedure));
            faults[(turn % faults.len() as u64) as usize]
        }
        fault => fault,
    };
    let mut at = (turn % u64::from(most_operations(first, procedure))) as u32;
    let begun = || {
        let run = Run::new(seed);
        if fault == Fault::Combined {
            run.armed.then_dies((turn / 8 % 4) as u32);
        }
        run
    };
    let mut run = begun();
    let operations = run.strikes(first, procedure, Some(at));
    if run.armed.struck().is_none() && operations > 0 {
        // This time there were not so many.
        at %= operations;
        run = begun();
        run.strikes(first, procedure, Some(at));
    }
    if run.armed.struck().is_none() {
        run.judge.other("nothing was struck".to_owned());
    }
    run.lives_on(if fault == Fault::Combined { fault } else { first });
    Crash { seed, fault, procedure, at, broken: run.judge.broken }
}

/// How many operations a procedure has that a fault can strike, about.
fn most_operations(fault: Fault, procedure: Procedure) -> u32 {
    static MOST: OnceLock<Vec<u32>> = OnceLock::new();
    let count = |(fault, procedure)| {
        (0..CRASH_LOOKS)
            .map(|seed| Run::new(seed).strikes(fault, procedure, None))
            .max()
            .unwrap_or_default()
            .max(1)
    };
    let most = MOST.get_or_init(|| pairs().into_iter().map(count).collect());
    pairs().iter().position(|pair| *pair == (fault, procedure)).map_or(1, |at| most[at])
}
