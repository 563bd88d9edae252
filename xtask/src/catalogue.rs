//! `xtask catalogue`: what is known of models, derived from two published packages into one committed file.
//!
//! The first package says what there is: windows, prices, efforts. The second stands beside it: when a model ends,
//! and what it says of a number where the two differ. Nothing is fetched but by this command, and by hand.

mod decimal;
mod derive;
mod form;
mod packages;

use std::fs;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::{Args, UsageError};
use crate::{Outcome, root};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Where it is committed; the licences of the packages are in the file beside it.
const PATH: &str = "crates/terret/src/model/catalogue/catalogue.json";
const LICENCES: &str = "crates/terret/src/model/catalogue/LICENCES.md";

/// The versions it is made from where the command line names no others.
const PI_AI: &str = "1.6.0";
const LITELLM: &str = "1.110.2";

/// `xtask catalogue`: makes the file anew; with `--check` reads it only, and fails if it is not in its form.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let check = args.flag("--check");
    let pi_ai = args.value("--pi-ai")?.unwrap_or_else(|| PI_AI.to_owned());
    let litellm = args.value("--litellm")?.unwrap_or_else(|| LITELLM.to_owned());
    let date = args.value("--date")?.unwrap_or_else(today);
    args.finish()?;
    if check {
        let text = fs::read_to_string(root().join(PATH)).map_err(|e| format!("{PATH}: {e}"))?;
        let licences = fs::read_to_string(root().join(LICENCES)).map_err(|e| format!("{LICENCES}: {e}"))?;
        let models = form::check(&text, &licences).map_err(|what| format!("{PATH}: {what}"))?;
        println!("{models} models, in their form");
        return Ok(ExitCode::SUCCESS);
    }
    for version in [&pi_ai, &litellm, &date] {
        // They become words of a command.
        if version.is_empty() || !version.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b)) {
            return Err(UsageError(format!("`{version}` is no version and no date")).into());
        }
    }
    let sources = packages::fetch(&pi_ai, &litellm)?;
    let models = derive::models(&sources)?;
    let about = form::About { date, pi_ai, litellm };
    let text = form::write(&about, &models)?;
    fs::write(root().join(PATH), &text)?;
    println!(
        "{PATH}: {} models, {} bytes; read the difference before you commit it",
        models.len(),
        text.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// The day it is, in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    day(since / 86_400)
}

/// A day counted from the first of 1970, in the Gregorian calendar.
fn day(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests;
