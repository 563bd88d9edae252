//! What a person reads when something is wrong: what, where, what is safe, what to do.

use terret::error::{Error, ErrorKind};

use crate::render::{self, shell};

/// One problem: a sentence, indented facts, something one can type, and the exit code.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    facts: Vec<(&'static str, String)>,
    hint: Option<String>,
    pub(crate) code: u8,
}

/// The exit codes that are not endings of turns.
pub(crate) mod exit {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const LOG: u8 = 5;
    pub(crate) const BUSY: u8 = 6;
}

impl Problem {
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Problem { what: what.into(), facts: Vec::new(), hint: None, code }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Problem::new(exit::USAGE, what)
    }

    pub(crate) fn fact(mut self, label: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((label, value.into()));
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn print(&self) {
        let mut text = format!("error: {}\n", self.what);
        for (label, value) in &self.facts {
            text.push_str(&format!("  {label}  {value}\n"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nhint: {hint}\n"));
        }
        render::err(text.trim_end());
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Usage => exit::USAGE,
            ErrorKind::Log => exit::LOG,
            ErrorKind::Busy => exit::BUSY,
            ErrorKind::Io | ErrorKind::Answer => exit::FAILED,
        };
        let problem = Problem::new(code, error.to_string());
        match &error {
            Error::NoSession(_) => problem.hint("terret sessions"),
            Error::Ambiguous { candidates, .. } => {
                let problem = candidates.iter().fold(problem, |p, id| p.fact("session", id.to_string()));
                problem.hint("give more of the id")
            }
            Error::NoEvent { id, .. } => problem.hint(format!("terret log {id}")),
            Error::Exists(id) => problem.hint(format!("terret run -r {id} \"…\"")),
            Error::Busy { id, path, .. } => problem.fact("log", path.display().to_string()).hint(format!(
                "follow it with `terret log {id} --follow`, or branch with `terret fork {id}`"
            )),
            Error::Damaged { path, seq, .. } => {
                let problem =
                    problem.fact("safe", "nothing was changed; every event before that line is intact");
                let log = shell::quoted(&path.to_string_lossy());
                problem.hint(match seq.checked_sub(1) {
                    _ if error.is_newer() => "upgrade terret".to_owned(),
                    Some(before) => format!("go on before it: terret fork {log}@{before}"),
                    None => format!("terret log {log}"),
                })
            }
            Error::MissingPlugin { .. } => problem.fact(
                "safe",
                "the session can be read, and forked before that event; only going on would differ",
            ),
            Error::Full { .. } => problem
                .fact("safe", "what was acknowledged is in the log")
                .hint("free some space, then run it again"),
            Error::Poisoned { .. } => problem
                .fact("safe", "nothing more was done; the next run checks the log before it goes on")
                .hint("look at the disk, then `terret run -c`"),
            Error::Config(_) => problem.hint("terret doctor --config"),
            _ => problem,
        }
    }
}
