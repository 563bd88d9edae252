//! `xtask bench`: what terret adds to the model and the tools, beside the floor of this machine.
//!
//! Wall times on a shared machine say little, so bounds are on CPU time, on ratios to the floor measured in
//! the same minutes, and on counts. A watcher in the mock server holds a reply back while it reads the
//! client's accounts, so that a figure belongs to one moment of the run.

mod checks;
mod inside;
mod notes;
mod program;
mod run;
mod table;

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::args::{Args, UsageError};
use crate::{Outcome, proc, root, target_dir};
use program::Program;
use run::Runner;
use table::{Row, Table};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A group of measures: its name for `--only`, and what takes them.
type Group = (&'static str, fn(&Bench) -> Result<Vec<Row>>);

const GROUPS: &[Group] = &[
    ("start", checks::start),
    ("loop", checks::steps),
    ("flat", checks::flat),
    ("burst", checks::burst),
    ("machine", inside::machine),
    ("scale", inside::scale),
    ("store", inside::store),
    ("wire", inside::wire),
];

/// What peers cost, for the reader to place the figures. Constants, never compared with.
const PEERS: &str = "\
for comparison, measured elsewhere (another machine of two shared cores, load 1 to 8; CPU of the process tree):
  CPU per tool step   pi 8.8 ms · dsh 50 ms · codex 59 ms · opencode 414 ms
  CPU of the start    codex 210 ms
  CPU per burst chunk codex 27 µs";

/// The subject, the floor, and how often each is measured.
struct Bench {
    runs: usize,
    subject: Program,
    floor: Program,
    runner: Runner,
}

/// `xtask bench`.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let forwarded = args.clone();
    let runs = args.value("--runs")?.unwrap_or(5);
    let only: Option<String> = args.value("--only")?;
    let (no_build, report, self_test) =
        (args.flag("--no-build"), args.flag("--report"), args.flag("--self-test"));
    args.finish()?;
    if runs == 0 {
        return Err(UsageError("`--runs` must be at least 1".to_owned()).into());
    }
    let groups: Vec<&Group> =
        GROUPS.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)).collect();
    if groups.is_empty() {
        return Err(UsageError(format!("no measure `{}`", only.unwrap_or_default())).into());
    }
    let target = target_dir();
    if !no_build {
        return build_and_restart(&target, self_test, forwarded);
    }
    let xtask = std::env::current_exe()?;
    let subject = if self_test {
        Program::SelfTest(xtask.clone())
    } else {
        Program::Terret(target.join("release/terret"))
    };
    let bench =
        Bench { runs, subject, floor: Program::Floor(xtask), runner: Runner::new(target.join("bench"))? };
    bench.subject.check()?;

    let mut table = Table::new(self_test);
    println!("load before: {}; medians of {} runs of each, in turn\n", proc::load(), runs);
    for (name, measure) in groups {
        match measure(&bench) {
            Ok(rows) => table.extend(rows),
            Err(error) => table.extend(vec![Row::broken(name, &error.to_string())]),
        }
    }
    println!("{table}\nload after: {}\n\n{PEERS}", proc::load());
    let failed = table.broken() || (table.missed() && !report);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Builds what is measured *and* this program in release, then lets the release build measure: an unoptimised
/// floor would flatter everything held against it.
fn build_and_restart(target: &Path, self_test: bool, args: Args) -> Outcome {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--release", "-p", "xtask"]).current_dir(root());
    if !self_test {
        build.args(["-p", "terret-cli"]);
    }
    if !build.status()?.success() {
        return Err("the release build failed".into());
    }
    let status = Command::new(target.join("release/xtask"))
        .arg("bench")
        .args(args.into_words())
        .arg("--no-build")
        .current_dir(root())
        .status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
