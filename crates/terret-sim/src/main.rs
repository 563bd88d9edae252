//! Runs seeds: `terret-sim --seeds N [--from N]`, or `terret-sim --seed N` to see what happens in one.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terret_sim::{Reached, Run, run, tell};

/// Seconds between two lines that say how far it is.
const PROGRESS_S: u64 = 10;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.replace('_', "").parse::<u64>().ok();
    match *words {
        ["--seed", seed] if number(seed).is_some() => replay(number(seed).unwrap_or_default()),
        ["--seeds", n] if number(n).is_some() => many(0, number(n).unwrap_or_default()),
        ["--seeds", n, "--from", from] if number(n).is_some() && number(from).is_some() => {
            many(number(from).unwrap_or_default(), number(n).unwrap_or_default())
        }
        _ => {
            eprintln!("usage: cargo xtask sim [--seeds N [--from N]] | --seed N");
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

/// Runs seeds on every core until one fails; then says what was reached.
fn many(from: u64, seeds: u64) -> ExitCode {
    let start = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let reached = Mutex::new(Reached::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut mine = Reached::default();
                while !failed.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= seeds {
                        break;
                    }
                    let run = run(from + n);
                    mine.add(&run.reached);
                    if judge(&run) != ExitCode::SUCCESS {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
                if let Ok(mut all) = reached.lock() {
                    all.add(&mine);
                }
            });
        }
        let mut told = start;
        while next.load(Ordering::Relaxed) < seeds && !failed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            if told.elapsed().as_secs() >= PROGRESS_S {
                told = Instant::now();
                let done = next.load(Ordering::Relaxed);
                println!("{done} seeds, {:.0} a second", done as f64 / start.elapsed().as_secs_f64());
            }
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    if failed.into_inner() {
        return ExitCode::FAILURE;
    }
    let reached = reached.into_inner().unwrap_or_default();
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

/// From so many seeds on everything is reached at least once, or the world has become a toy.
const ALL_REACHED: u64 = 5_000;
