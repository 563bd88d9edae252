//! Many runs on every core.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seconds between two lines that say how far it is.
const PROGRESS_S: u64 = 10;

/// Does runs until one fails. Gives what each core found, and how many seconds it took; nothing after a failure.
pub(crate) fn on_every_core<T: Default + Send>(
    runs: u64,
    what: &str,
    one: impl Fn(&mut T, u64) -> bool + Sync,
) -> Option<(Vec<T>, f64)> {
    let start = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut mine = T::default();
                while !failed.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= runs {
                        break;
                    }
                    if !one(&mut mine, n) {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
                if let Ok(mut all) = all.lock() {
                    all.push(mine);
                }
            });
        }
        let mut told = start;
        while next.load(Ordering::Relaxed) < runs && !failed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            if told.elapsed().as_secs() >= PROGRESS_S {
                told = Instant::now();
                let done = next.load(Ordering::Relaxed);
                println!("{done} {what}, {:.0} a second", done as f64 / start.elapsed().as_secs_f64());
            }
        }
    });
    if failed.into_inner() {
        return None;
    }
    Some((all.into_inner().unwrap_or_default(), start.elapsed().as_secs_f64()))
}
