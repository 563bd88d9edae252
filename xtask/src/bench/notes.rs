//! What the server's thread reads of the client while it holds a reply back.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::mock::Arrival;
use crate::proc;

/// What the server's thread read of the client at the two moments that count.
#[derive(Default)]
pub(super) struct Notes {
    inner: Mutex<Noted>,
    pid_known: Condvar,
}

/// The figures so far.
#[derive(Clone, Default)]
pub(super) struct Noted {
    pid: Option<u32>,
    pub(super) start_cpu_ns: Option<u64>,
    pub(super) last_cpu_ns: Option<u64>,
    pub(super) peak_rss_kib: u64,
}

impl Notes {
    pub(super) fn lock(&self) -> MutexGuard<'_, Noted> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_pid(&self, pid: u32) {
        self.lock().pid = Some(pid);
        self.pid_known.notify_all();
    }

    /// Called in the server while the reply is held back. What cannot be read stays unknown and is reported
    /// as a broken run.
    pub(super) fn take(&self, arrival: Arrival) {
        if arrival.nth != 0 && !arrival.last {
            return;
        }
        // The request may be here before `spawn` has returned.
        let waited = self
            .pid_known
            .wait_timeout_while(self.lock(), Duration::from_secs(5), |noted| noted.pid.is_none());
        let (mut noted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(pid) = noted.pid else { return };
        let cpu_ns = proc::settled_cpu_ns(pid).ok();
        if arrival.nth == 0 {
            noted.start_cpu_ns = cpu_ns;
        }
        if arrival.last {
            noted.last_cpu_ns = cpu_ns;
            noted.peak_rss_kib = proc::peak_rss_kib(pid).unwrap_or_default();
        }
    }
}
