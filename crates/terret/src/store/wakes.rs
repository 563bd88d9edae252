//! Being told by the file system that a file grew. Only a help: whoever waits looks by itself now and then.

use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

/// What happens to one file.
pub(super) struct Wakes {
    /// None, where the system has no more of them to give (Linux allows a user 128, unless told otherwise).
    #[cfg(target_os = "linux")]
    watch: Option<AsyncFd<rustix::fd::OwnedFd>>,
}

#[cfg(target_os = "linux")]
impl Wakes {
    /// From now on.
    // Deprecated for descriptors that may be closed by somebody else; one that is owned is not.
    #[allow(deprecated)]
    pub(super) fn of(path: &Path) -> Self {
        let watch = || -> std::io::Result<_> {
            let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            let what = WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::MOVE_SELF;
            inotify::add_watch(&watch, path, what)?;
            AsyncFd::with_interest(watch, Interest::READABLE)
        };
        Wakes { watch: watch().ok() }
    }

    /// Waits until something happened since the last call.
    pub(super) async fn next(&self) {
        let Some(watch) = &self.watch else { return std::future::pending().await };
        let Ok(mut ready) = watch.readable().await else { return std::future::pending().await };
        // What happened is seen in the file itself.
        let mut notes = [0; 4096];
        while rustix::io::read(watch, &mut notes).is_ok_and(|n| n > 0) {}
        ready.clear_ready();
    }
}

#[cfg(not(target_os = "linux"))]
impl Wakes {
    /// Never.
    pub(super) fn of(_: &Path) -> Self {
        Wakes {}
    }

    /// For ever.
    pub(super) async fn next(&self) {
        std::future::pending().await
    }
}
