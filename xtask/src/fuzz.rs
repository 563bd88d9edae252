//! `xtask fuzz`: bytes that nobody thought of, for what reads and opens logs and for what reads answers of models.
//!
//! The targets are in `fuzz/`, a workspace of its own. Their bodies are in `crates/terret/tests/fuzz/`, where
//! `cargo test` runs them over the committed corpus.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::args::Args;
use crate::{Outcome, root, target_dir};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The targets: the line reader, the opener, and the reader of models' answers.
const TARGETS: [&str; 3] = ["lines", "opener", "stream"];

/// Where a target's inputs begin, besides its corpus: recorded answers.
const RECORDED: [(&str, &str); 1] = [("stream", "crates/terret/tests/wire")];

/// Longest input of a target, in bytes; for the others the longest of their corpus. One recorded answer is a line of
/// 300 kB that is all the same.
const MAX_BYTES: [(&str, u32); 1] = [("stream", 16 << 10)];

/// Minutes for each target: a look.
const MINUTES: u64 = 1;

/// What libFuzzer wants to see of each branch and comparison. All of it is in the stable compiler; memory errors,
/// for which one needs another, cannot be written in safe code.
const RUSTFLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Ccodegen-units=16 --cfg fuzzing";

/// The whole process, the fuzzer's own notes included. What one input may cost is counted inside, to the byte.
const RSS_LIMIT_MB: u64 = 512;

/// One input takes some milliseconds. This is counted on the wall, and a busy machine may leave the fuzzer waiting.
const INPUT_SECONDS: u64 = 120;

/// How much of what a failed run said is shown.
const SHOWN_LINES: usize = 40;

/// `xtask fuzz`: one target or all, for some minutes each; or one input once.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let target: Option<String> = args.value("--target")?;
    let minutes = args.value("--minutes")?.unwrap_or(MINUTES);
    let replay: Option<PathBuf> = args.value("--replay")?;
    args.finish()?;
    if let Some(name) = target.as_deref().filter(|name| !TARGETS.contains(name)) {
        return Err(format!("there is no target `{name}`: take {}", TARGETS.join(" or ")).into());
    }
    match (replay, target) {
        (Some(input), Some(target)) => replay_one(&target, &input),
        (Some(_), None) => Err("`--replay FILE` needs the `--target` that found it".into()),
        (None, Some(target)) => run(&[&target], minutes),
        (None, None) => run(&TARGETS, minutes),
    }
}

/// Runs all targets, for a soak.
pub(crate) fn soak(minutes: u64) -> Outcome {
    run(&TARGETS, minutes)
}

fn run(targets: &[&str], minutes: u64) -> Outcome {
    let built = build()?;
    for target in targets {
        fuzz(&built, target, minutes)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the targets; gives the directory they are in.
fn build() -> Result<PathBuf> {
    let host = host()?;
    let target_dir = target_dir().join("fuzz");
    let status = Command::new(cargo())
        .args(["build", "--quiet", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml"])
        // Named, so that the flags hold for the targets alone and not for what runs while they are built.
        .args(["--target", &host, "--target-dir"])
        .arg(&target_dir)
        .env("RUSTFLAGS", RUSTFLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err("the fuzz targets do not build; they need a C++ compiler (`c++`)".into());
    }
    Ok(target_dir.join(host).join("release"))
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = String::from_utf8(Command::new(rustc).arg("-vV").current_dir(root()).output()?.stdout)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("`rustc -vV` names no host")?.to_owned())
}

/// Runs one target. What it finds of interest is kept between runs, below the target directory.
fn fuzz(built: &Path, target: &str, minutes: u64) -> Result<()> {
    let place = target_dir().join("fuzz");
    let (grown, found) = (place.join("corpus").join(target), place.join("found").join(target));
    fs::create_dir_all(&grown)?;
    fs::create_dir_all(&found)?;
    let log = place.join(format!("{target}.log"));
    println!("{target}: {minutes} min, {}", log.display());
    let status = Command::new(built.join(target))
        .args([&grown, &root().join("fuzz/corpus").join(target)])
        .args(RECORDED.iter().filter(|(of, _)| *of == target).map(|(_, dir)| root().join(dir)))
        .args(MAX_BYTES.iter().filter(|(of, _)| *of == target).map(|(_, bytes)| format!("-max_len={bytes}")))
        .args(["-print_final_stats=1", &format!("-max_total_time={}", minutes * 60)])
        .args([format!("-rss_limit_mb={RSS_LIMIT_MB}"), format!("-timeout={INPUT_SECONDS}")])
        .arg(format!("-artifact_prefix={}/", found.display()))
        .stdout(fs::File::create(place.join(format!("{target}.out")))?)
        .stderr(fs::File::create(&log)?)
        .status()?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if status.success() {
        println!("{target}: {}", summary(&said)?);
        return Ok(());
    }
    let lines: Vec<&str> = said.lines().collect();
    eprintln!("{}", lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n"));
    let input = said.lines().rev().find_map(|line| line.split("Test unit written to ").nth(1));
    Err(match input {
        Some(input) => format!(
            "`{target}` found something. See it again: cargo xtask fuzz --target {target} --replay {input}\n\
             Once it is mended, `cp {input} fuzz/corpus/{target}/NAME` makes it a test of `cargo test`"
        ),
        None => format!("`{target}` ended with {status}; all it said is in {}", log.display()),
    }
    .into())
}

/// Executions, coverage, memory, from what libFuzzer says at its end.
fn summary(said: &str) -> Result<String> {
    let number = |name: &str| {
        let value = said.lines().rev().find_map(|line| line.split(name).nth(1));
        let value = value.and_then(|rest| rest.split_whitespace().next());
        value.map(str::to_owned).ok_or_else(|| format!("the fuzzer did not say `{name}`"))
    };
    Ok(format!(
        "{} runs, {} branches seen, {} inputs kept, {} MB at most",
        number("stat::number_of_executed_units:")?,
        number(" cov: ")?,
        number(" corp: ")?,
        number("stat::peak_rss_mb:")?,
    ))
}

fn replay_one(target: &str, input: &Path) -> Outcome {
    let status = Command::new(build()?.join(target)).arg(input).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
