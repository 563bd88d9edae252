//! A binary that dies at a chosen step of its disk, as if it were killed there: for tests, behind the feature
//! `crash-points`.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, setrlimit};
use terret::testing::Watched;

use crate::render;

#[cfg(not(debug_assertions))]
compile_error!("`crash-points` is for tests: no release has it");

/// The step to die before, counted from 1; or `count`, to be told how many there were.
pub(crate) const VARIABLE: &str = "TERRET_CRASH_AT";

/// Steps so far.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// The disk of this machine, up to that step.
pub(crate) fn disk() -> Watched {
    let at = std::env::var(VARIABLE).ok().and_then(|number| number.parse::<u64>().ok());
    Watched::new(move |_| {
        if Some(STEPS.fetch_add(1, Ordering::Relaxed) + 1) == at {
            // Nobody wants to see how it looked inside.
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            std::process::abort();
        }
        Ok(())
    })
}

/// Says how many steps there were, if that was asked.
pub(crate) fn report() {
    if std::env::var(VARIABLE).is_ok_and(|asked| asked == "count") {
        render::err(format!("{} steps", STEPS.load(Ordering::Relaxed)));
    }
}
