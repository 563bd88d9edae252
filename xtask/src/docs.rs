//! `xtask docs`: the parts of the documentation that the code knows best.
//!
//! A page under `docs/` holds marked blocks, `<!-- generated: NAME -->` to `<!-- end of generated -->`. What is
//! between the marks is made from the built binary (`--help` of every verb, `terret schema`), from the doc comments
//! of the facts and by the exploration of the core; what is around them is written by hand. `--check` writes nothing and fails if a
//! block differs from what would be written.

mod dialects;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::Outcome;
use crate::args::Args;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end of generated -->";

/// Where the vocabulary of the log is declared, with the sentences the event table shows.
const FACTS: &str = "crates/terret-core/src/fact/mod.rs";

/// `xtask docs`: brings the generated blocks up to date, or with `--check` says which are not.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let check = args.flag("--check");
    args.finish()?;
    let root = super::root();
    let source = Source::new(root)?;
    let mut stale = Vec::new();
    for page in pages(&root.join("docs"))? {
        let text = fs::read_to_string(&page)?;
        let fresh = renew(&text, &|name| source.block(name))
            .map_err(|error| format!("{}: {error}", page.display()))?;
        if fresh != text {
            stale.push(page.strip_prefix(root).unwrap_or(&page).display().to_string());
            if !check {
                fs::write(&page, fresh)?;
            }
        }
    }
    match (check, stale.is_empty()) {
        (_, true) => println!("docs are up to date"),
        (false, false) => println!("rewrote {}", stale.join(", ")),
        (true, false) => {
            return Err(format!("`cargo xtask docs` would change {}", stale.join(", ")).into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where blocks come from.
struct Source {
    terret: PathBuf,
    facts: String,
}

impl Source {
    /// Builds the binary, so that no block is made from an old one.
    fn new(root: &Path) -> Result<Source> {
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "-p", "terret-cli"])
            .current_dir(root)
            .status()?;
        if !status.success() {
            return Err("the build failed".into());
        }
        let terret = super::target_dir().join("debug/terret");
        Ok(Source { terret, facts: fs::read_to_string(root.join(FACTS))? })
    }

    fn block(&self, name: &str) -> Result<String> {
        match name {
            "help" => {
                let mut out = String::new();
                self.help(&mut Vec::new(), &mut out)?;
                Ok(out)
            }
            "events" => tables::events(&self.facts, &self.schema()?),
            "explore" => crate::explore::page(),
            "config" => tables::config(&self.schema()?),
            "dialects" => dialects::tables(&self.schema()?["dialects"]),
            _ => Err(format!("nothing generates `{name}`").into()),
        }
    }

    /// The help of one verb, then of the verbs below it.
    fn help(&self, path: &mut Vec<String>, out: &mut String) -> Result<()> {
        let mut words: Vec<&str> = path.iter().map(String::as_str).collect();
        words.push("--help");
        let text = self.output(&words)?;
        let title = ["terret"].into_iter().chain(path.iter().map(String::as_str)).collect::<Vec<_>>();
        out.push_str(&format!("### `{}`\n\n```text\n", title.join(" ")));
        for line in text.trim_end().lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out.push_str("```\n\n");
        for verb in commands(&text) {
            path.push(verb);
            self.help(path, out)?;
            path.pop();
        }
        Ok(())
    }

    fn schema(&self) -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&self.output(&["schema"])?)?)
    }

    fn output(&self, words: &[&str]) -> Result<String> {
        // Help is wrapped to the terminal; a page has the same width everywhere.
        let output = Command::new(&self.terret).args(words).env("COLUMNS", "100").output()?;
        if !output.status.success() {
            return Err(format!("`terret {}` failed", words.join(" ")).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The verbs a help text lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .map(str::to_owned)
        .collect()
}

/// The text with every block made again.
fn renew(text: &str, block: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let named = &rest[at + BEGIN.len()..];
        let (name, after) = named.split_once(" -->\n").ok_or("a mark that does not end")?;
        let to = after.find(END).ok_or_else(|| format!("the block `{name}` does not end"))?;
        out.push_str(&rest[..at]);
        out.push_str(&format!("{BEGIN}{name} -->\n\n{}\n\n{END}", block(name)?.trim()));
        rest = &after[to + END.len()..];
    }
    out.push_str(rest);
    Ok(out)
}

fn pages(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(pages(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{commands, renew};

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = "a\n<!-- generated: x -->\nold\n<!-- end of generated -->\nb\n";
        let fresh = renew(text, &|name| Ok(format!("new {name}"))).unwrap();
        assert_eq!(fresh, "a\n<!-- generated: x -->\n\nnew x\n\n<!-- end of generated -->\nb\n");
        assert_eq!(renew(&fresh, &|name| Ok(format!("new {name}"))).unwrap(), fresh);
        assert!(renew("<!-- generated: x -->\n", &|_| Ok(String::new())).is_err());
        assert!(renew(text, &|_| Err("no".into())).is_err());
    }

    #[test]
    fn verbs_are_read_from_help() {
        let help = "Usage: x\n\nCommands:\n  run   Works [alias: exec]\n        and more\n  help  Prints\n\nOptions:\n  -h";
        assert_eq!(commands(help), ["run"]);
    }
}
