//! What is measured, and how it is started.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::Result;
use crate::mock::Scenario;

/// What is run, and how it is started.
pub(super) enum Program {
    /// The binary to judge.
    Terret(PathBuf),
    /// `xtask floor`.
    Floor(PathBuf),
    /// `xtask floor` in terret's place.
    SelfTest(PathBuf),
}

/// The places of one run.
pub(super) struct Dirs {
    pub(super) root: PathBuf,
    pub(super) home: PathBuf,
    pub(super) work: PathBuf,
}

/// What one start of a program depends on.
pub(super) struct Start<'a> {
    pub(super) port: u16,
    pub(super) dirs: &'a Dirs,
    pub(super) scenario: Scenario,
    pub(super) https: bool,
}

impl Program {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Program::Terret(_) => "terret",
            Program::Floor(_) => "floor",
            Program::SelfTest(_) => "floor (as terret)",
        }
    }

    /// A missing binary is one clear error, not one for each measure.
    pub(super) fn check(&self) -> Result<()> {
        let (Program::Terret(path) | Program::Floor(path) | Program::SelfTest(path)) = self;
        if path.is_file() { Ok(()) } else { Err(format!("`{}` is not built", path.display()).into()) }
    }

    pub(super) fn spawn(&self, start: &Start<'_>) -> io::Result<Child> {
        isolate(&mut self.command(start), start.dirs).spawn()
    }

    pub(super) fn command(&self, start: &Start<'_>) -> Command {
        let port = start.port.to_string();
        match self {
            Program::Terret(path) => {
                let scheme = if start.https { "https" } else { "http" };
                let mut command = Command::new(path);
                command.args(["run", "-m", "mock/test", "--set", "providers.mock.wire=openai-chat", "--set"]);
                command.arg(format!("providers.mock.base_url={scheme}://127.0.0.1:{port}/v1")).arg("go");
                command
            }
            Program::Floor(path) | Program::SelfTest(path) => {
                let mut command = Command::new(path);
                command.args(["floor", "--port", &port, "--command", start.scenario.command(), "--dir"]);
                command.arg(&start.dirs.home);
                if let Program::SelfTest(_) = self {
                    command.arg("--log-deltas").args(start.https.then_some("--hello"));
                }
                command
            }
        }
    }
}

/// No setting, proxy or key of the caller reaches a measured process.
pub(super) fn isolate<'a>(command: &'a mut Command, dirs: &Dirs) -> &'a mut Command {
    command.env_clear().env("HOME", &dirs.home).env("TERRET_HOME", &dirs.home).current_dir(&dirs.work);
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
