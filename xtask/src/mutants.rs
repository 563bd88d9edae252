//! `xtask mutants`: one-line faults in the core and in the driver, each of which a named check must catch.
//!
//! `xtask/mutants.txt` and `xtask/mutants-driver.txt` are the lists. Each fault is put into a copy below
//! `target/mutants/`, so that the shipped code holds no switch for it. A fault whose text no longer stands exactly once is an error: the
//! list cannot rot in silence.

mod list;
mod workshop;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use crate::args::Args;
use crate::{Outcome, root};
use list::{Mutant, TABLES, Table};
use workshop::{Fate, Workshop};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// `xtask mutants`: exit 1 if one survives, or is caught by something else than its check.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let only: Option<String> = args.value("--only")?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.value("--jobs")?.unwrap_or(cores).max(1);
    args.finish()?;
    let start = Instant::now();
    let (mut total, mut alive) = (0, Vec::new());
    for table in &TABLES {
        let mut chosen = list::read(root(), table)?;
        chosen.retain(|mutant| only.as_ref().is_none_or(|name| *name == mutant.name));
        total += chosen.len();
        alive.extend(judge(table, chosen, jobs)?);
    }
    println!("{} of {total} mutants caught, {:.0} s", total - alive.len(), start.elapsed().as_secs_f64());
    if total > 0 && alive.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("not caught as they must be: {}", alive.join(", ")).into())
}

/// Judges the faults of one table; gives the names of those that got away.
fn judge(table: &'static Table, mutants: Vec<Mutant>, jobs: usize) -> Result<Vec<String>> {
    let jobs = jobs.min(mutants.len());
    let queue = Mutex::new(mutants.into_iter().rev().collect::<Vec<_>>());
    let next = &|| queue.lock().ok().and_then(|mut queue| queue.pop());
    let alive: Vec<Result<Vec<String>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|n| scope.spawn(move || work(n, table, next))).collect();
        let lost = || Err("a worker panicked".into());
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| lost())).collect()
    });
    Ok(alive.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// Takes mutants until none is left; gives those that got away.
fn work(n: usize, table: &'static Table, next: impl Fn() -> Option<Mutant>) -> Result<Vec<String>> {
    let workshop = Workshop::new(n, table)?;
    let mut alive = Vec::new();
    while let Some(mutant) = next() {
        let start = Instant::now();
        let fate = workshop.judge(&mutant)?;
        let (word, more) = match &fate {
            Fate::Caught => ("caught", String::new()),
            Fate::Alive => ("ALIVE", String::new()),
            Fate::Otherwise(how) => ("OTHERWISE", format!(": {how}")),
        };
        let seconds = start.elapsed().as_secs_f64();
        println!("{word:9} {} by {} ({seconds:.1} s){more}", mutant.name, mutant.check);
        if !matches!(fate, Fate::Caught) {
            alive.push(mutant.name);
        }
    }
    Ok(alive)
}
