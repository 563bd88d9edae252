//! A command as a process group: everything it starts is found again and ends with it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::Call;
use crate::limits::{SHELL_POLL_MS, SHELL_SWEEPS};

/// Names of variables that end like this hold secrets and are not handed to commands.
const SECRET_ENDINGS: [&str; 4] = ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"];

/// Variable that marks everything one run started, also what left its process group.
const MARK: &str = "TERRET_RUN";

/// Starts a command with one pipe for both its output streams: one pipe keeps their order.
pub(super) fn spawn(call: &Call, command: &str) -> io::Result<(Child, pipe::Receiver, Group)> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let (child, output) = spawn_with(shell(), call, command, &mark)?;
    let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let id = id.ok_or_else(|| io::Error::other("a new process without an id"))?;
    Ok((child, output, Group { id, mark: format!("{MARK}={mark}"), armed: true }))
}

/// Path of bash, or of `sh` where there is no bash: looked up once, so that no command pays for the search.
fn shell() -> &'static Path {
    static SHELL: OnceLock<PathBuf> = OnceLock::new();
    SHELL.get_or_init(|| {
        let dirs: Vec<PathBuf> =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let find = |name| dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
        find("bash").or_else(|| find("sh")).unwrap_or_else(|| PathBuf::from("/bin/sh"))
    })
}

fn spawn_with(shell: &Path, call: &Call, command: &str, mark: &str) -> io::Result<(Child, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    let mut process = Command::new(shell);
    process.arg("-c").arg(command).current_dir::<&Path>(call.cwd.as_ref()).process_group(0);
    process.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    process.env("TERRET_CALL", &call.key).env(MARK, mark);
    for (name, _) in std::env::vars_os() {
        if is_secret(&name) {
            process.env_remove(name);
        }
    }
    for name in call.hidden_env.iter() {
        process.env_remove(name);
    }
    // Only so that the child is reaped; the group's guard does the killing.
    process.kill_on_drop(true);
    let child = process.spawn()?;
    // `process` is dropped on return and with it our copies of the writing end: end of pipe can come.
    Ok((child, pipe::Receiver::from_owned_fd(reader.into())?))
}

/// Whether a variable of this name is kept from commands.
pub(super) fn is_secret(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let ends = |ending: &str| {
        name.len() >= ending.len()
            && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
    };
    SECRET_ENDINGS.iter().any(|ending| ends(ending))
}

/// The process group of a command. Dropped while armed it kills everything the command started.
pub(super) struct Group {
    id: Pid,
    mark: String,
    armed: bool,
}

impl Group {
    /// Signals every process of the group; `false`: there is none.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        kill_process_group(self.id, signal).is_ok()
    }

    /// Whether a process of the group is there; one that is dead and not yet reaped counts.
    pub(super) fn exists(&self) -> bool {
        test_kill_process_group(self.id).is_ok()
    }

    /// Whether a living process of the group is there. Looks through the process table if need be.
    pub(super) fn lives(&self) -> bool {
        self.exists() && table::lives(self.id)
    }

    /// Kills what carries the mark, in whatever group it is; says whether there was anything.
    ///
    /// Linux only. What cleared its environment, changed its user or is forked faster than it is found
    /// stays.
    pub(super) async fn sweep(&self) -> bool {
        let mark = self.mark.clone();
        tokio::task::spawn_blocking(move || sweep(&mark)).await.unwrap_or(false)
    }

    /// Everything is dealt with.
    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.armed {
            self.signal(Signal::KILL);
            // Not on another thread: the program may be about to end.
            sweep(&self.mark);
        }
    }
}

fn sweep(mark: &str) -> bool {
    let mut found = false;
    for _ in 0..SHELL_SWEEPS {
        if !table::kill_marked(mark) {
            break;
        }
        found = true;
        std::thread::sleep(Duration::from_millis(SHELL_POLL_MS));
    }
    found
}

#[cfg(target_os = "linux")]
mod table {
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    fn pids() -> impl Iterator<Item = Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    pub(super) fn lives(group: Pid) -> bool {
        let group = group.as_raw_nonzero().to_string();
        pids().any(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The name before the last `)` may contain anything; state, parent and group follow it.
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let state = fields.next();
            fields.nth(1) == Some(group.as_str()) && !matches!(state, Some("Z" | "X"))
        })
    }

    pub(super) fn kill_marked(mark: &str) -> bool {
        let mut any = false;
        for pid in pids() {
            // The handle comes first: the id cannot be given to another process between look and kill.
            let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
                any |= pidfd_send_signal(&handle, Signal::KILL).is_ok();
            }
        }
        any
    }
}

#[cfg(not(target_os = "linux"))]
mod table {
    use rustix::process::Pid;

    pub(super) fn lives(_group: Pid) -> bool {
        true
    }

    pub(super) fn kill_marked(_mark: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
