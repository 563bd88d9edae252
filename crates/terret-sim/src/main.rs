//! Runs seeds of the simulation, crashes of the store, forks of a long session. `cargo xtask sim`, `crashes` and
//! `forks` start it.

mod many;

use std::process::ExitCode;

use many::on_every_core;
use terret_sim::crashes::{Crash, Tally, crash, pairs};
use terret_sim::forks::Parent;
use terret_sim::{Reached, Run, run, tell};

/// From so many seeds on everything is reached at least once, or the world has become a toy.
const ALL_REACHED: u64 = 5_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.replace('_', "").parse::<u64>().ok();
    let numbers: Option<Vec<u64>> = words
        .iter()
        .filter(|word| !word.starts_with(char::is_alphabetic) && !word.starts_with("--"))
        .map(|word| number(word))
        .collect();
    let plain: Vec<&str> = words.iter().copied().filter(|word| number(word).is_none()).collect();
    match (&*plain, numbers.as_deref()) {
        (["--seed"], Some([seed])) => replay(*seed),
        (["--seeds"], Some([n])) => seeds(0, *n),
        (["--seeds", "--from"], Some([n, from])) => seeds(*from, *n),
        (["crashes", "--seed"], Some([seed])) => judge_crash(&crash(*seed), true),
        (["crashes", "--runs"], Some([n])) => crashes(*n * pairs().len() as u64),
        (["forks"], Some([])) => forks(),
        (["forks", "--seq"], Some([at])) => fork_at(*at),
        (["crashes", "--all"], Some([n])) => crashes(*n),
        _ => {
            eprintln!("usage: cargo xtask sim [--seeds N [--from N]] | --seed N");
            eprintln!("       cargo xtask crashes [--runs N] | --seed N");
            eprintln!("       cargo xtask forks [--seq N]");
            ExitCode::from(2)
        }
    }
}

/// Tells what happens in one seed: the story, the log of each process as it was when the process was gone.
fn replay(seed: u64) -> ExitCode {
    let run = tell(seed);
    for (n, log) in run.logs.iter().enumerate() {
        println!("--- the log when process {} was gone ({} bytes)", n + 1, log.len());
        print!("{}", String::from_utf8_lossy(log));
    }
    println!("--- what happened");
    run.story.iter().for_each(|line| println!("{line}"));
    judge(&run)
}

fn judge(run: &Run) -> ExitCode {
    match run.broken.is_empty() {
        true => ExitCode::SUCCESS,
        false => {
            println!("cargo xtask sim --seed {}", run.seed);
            run.broken.iter().for_each(|what| println!("  {what}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs seeds until one fails; then says what was reached.
fn seeds(from: u64, seeds: u64) -> ExitCode {
    let one = |reached: &mut Reached, n: u64| {
        let run = run(from + n);
        reached.add(&run.reached);
        judge(&run) == ExitCode::SUCCESS
    };
    let Some((all, seconds)) = on_every_core(seeds, "seeds", one) else { return ExitCode::FAILURE };
    let mut reached = Reached::default();
    all.iter().for_each(|mine| reached.add(mine));
    for (words, n) in reached.table() {
        println!("{n:>10}  {words}");
    }
    println!("{seeds} seeds kept every promise, {:.0} a second", seeds as f64 / seconds);
    match reached.missing() {
        missing if missing.is_empty() || seeds < ALL_REACHED => ExitCode::SUCCESS,
        missing => {
            println!("never reached: {}", missing.join("; "));
            ExitCode::FAILURE
        }
    }
}

/// Crashes the store until it breaks a promise; then says how often.
fn crashes(runs: u64) -> ExitCode {
    let one = |tally: &mut Tally, n: u64| {
        let crash = crash(n);
        tally.count(&crash);
        judge_crash(&crash, false) == ExitCode::SUCCESS
    };
    let Some((all, seconds)) = on_every_core(runs, "crashes", one) else { return ExitCode::FAILURE };
    let mut tally = Tally::default();
    all.iter().for_each(|mine| tally.add(mine));
    print!("{}", tally.table());
    println!("{runs} crashes: nothing lost, nothing altered; {:.0} a second", runs as f64 / seconds);
    ExitCode::SUCCESS
}

fn judge_crash(crash: &Crash, tells: bool) -> ExitCode {
    let Crash { seed, fault, procedure, at, broken } = crash;
    if tells || !broken.is_empty() {
        println!("cargo xtask crashes --seed {seed}");
        println!("  {} in {}, at operation {}", fault.words(), procedure.words(), at + 1);
    }
    broken.iter().for_each(|what| println!("  {what:?}"));
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Forks a long session at every one of its events.
fn forks() -> ExitCode {
    let parent = match Parent::live() {
        Ok(parent) => parent,
        Err(e) => return told(Err(e), 0),
    };
    let events = parent.events();
    let one = |_: &mut (), at: u64| told(parent.fork(at), at) == ExitCode::SUCCESS;
    let Some((_, seconds)) = on_every_core(events, "forks", one) else { return ExitCode::FAILURE };
    println!("{events} forks, one at each event, kept every promise; {seconds:.1} s");
    ExitCode::SUCCESS
}

fn fork_at(at: u64) -> ExitCode {
    told(Parent::live().and_then(|parent| parent.fork(at)), at)
}

fn told(done: Result<(), String>, at: u64) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("cargo xtask forks --seq {at}\n  {what}");
            ExitCode::FAILURE
        }
    }
}
