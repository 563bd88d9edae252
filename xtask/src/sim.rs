//! `xtask sim` and `xtask soak`: the real driver over a fake world, seed by seed.

use std::process::{Command, ExitCode};

use crate::args::Args;
use crate::{Outcome, root};

/// What a look takes: some seconds.
const SEEDS: u64 = 2_000;

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

/// `xtask soak`: more seeds than anybody waits for, and more bytes.
pub(crate) fn soak(mut args: Args) -> Outcome {
    let seeds: u64 = args.value("--seeds")?.unwrap_or(SOAK_SEEDS);
    let minutes = args.value("--minutes")?.unwrap_or(SOAK_MINUTES);
    args.finish()?;
    println!("{seeds} seeds: about an hour for a million on two cores; the first that fails ends it");
    let seeded = start(&["--seeds", &seeds.to_string()])?;
    if seeded != ExitCode::SUCCESS {
        return Ok(seeded);
    }
    crate::fuzz::soak(minutes)
}

fn start(words: &[&str]) -> Outcome {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--profile", "sim", "-p", "terret-sim", "--"]).args(words);
    let status = command.current_dir(root()).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
