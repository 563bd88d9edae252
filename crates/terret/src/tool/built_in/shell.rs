//! `shell`: runs a command line.
//!
//! The call ends when the shell does, not when the last holder of its output does. What the command left in
//! its process group is killed then; so is what left the group and still holds the output. What left the
//! group *and* let go of the output is not looked for: that way a command that ends well costs no look
//! through the process table. On timeout, stop and drop everything is looked for.
//!
//! A SIGKILL of this program itself leaves running commands alone: nobody is there to end them.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terret_core::fact::{EffectClass, Outcome, ToolSpec};
use terret_core::raw::Raw;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::arguments::{parse_args, schema};
use super::capture::Capture;
use super::process::{Group, spawn};
use super::{Call, Done, Started, Tool, paths};
use crate::limits::{
    SHELL_DRAIN_MS, SHELL_GRACE_MS, SHELL_HEAD_BYTES, SHELL_POLL_MS, SHELL_READ_BYTES, SHELL_TAIL_BYTES,
    SHELL_TIMEOUT_MAX_MS, SHELL_TIMEOUT_MS,
};

/// Runs a command line in the working directory.
pub struct Shell;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Command line for bash.
    command: String,
    /// Milliseconds it may take: 120000 unless given, 600000 at most.
    timeout_ms: Option<u64>,
}

impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "shell".to_owned(),
            description:
                "Runs a bash command line in the working directory and gives its output (stdout and \
                          stderr together; the middle of very long output is cut) and its exit status when \
                          that is not 0. There is no terminal and no input. Every call is a new shell. \
                          Background processes are killed when the command ends."
                    .to_owned(),
            parameters: schema::<Args>(),
        }
    }

    fn effect(&self) -> EffectClass {
        EffectClass::Unsafe
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        parse_args::<Args>(call)?;
        paths::may_change(call)
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        let call = started.into_call();
        Box::pin(async move {
            let checked = paths::may_change(&call).and_then(|()| parse_args::<Args>(&call));
            match checked {
                Ok(args) => run(call, args).await,
                Err(done) => done,
            }
        })
    }
}

/// Why we stopped waiting for the shell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Exited,
    Timeout,
    Stopped,
}

async fn run(mut call: Call, args: Args) -> Done {
    // Nought is how some models say "no limit".
    let wanted_ms = args.timeout_ms.filter(|ms| *ms > 0).unwrap_or(SHELL_TIMEOUT_MS);
    let limit_ms = wanted_ms.min(SHELL_TIMEOUT_MAX_MS);
    let mut running = match spawn(&call, &args.command) {
        Ok((child, pipe, group)) => Running::new(child, pipe, group),
        Err(error) => {
            let text = format!("the command could not be started in `{}`: {error}", call.cwd.display());
            return Done::error(&call.name, "spawn", text);
        }
    };
    let why = running.watch(&mut call, Duration::from_millis(limit_ms)).await;
    let killed_some = match why {
        Why::Exited => running.leave().await,
        Why::Timeout | Why::Stopped => {
            running.end().await;
            false
        }
    };
    running.group.disarm();
    report(&call.name, why, limit_ms, running.status, running.capture.finish(), killed_some)
}

struct Running {
    // Before the child: while the child is not reaped, the id of the group is its own.
    group: Group,
    child: Child,
    pipe: pipe::Receiver,
    buffer: Vec<u8>,
    open: bool,
    capture: Capture,
    status: Option<ExitStatus>,
}

impl Running {
    fn new(child: Child, pipe: pipe::Receiver, group: Group) -> Self {
        let capture = Capture::new(SHELL_HEAD_BYTES, SHELL_TAIL_BYTES);
        Running { group, child, pipe, buffer: vec![0; SHELL_READ_BYTES], open: true, capture, status: None }
    }

