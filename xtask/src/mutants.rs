//! `xtask mutants`: one-line faults in the core, each of which a named check must catch.
//!
//! `xtask/mutants.txt` is the list. Each fault is put into a copy of the core below `target/mutants/`, so that
//! the shipped code holds no switch for it. A fault whose text no longer stands exactly once is an error: the
//! list cannot rot in silence.

mod list;
mod workshop;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use crate::args::Args;
use crate::{Outcome, root};
use list::Mutant;
use workshop::{Fate, Workshop};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// `xtask mutants`: exit 1 if one survives, or is caught by something else than its check.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let only: Option<String> = args.value("--only")?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.value("--jobs")?.unwrap_or(cores).max(1);
    args.finish()?;
    let start = Instant::now();
    let all = list::read(root())?;
    let chosen = all.iter().filter(|mutant| only.as_ref().is_none_or(|name| *name == mutant.name));
    let queue = Mutex::new(chosen.rev().collect::<Vec<_>>());
    let total = queue.lock().map_or(0, |queue| queue.len());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop());
    let alive: Vec<Result<Vec<&Mutant>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(total)).map(|n| scope.spawn(move || work(n, next))).collect();
        let lost = || Err("a worker panicked".into());
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| lost())).collect()
    });
    let alive: Vec<&Mutant> = alive.into_iter().collect::<Result<Vec<_>>>()?.concat();
    println!("{} of {total} mutants caught, {:.0} s", total - alive.len(), start.elapsed().as_secs_f64());
    if total > 0 && alive.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<&str> = alive.iter().map(|mutant| mutant.name.as_str()).collect();
    Err(format!("not caught as they must be: {}", names.join(", ")).into())
}

/// Takes mutants until none is left; gives those that got away.
fn work<'a>(n: usize, next: impl Fn() -> Option<&'a Mutant>) -> Result<Vec<&'a Mutant>> {
    let workshop = Workshop::new(n)?;
    let mut alive = Vec::new();
    while let Some(mutant) = next() {
        let start = Instant::now();
        let fate = workshop.judge(mutant)?;
        let (word, more) = match &fate {
            Fate::Caught => ("caught", String::new()),
            Fate::Alive => ("ALIVE", String::new()),
            Fate::Otherwise(how) => ("OTHERWISE", format!(": {how}")),
        };
        let seconds = start.elapsed().as_secs_f64();
        println!("{word:9} {} by {} ({seconds:.1} s){more}", mutant.name, mutant.check);
        if !matches!(fate, Fate::Caught) {
            alive.push(mutant);
        }
    }
    Ok(alive)
}
