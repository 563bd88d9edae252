//! Checks and benchmarks of this repository: `cargo xtask VERB`.
//!
//! Depends on no crate of the workspace, so that it can judge them all from outside.

mod args;
mod bench;
mod catalogue;
mod docs;
mod explore;
mod floor;
mod fuzz;
mod mock;
mod mutants;
mod proc;
mod sim;
mod stats;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use args::{Args, UsageError};

const USAGE: &str = "\
usage: cargo xtask VERB

  tidy  [--root DIR]                    check imports, file sizes, wildcard arms, stray paths, the code
                                        map, the conformance page
  docs  [--check]                       bring the generated parts of docs/ up to date
  catalogue [--check]                   make the catalogue of models anew, by npm and pip; --check only
        [--pi-ai V] [--litellm V]       looks whether the committed one is in its form, without a network
        [--date YYYY-MM-DD]
  explore [--full]                      visit every state of the core under a budget; --full takes minutes
  mutants [--only NAME] [--jobs N]      put known faults into a copy of the core; each must be caught
  sim   [--seeds 2000] [--from 0]       the real driver over a fake world, seed by seed
        [--seed N]                      one seed, telling what happens in it
  crashes [--runs 500] [--seed N]       faults in every procedure of the store, counted; or one of them
  forks [--seq N]                       a session of 2,000 events forked at each of them, or at one
  fuzz  [--target NAME] [--minutes 1]   bytes that nobody thought of, for what reads and opens logs, and answers
        [--replay FILE]                 one input once; NAME: lines, opener, stream
  soak  [--seeds 1000000]               crashes and sim for an hour and more, then fuzz
        [--crashes 1000000] [--minutes 10]
  bench [--runs 5] [--only NAME]        measure terret beside the floor; exit 1 on a missed bound
        [--no-build] [--report]         NAME: start, loop, flat, burst, machine, scale, store, wire
        [--self-test]                   --report never fails on a bound; --self-test puts the floor in
                                        terret's place: proves the measuring, not terret
  mock  [--scenario loop:50] [--port 0] a scripted chat-completions server on loopback
                                        scenarios: text, loop:N, history:N, burst:N
  floor --port P --dir D [--command C]  the cheapest possible agent, for comparison
";

/// What every verb returns: its own exit code, or an error to print.
type Outcome = Result<ExitCode, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let verb = words.next().unwrap_or_default();
    let args = Args::new(words.collect());
    let outcome = match verb.as_str() {
        "tidy" => tidy::verb(args),
        "docs" => docs::verb(args),
        "catalogue" => catalogue::verb(args),
        "explore" => explore::verb(args),
        "mutants" => mutants::verb(args),
        "sim" => sim::verb(args),
        "fuzz" => fuzz::verb(args),
        "crashes" => sim::crashes(args),
        "forks" => sim::forks(args),
        "soak" => sim::soak(args),
        "bench" => bench::verb(args),
        "mock" => mock::verb(args),
        "floor" => floor::verb(args),
        "help" | "-h" | "--help" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(UsageError(format!("unknown verb `{verb}`")).into()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        if error.is::<UsageError>() {
            eprint!("\n{USAGE}");
            return ExitCode::from(2);
        }
        ExitCode::FAILURE
    })
}

/// The root of the workspace.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo builds.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}
