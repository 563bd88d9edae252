//! Some seeds of the simulation with every `cargo test`; `cargo xtask sim` takes more.
#![allow(clippy::unwrap_used, missing_docs)]

use terret_sim::{Run, run, tell};

use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS: u64 = 200;
/// Enough for the rarest of the faults that `cargo xtask mutants` puts into the driver.
const MANY: u64 = 3_000;
const TWICE: u64 = 100;

fn kept(run: &Run) {
    assert!(run.broken.is_empty(), "cargo xtask sim --seed {}\n{}", run.seed, run.broken.join("\n"));
}

#[test]
fn two_hundred_seeds_keep_every_promise() {
    // From where the other test ends, so that one `cargo test` sees more of them.
    (TWICE..TWICE + SEEDS).for_each(|seed| kept(&run(seed)));
}

/// Ends the process with the first seed that fails: whoever asks wants to know of one.
#[test]
#[ignore = "takes minutes; `cargo xtask mutants` runs it"]
fn three_thousand_seeds_keep_every_promise() {
    let next = AtomicU64::new(0);
    let take = || {
        while let seed @ ..MANY = next.fetch_add(1, Ordering::Relaxed) {
            let run = run(seed);
            if !run.broken.is_empty() {
                println!("cargo xtask sim --seed {seed}\n{}", run.broken.join("\n"));
                std::process::exit(1);
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(take))));
}

#[test]
fn a_seed_run_twice_gives_equal_logs_byte_for_byte() {
    let mut lines = 0;
    for seed in 0..TWICE {
        let (once, again) = (run(seed), tell(seed));
        kept(&once);
        assert_eq!(once.logs, again.logs, "cargo xtask sim --seed {seed}");
        assert_eq!(once.reached, again.reached, "cargo xtask sim --seed {seed}");
        lines += once.logs.iter().flatten().filter(|byte| **byte == b'\n').count();
    }
    assert!(lines as u64 > 50 * TWICE, "{lines} lines: nothing much happens in there");
    assert_ne!(run(1).logs, run(2).logs);
}
