//! Panics: those the world throws on purpose are kept quiet, all others are a finding.

use std::cell::{Cell, RefCell};
use std::sync::Once;

thread_local! {
    static SIMULATING: Cell<bool> = const { Cell::new(false) };
    static UNPLANNED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// With what a planned panic begins.
const PLANNED: &str = "planned: ";

/// Breaks down on purpose.
pub(crate) fn panic_as_planned() -> ! {
    panic!("{PLANNED}this broke down")
}

/// Runs this with planned panics kept quiet; gives the places of the others.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match SIMULATING.get() {
            true => note(info),
            false => before(info),
        }));
    });
    SIMULATING.set(true);
    UNPLANNED.take();
    let done = work();
    SIMULATING.set(false);
    (done, UNPLANNED.take())
}

fn note(info: &std::panic::PanicHookInfo<'_>) {
    let words = info.payload_as_str().unwrap_or_default();
    // A rule of the log that is found broken is reported by who looked.
    if !words.starts_with(PLANNED) && !words.starts_with("rule `") {
        UNPLANNED.with_borrow_mut(|all| all.push(info.to_string()));
    }
}
