//! `xtask sim`, `crashes`, `forks` and `soak`: the real driver and the real store over a fake world, seed by seed.

use std::process::{Command, ExitCode};

use crate::args::Args;
use crate::{Outcome, root};

/// What a look takes: some seconds.
const SEEDS: u64 = 2_000;

/// Crashes of each fault in each procedure that a look takes: some seconds.
const CRASHES: u64 = 500;

/// Crashes that a soak takes, of all kinds together: some minutes.
const SOAK_CRASHES: u64 = 1_000_000;

/// What a soak takes: most of an hour on two cores.
const SOAK_SEEDS: u64 = 1_000_000;

/// What a soak then gives each fuzz target.
const SOAK_MINUTES: u64 = 10;

/// `xtask sim`: seeds from the first on, or one of them with all that happens in it.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let one: Option<u64> = args.value("--seed")?;
    let from: u64 = args.value("--from")?.unwrap_or(0);
    let seeds: u64 = args.value("--seeds")?.unwrap_or(SEEDS);
    args.finish()?;
    match one {
        Some(seed) => start(&["--seed", &seed.to_string()]),
        None => start(&["--seeds", &seeds.to_string(), "--from", &from.to_string()]),
    }
}

/// `xtask crashes`: faults in every procedure of the store, or one of them.
pub(crate) fn crashes(mut args: Args) -> Outcome {
    let one: Option<u64> = args.value("--seed")?;
    let runs: u64 = args.value("--runs")?.unwrap_or(CRASHES);
    args.finish()?;
    match one {
        Some(seed) => start(&["crashes", "--seed", &seed.to_string()]),
        None => start(&["crashes", "--runs", &runs.to_string()]),
    }
}

/// `xtask forks`: a long session forked at every event, or at one.
pub(crate) fn forks(mut args: Args) -> Outcome {
    let at: Option<u64> = args.value("--seq")?;
    args.finish()?;
    match at {
        Some(at) => start(&["forks", "--seq", &at.to_string()]),
        None => start(&["forks"]),
    }
}

/// `xtask soak`: more seeds and crashes than anybody waits for, and more bytes.
pub(crate) fn soak(mut args: Args) -> Outcome {
    let seeds: u64 = args.value("--seeds")?.unwrap_or(SOAK_SEEDS);
    let crashes: u64 = args.value("--crashes")?.unwrap_or(SOAK_CRASHES);
    let minutes = args.value("--minutes")?.unwrap_or(SOAK_MINUTES);
    args.finish()?;
    println!(
        "{crashes} crashes and {seeds} seeds: more than an hour on two cores; the first that fails ends it"
    );
    for words in [["crashes", "--all", &crashes.to_string()].as_slice(), &["--seeds", &seeds.to_string()]] {
        let done = start(words)?;
        if done != ExitCode::SUCCESS {
            return Ok(done);
        }
    }
    crate::fuzz::soak(minutes)
}

fn start(words: &[&str]) -> Outcome {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--profile", "sim", "-p", "terret-sim", "--"]).args(words);
    let status = command.current_dir(root()).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
