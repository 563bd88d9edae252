//! A home and a working directory of its own for each test, and the binary run in them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything: far beyond what a loaded machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(50);

/// A home and a place to work, both empty at first.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Place { dir }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        // As the program will name it, whatever links lead there.
        self.dir.path().canonicalize().unwrap().join("work")
    }

    /// Writes a file of the working directory; gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }

    /// Writes a script; gives the route that plays it.
    pub(crate) fn script(&self, text: &str) -> String {
        format!("script:{}", self.file("model.script", text).display())
    }

    pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terret"));
        command.args(args).env_clear().current_dir(self.work()).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERRET_HOME", self.home());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Ran {
        Running::start(self.command(args)).end()
    }

    /// Runs it and demands success.
    pub(crate) fn ok<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Ran {
        self.run(args).exits(0)
    }

    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Running {
        Running::start(self.command(args))
    }

    /// Logs of all sessions.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home().join("sessions")).into_iter().flatten().flatten();
        let mut logs: Vec<_> = entries.map(|e| e.path().join("log.jsonl")).filter(|p| p.exists()).collect();
        logs.sort();
        logs
    }

    /// The log of the only session.
    pub(crate) fn log(&self) -> PathBuf {
        let logs = self.logs();
        assert_eq!(logs.len(), 1, "one session");
        logs[0].clone()
    }

    /// Its bytes; none while there is no session.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.logs().first().map(|log| std::fs::read(log).unwrap()).unwrap_or_default()
    }

    /// Its events so far, without the header and without a line that is being written.
    pub(crate) fn events(&self) -> Vec<Value> {
        let bytes = self.bytes();
        let lines = bytes.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n"));
        lines.skip(1).map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    /// Payloads of one type.
    pub(crate) fn all(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|e| e["type"] == kind).map(|e| e["data"].clone()).collect()
    }

    /// Why the last turn ended.
    pub(crate) fn reason(&self) -> Value {
        self.all("turn/end").last().expect("a turn ended")["reason"].clone()
    }

    /// Every file below the home, with its bytes.
    pub(crate) fn kept(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let (mut files, mut dirs) = (Vec::new(), vec![self.home()]);
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => dirs.push(entry.path()),
                    false => files.push((entry.path(), std::fs::read(entry.path()).unwrap())),
                }
            }
        }
        files.sort();
        files
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\nstdout: {}\nstderr: {}", self.text(), self.err);
        self
    }

    /// Demands words on stderr.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.err.contains(words), "`{words}` is not on stderr: {}", self.err);
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

/// A run under way; killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        // Whoever gave stdout a place of its own reads it there.
        Running::with_stdout(command, Stdio::piped())
    }

    pub(crate) fn with_stdout(mut command: Command, stdout: impl Into<Stdio>) -> Self {
        let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take().map(gather);
        let err = child.stderr.take().map(gather);
        Running { child, out, err }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its stdin and closes that.
    pub(crate) fn feed(&mut self, text: &str) {
        self.child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        let status = self.wait();
        let read =
            |thread: Option<JoinHandle<Vec<u8>>>| thread.map(|t| t.join().unwrap()).unwrap_or_default();
        let (out, err) = (read(self.out.take()), read(self.err.take()));
        let code = status.code().unwrap_or(-1);
        Ran { code, out, err: String::from_utf8_lossy(&err).into_owned() }
    }

    fn wait(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Usually it has ended long since.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gather(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

pub(crate) fn id_of(log: &Path) -> String {
    log.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
}
