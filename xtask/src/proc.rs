//! What the kernel accounts to a process, read from `/proc`.
//!
//! `schedstat` counts nanoseconds on a core for each living thread. A *running* thread's figure may be one
//! scheduler tick (4 ms) old, so figures are read once every thread sleeps. Threads that ended are only in
//! `stat`, in ticks of 10 ms rounded down; being a lower bound too, the larger of both is the better figure.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// `/proc/PID/stat` counts in USER_HZ, which is 100 on every Linux terret builds for.
const TICK_NS: u64 = 10_000_000;

/// How long to wait for all threads to sleep; a process that spins is read as it is then.
const SETTLE_LIMIT: Duration = Duration::from_millis(500);

/// CPU time of a process since its birth, without its children, once all its threads sleep.
pub(crate) fn settled_cpu_ns(pid: u32) -> io::Result<u64> {
    let start = Instant::now();
    let mut quiet = 0;
    // Two looks: a thread that has just been woken may be between two states at the first.
    while quiet < 2 && start.elapsed() < SETTLE_LIMIT {
        std::thread::sleep(Duration::from_millis(1));
        quiet = if any_thread_runs(pid)? { 0 } else { quiet + 1 };
    }
    Ok(cpu_ns(pid)?.max(whole_cpu_ns(pid)?))
}

/// CPU time of this very process, which cannot watch itself sleep: a short nap brings its account up to date.
pub(crate) fn own_cpu_ns() -> io::Result<u64> {
    std::thread::sleep(Duration::from_millis(1));
    cpu_ns(std::process::id())
}

/// CPU time of the living threads, to the nanosecond.
fn cpu_ns(pid: u32) -> io::Result<u64> {
    threads(pid, "schedstat", |text| text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()))
        .map(|each| each.into_iter().sum())
}

/// CPU time of all threads, living and ended, in whole ticks. Works on a process that ended but was not reaped.
pub(crate) fn whole_cpu_ns(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the command's name in parentheses: state is field 3; user and system time are fields 14 and 15.
    let fields: Vec<&str> = after_name(&text).split(' ').collect();
    let ticks = |n: usize| fields.get(n - 3).and_then(|field| field.parse::<u64>().ok());
    match (ticks(14), ticks(15)) {
        (Some(user), Some(system)) => Ok((user + system) * TICK_NS),
        _ => Err(io::Error::other("`/proc/PID/stat` has no CPU times")),
    }
}

/// The most memory the process ever had resident.
pub(crate) fn peak_rss_kib(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .ok_or_else(|| io::Error::other("`/proc/PID/status` has no VmHWM"))
}

/// The machine's load averages, for the reader of a table to judge it by.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn any_thread_runs(pid: u32) -> io::Result<bool> {
    let states = threads(pid, "stat", |text| after_name(text).chars().next())?;
    Ok(states.contains(&'R'))
}

/// Reads one file of each thread. A thread may end while we look: it is left out, the process may not.
fn threads<T>(pid: u32, file: &str, parse: impl Fn(&str) -> Option<T>) -> io::Result<Vec<T>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Ok(text) = fs::read_to_string(thread?.path().join(file)) {
            found.extend(parse(text.trim_end()));
        }
    }
    Ok(found)
}

/// The command's name may hold spaces and parentheses; fields are only certain after its last one.
fn after_name(stat: &str) -> &str {
    stat.rsplit_once(") ").map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::{cpu_ns, own_cpu_ns, peak_rss_kib, settled_cpu_ns, whole_cpu_ns};

    #[test]
    fn this_process_is_accounted() {
        let start = std::time::Instant::now();
        let mut spin = 0_u64;
        while start.elapsed().as_millis() < 40 {
            spin = std::hint::black_box(spin + 1);
        }
        let pid = std::process::id();
        // Far less than was spun: a shared machine may give us a small part of a core.
        assert!(own_cpu_ns().expect("own /proc") > 2_000_000);
        assert!(settled_cpu_ns(pid).expect("own /proc") > 2_000_000);
        assert!(cpu_ns(pid).expect("own /proc") > 0);
        assert!(whole_cpu_ns(pid).is_ok());
        assert!(peak_rss_kib(pid).expect("own /proc") > 100);
    }
}