    /// Reads until the shell exits, time is up or somebody says stop.
    async fn watch(&mut self, call: &mut Call, limit: Duration) -> Why {
        let time_up = sleep_until(Instant::now() + limit);
        tokio::pin!(time_up);
        loop {
            // Reading comes last, so that a flood of output cannot keep the other three from being seen.
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    self.status = status.ok();
                    return Why::Exited;
                }
                () = call.stopped() => return Why::Stopped,
                () = &mut time_up => return Why::Timeout,
                read = self.pipe.read(&mut self.buffer), if self.open => self.open = keep(&mut self.capture, &self.buffer, read),
            }
        }
    }

    /// After the shell's own exit: takes what is still in the pipe, kills what is left behind. Says whether
    /// anything was.
    async fn leave(&mut self) -> bool {
        self.drain().await;
        let mut left = false;
        if self.group.exists() {
            // A child that is just ending is not one that was left behind.
            sleep(Duration::from_millis(SHELL_POLL_MS)).await;
            left = self.group.lives();
            self.group.signal(Signal::KILL);
        }
        if self.open {
            left |= self.group.sweep().await;
        }
        left
    }

    /// Asks the group to end, then makes it; then whatever else the command started.
    async fn end(&mut self) {
        self.group.signal(Signal::TERM);
        let grace = sleep(Duration::from_millis(SHELL_GRACE_MS));
        tokio::pin!(grace);
        while self.status.is_none() || self.group.exists() {
            tokio::select! {
                biased;
                () = &mut grace => break,
                status = self.child.wait(), if self.status.is_none() => self.status = status.ok(),
                read = self.pipe.read(&mut self.buffer), if self.open => self.open = keep(&mut self.capture, &self.buffer, read),
                () = sleep(Duration::from_millis(SHELL_POLL_MS)) => {}
            }
        }
        self.group.signal(Signal::KILL);
        self.group.sweep().await;
        self.drain().await;
        if self.status.is_none() {
            // A process that the kernel does not let go of must not hold the turn.
            let wait = timeout(Duration::from_millis(SHELL_DRAIN_MS), self.child.wait()).await;
            self.status = wait.ok().and_then(Result::ok);
        }
    }

    async fn drain(&mut self) {
        let until_end = async {
            while self.open {
                let read = self.pipe.read(&mut self.buffer).await;
                self.open = keep(&mut self.capture, &self.buffer, read);
            }
        };
        // Running out of time is an answer too: `open` stays true.
        let _ = timeout(Duration::from_millis(SHELL_DRAIN_MS), until_end).await;
    }
}

/// Keeps what a read brought; `false` at the end of the pipe.
fn keep(capture: &mut Capture, buffer: &[u8], read: std::io::Result<usize>) -> bool {
    let count = read.unwrap_or(0);
    capture.push(&buffer[..count]);
    count > 0
}

/// What programs read. No duration: the same command should give the same bytes.
#[derive(Serialize)]
struct Data {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    cut_bytes: u64,
}

fn report(
    tool: &str,
    why: Why,
    limit_ms: u64,
    status: Option<ExitStatus>,
    (mut text, cut_bytes): (String, u64),
    killed_some: bool,
) -> Done {
    let exit_code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal());
    let mut note = |line: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&line);
        text.push('\n');
    };
    let failure = match (why, exit_code, signal) {
        (Why::Timeout, ..) => {
            note(format!("[timed out after {limit_ms} ms; the command and all it started were killed]"));
            Some((Outcome::Timeout, "timeout".to_owned()))
        }
        (Why::Stopped, ..) => {
            note("[stopped; the command and all it started were killed]".to_owned());
            Some((Outcome::Aborted, "aborted".to_owned()))
        }
        (Why::Exited, Some(0), _) => None,
        (Why::Exited, Some(code), _) => {
            note(format!("[exit status {code}]"));
            Some((Outcome::Error, format!("exit-{code}")))
        }
        (Why::Exited, None, Some(signal)) => {
            note(format!("[killed by signal {signal}]"));
            Some((Outcome::Error, format!("signal-{signal}")))
        }
        (Why::Exited, None, None) => {
            note("[the exit status is not known]".to_owned());
            Some((Outcome::Unknown, "exit-unknown".to_owned()))
        }
    };
    if killed_some {
        note("[background processes that were still running were killed]".to_owned());
    }
    if text.is_empty() {
        text.push_str("[no output]");
    }
    let data = Data { exit_code, signal, timed_out: why == Why::Timeout, cut_bytes };
    let data = Raw::from_value(&data).expect("numbers can be written as JSON");
    match failure {
        None => Done::ok(text),
        Some((outcome, code)) => Done::error(tool, &code, text).with_outcome(outcome),
    }
    .with_data(data)
}

#[cfg(test)]
mod tests;
