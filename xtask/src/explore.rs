//! `xtask explore`: every reachable state of the core under a budget.

use std::fs;
use std::process::{Command, ExitCode};

use crate::args::Args;
use crate::{Outcome, root, target_dir};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Where a test writes the block of the reference page.
const PAGE: &str = "TERRET_EXPLORE_PAGE";

/// `xtask explore`: the small budget, which is a test too, or the full one.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let full = args.flag("--full");
    args.finish()?;
    let status = if full {
        let words = ["--release", "explore::every_state_of_the_full_budget", "--ignored"];
        test(&words[..1], &words[1..]).status()?
    } else {
        test(&[], &["explore::every_reachable_state_keeps_the_rules"]).status()?
    };
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The rules, and the table as the small budget saw it, for the reference page.
pub(crate) fn page() -> Result<String> {
    let page = target_dir().join("explore.md");
    let output = test(&[], &["explore::every_reachable_state_keeps_the_rules"]).env(PAGE, &page).output()?;
    if !output.status.success() {
        return Err("the exploration failed: `cargo xtask explore` says where".into());
    }
    Ok(fs::read_to_string(page)?)
}

fn test(build: &[&str], run: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--quiet", "-p", "terret-core", "--test", "core"]).args(build);
    command.args(["--", "--exact", "--nocapture"]).args(run).current_dir(root());
    command
}
