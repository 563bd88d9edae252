//! What is held at most while something runs.

use peak_alloc::PeakAlloc;
use terret::core::limits::MAX_LINE_BYTES;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// A line, and twice what it was while its buffer grows; and a line that is looked at.
const LINES: usize = 4;
/// What an input may cost beside: copies of it, events of it, some of them at once.
const TIMES: usize = 200;
/// What costs the same for every input.
const FIXED_BYTES: usize = 4 << 20;

/// Runs it on these bytes and demands that it held little.
// The reader of streams has tighter bounds of its own.
#[allow(dead_code)]
pub(crate) fn bounded(check: fn(&[u8]), data: &[u8]) {
    let most = LINES * MAX_LINE_BYTES + TIMES * data.len() + FIXED_BYTES;
    within(most, || check(data));
}

/// Runs it and demands that it held no more bytes at once than this.
pub(crate) fn within<T>(most: usize, run: impl FnOnce() -> T) -> T {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let result = run();
    let held = HEAP.peak_usage().saturating_sub(before);
    assert!(held <= most, "{held} bytes were held at once, {most} at most");
    result
}
