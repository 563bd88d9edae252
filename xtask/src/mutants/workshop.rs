//! A copy of the core in which faults are tried, one after the other, each an incremental build.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;
use super::list::{Check, Mutant, Table};
use crate::{root, target_dir};

const EXPLORE: &str = "explore::every_reachable_state_keeps_the_rules";

/// The test that runs the driver over a fake world, seed by seed, until one fails.
const SIM: &str = "three_thousand_seeds_keep_every_promise";

/// A check that takes longer hangs: it takes seconds.
const CHECK_LIMIT: Duration = Duration::from_secs(180);

/// A fault may make the loop write facts without end: the check dies at this much memory.
const CHECK_MEMORY_KIB: u64 = 4 * 1024 * 1024;

/// What became of a mutant.
pub(super) enum Fate {
    /// Its check failed, as it must.
    Caught,
    /// Its check passed.
    Alive,
    /// Something went wrong, but not its check.
    Otherwise(String),
}

/// One copy.
pub(super) struct Workshop {
    dir: PathBuf,
    table: &'static Table,
}

impl Workshop {
    /// Brings copy number `n` up to date. What did not change keeps its time, and is not built again.
    pub(super) fn new(n: usize, table: &'static Table) -> Result<Workshop> {
        let dir = target_dir().join("mutants").join(format!("{}-{n}", table.tests.0));
        for name in table.crates {
            let old = dir.join(name);
            if old.exists() {
                prune(&root().join(name), &old)?;
            }
            copy(&root().join(name), &old)?;
        }
        put(&dir.join("Cargo.lock"), &fs::read(root().join("Cargo.lock"))?)?;
        let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
        let (before, rest) = manifest.split_once("members = [").ok_or("no members in Cargo.toml")?;
        let (_, after) = rest.split_once(']').ok_or("members do not end in Cargo.toml")?;
        let manifest = format!("{before}members = {:?}{after}", table.crates);
        put(&dir.join("Cargo.toml"), manifest.as_bytes())?;
        let workshop = Workshop { dir, table };
        // What fails without a fault proves nothing with one.
        let sound = workshop.build()?.ok_or("the copy does not build")?;
        if let (false, output) = workshop.run(&sound, &[])? {
            return Err(format!("the tests fail without any fault:\n{output}").into());
        }
        Ok(workshop)
    }

    /// Puts the fault in, runs its check, takes the fault out.
    pub(super) fn judge(&self, mutant: &Mutant) -> Result<Fate> {
        let path = self.dir.join(self.table.sources).join(&mutant.file);
        let sound = fs::read_to_string(&path)?;
        fs::write(&path, sound.replace(&mutant.from, &mutant.to))?;
        let fate = self.check(&mutant.check);
        fs::write(&path, sound)?;
        fate
    }

    fn check(&self, check: &Check) -> Result<Fate> {
        let Some(program) = self.build()? else {
            return Ok(Fate::Otherwise("it does not build".into()));
        };
        let words: &[&str] = match check {
            Check::Rule(_) => &["--exact", EXPLORE, "--nocapture"],
            Check::Test(path) => &["--exact", path, "--nocapture"],
            Check::Sim(_) => &["--ignored", "--exact", SIM, "--nocapture"],
        };
        let (passed, output) = self.run(&program, words)?;
        if output.contains("running 0 tests") {
            return Err(format!("there is no test for `{check}`").into());
        }
        let named = match check {
            Check::Rule(name) => output.contains(&format!("rule `{name}` is broken")),
            Check::Test(_) => output.contains("test result: FAILED"),
            Check::Sim(words) => output.contains(words.as_str()),
        };
        Ok(match (passed, named) {
            (true, _) => Fate::Alive,
            (false, true) => Fate::Caught,
            (false, false) => {
                let said = output.lines().find(|line| line.starts_with("rule `"));
                let said = said.or(output.lines().rfind(|line| line.contains("panicked at")));
                Fate::Otherwise(said.unwrap_or("it hangs, or takes all memory").to_owned())
            }
        })
    }

    /// The test binary; `None`: it does not build.
    fn build(&self) -> Result<Option<PathBuf>> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["test", "--offline", "--quiet", "--no-run", "--message-format=json"])
            .args(["-p", self.table.tests.0, "--test", self.table.tests.1])
            .current_dir(&self.dir)
            .env("CARGO_TARGET_DIR", self.dir.join("target"))
            .envs([("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_DEV_DEBUG", "0")])
            .stderr(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        // The crate may have a program of its own beside its tests.
        let mut tests = messages.filter(|message| message["target"]["name"] == self.table.tests.1);
        let program = tests.find_map(|message| message["executable"].as_str().map(PathBuf::from));
        Ok(program.filter(|_| output.status.success()))
    }

    /// Whether the tests passed, and what they said.
    fn run(&self, program: &Path, words: &[&str]) -> Result<(bool, String)> {
        let log = self.dir.join("output");
        let file = File::create(&log)?;
        let limited = format!("ulimit -v {CHECK_MEMORY_KIB}; exec \"$0\" \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &limited])
            .arg(program)
            .args(words)
            .current_dir(&self.dir)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stderr(file.try_clone()?)
            .stdout(file)
            .spawn()?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if start.elapsed() > CHECK_LIMIT {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        Ok((status.is_some_and(|status| status.success()), output))
    }
}

/// Removes what the original no longer has.
fn prune(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let (here, there) = (entry.path(), from.join(entry.file_name()));
        match (entry.file_type()?.is_dir(), there.is_dir(), there.is_file()) {
            (true, true, _) => prune(&there, &here)?,
            (true, false, _) => fs::remove_dir_all(here)?,
            (false, _, false) => fs::remove_file(here)?,
            (false, _, true) => {}
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (here, there) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&here, &there)?;
        } else {
            put(&there, &fs::read(here)?)?;
        }
    }
    Ok(())
}

/// Writes only what differs.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    Ok(fs::write(path, bytes)?)
}
