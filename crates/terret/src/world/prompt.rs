//! What the model is told before it is asked: the system text, and the context that goes in as messages.
//!
//! The system text holds nothing that changes by itself: no clock, no directory, no git state. Those are in
//! context messages, logged when they change.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use terret_core::message::Block;
use terret_core::message::{Form, Message, Role, Source};

use crate::clock::date;
use crate::hook::Section;
use crate::limits::MAX_INSTRUCTIONS_BYTES;
use crate::tool::guidance;

const IDENTITY: &str = "You are terret, an agent that works in a person's directory through tools. Do what is \
asked, no more and no less; look before you change; say plainly what you did, what failed, and what you did \
not check. When a tool fails, read its message and act on it.";

/// The sections of the system text before any plugin has its say.
pub(crate) fn sections(identity: Option<&str>, offers_tools: bool) -> Vec<Section> {
    let section = |name: &str, text: &str| Section { name: name.to_owned(), text: text.trim().to_owned() };
    let mut sections = vec![section("identity", identity.unwrap_or(IDENTITY))];
    if offers_tools {
        sections.push(section("tools", guidance()));
    }
    sections
}

/// The system text. A section without text leaves no gap.
pub(crate) fn render(sections: &[Section]) -> String {
    let texts = sections.iter().map(|s| s.text.as_str()).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n\n")
}

/// One piece of context: who gives it, and what it says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Who gives it; one of a kind among the contexts.
    pub plugin: String,
    /// What it is.
    pub form: Form,
    /// What the model reads. Empty: there is nothing of it now, and a model that was told something is told that.
    pub text: String,
}

/// Gives the context as of now, for this working directory and these epoch milliseconds.
pub(crate) type Surroundings = Arc<dyn Fn(&Path, u64) -> Vec<Context> + Send + Sync>;

impl Context {
    /// What the model has to be told, if this is what it was told last.
    pub(crate) fn due(mut self, last: Option<&String>) -> Option<Context> {
        if self.text.is_empty() {
            last?;
            let name = &self.plugin;
            self.text = format!("<{name}>\nnone: what was given here before no longer applies\n</{name}>");
        }
        (last != Some(&self.text)).then_some(self)
    }

    pub(crate) fn into_message(self, turn: u32, step: u32) -> Message {
        Message {
            id: format!("{}-{turn}.{step}", self.plugin).as_str().into(),
            role: Role::User,
            content: vec![Block::text(self.text)],
            source: Source::Plugin { plugin: self.plugin, form: self.form },
        }
    }
}

/// The context as of now: the environment, and the project's rules.
pub(crate) fn surroundings(cwd: &Path, now_ms: u64) -> Vec<Context> {
    let mut contexts = vec![Context {
        plugin: "environment".to_owned(),
        form: Form::Snapshot,
        text: format!(
            "<environment>\nworking directory: {}\nplatform: {} {}\ndate: {} (UTC)\n</environment>",
            cwd.display(),
            std::env::consts::OS,
            std::env::consts::ARCH,
            date(now_ms)
        ),
    }];
    contexts.push(instructions(cwd));
    contexts
}

/// The `AGENTS.md` files that apply, outermost first: from the repository's root down to `cwd`. Outside of a
/// repository only the one in `cwd`: what lies above belongs to somebody else.
fn instructions(cwd: &Path) -> Context {
    let root = cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(cwd);
    let dirs = cwd.ancestors().take_while(|dir| dir.starts_with(root));
    let mut parts: Vec<String> = dirs
        .filter_map(|dir| {
            let path = dir.join("AGENTS.md");
            let text = match rules(&path) {
                Ok(text) => text?,
                // The model and the log say what is missing.
                Err(e) => format!("[`{}` cannot be read: {e}]", path.display()),
            };
            let path = path.display();
            Some(format!("<instructions path=\"{path}\">\n{}\n</instructions>", text.trim_end()))
        })
        .collect();
    parts.reverse();
    Context { plugin: "instructions".to_owned(), form: Form::Instructions, text: parts.join("\n") }
}

/// The text of a file of rules, cut to what is taken along; `None` where there is none.
fn rules(path: &Path) -> std::io::Result<Option<String>> {
    let bytes = match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => std::fs::read(path)?,
        // A device would never end.
        Ok(_) => return Err(std::io::Error::other("it is not a file")),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if text.len() > MAX_INSTRUCTIONS_BYTES {
        text.truncate(text.floor_char_boundary(MAX_INSTRUCTIONS_BYTES));
        text.push_str("\n[cut here: the file is longer than is taken along]");
    }
    Ok(Some(text))
}
