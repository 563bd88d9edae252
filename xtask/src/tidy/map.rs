//! The code map in `ARCHITECTURE.md` against the code: what it names exists, and what exists it names.

use std::io;
use std::path::Path;

use super::{Finding, Report, is_test};

const PATH: &str = "ARCHITECTURE.md";

/// Checks both directions; only notes that the map is missing.
pub(super) fn check(root: &Path, files: &[String], report: &mut Report) -> io::Result<()> {
    let text = match std::fs::read_to_string(root.join(PATH)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.notes.push(format!("no `{PATH}` yet: its code map was not checked"));
            return Ok(());
        }
        read => read?,
    };
    let mentions = mentions(&text, files);
    for mention in &mentions {
        if looks_like_path(mention.text) && !mention.candidates().any(|path| exists(files, &path)) {
            let what = format!("`{}` does not exist", mention.text);
            report.findings.push(Finding { path: PATH.to_owned(), line: mention.line, what });
        }
    }
    for module in modules(files) {
        let named = mentions.iter().flat_map(Mention::candidates).any(|path| is_module(&path, &module));
        if !named {
            let what = format!("the code map does not name `{module}`");
            report.findings.push(Finding { path: PATH.to_owned(), line: 0, what });
        }
    }
    Ok(())
}

/// Something in backticks.
struct Mention<'a> {
    line: usize,
    text: &'a str,
    /// The crate that the last heading named: below it, a module's short name is enough.
    section: Option<String>,
}

impl Mention<'_> {
    /// The paths it may stand for.
    fn candidates(&self) -> impl Iterator<Item = String> {
        let text = self.text.trim_end_matches('/');
        let below =
            self.section.iter().flat_map(move |dir| [format!("{dir}/{text}"), format!("{dir}/src/{text}")]);
        // `terret-core/src/id.rs` without `crates/` is as clear.
        [text.to_owned(), format!("crates/{text}")].into_iter().chain(below).collect::<Vec<_>>().into_iter()
    }
}

fn mentions<'a>(text: &'a str, files: &[String]) -> Vec<Mention<'a>> {
    let mut found = Vec::new();
    let mut section = None;
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        if line.starts_with('#') {
            section = crate_in(line, files);
        }
        let quoted = line.split('`').skip(1).step_by(2);
        found.extend(quoted.map(|text| Mention { line: at + 1, text, section: section.clone() }));
    }
    found
}

/// The directory of the crate a heading speaks of.
fn crate_in(heading: &str, files: &[String]) -> Option<String> {
    let words: Vec<&str> = heading
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '/')))
        .map(|w| w.trim_matches('/'))
        .collect();
    let dirs = files.iter().filter_map(|file| file.strip_suffix("/Cargo.toml"));
    dirs.into_iter()
        .find(|dir| words.iter().any(|word| word == dir || Some(*word) == dir.strip_prefix("crates/")))
        .map(str::to_owned)
}

/// Event names have slashes too (`turn/end`), so a path is known by where it starts or how it ends.
fn looks_like_path(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'));
    let rooted =
        ["crates/", "xtask/", "docs/", "tests/", ".cargo/"].iter().any(|root| text.starts_with(root));
    plain
        && (rooted || [".rs", ".md", ".toml"].iter().any(|end| text.len() > end.len() && text.ends_with(end)))
}

fn exists(files: &[String], path: &str) -> bool {
    files
        .iter()
        .any(|file| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// `crates/X/src/NAME` for each top-level module, without its ending.
fn modules(files: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".rs") && !is_test(file)) {
        let parts: Vec<&str> = file.split('/').collect();
        if let ["crates", name, "src", module, ..] = parts[..] {
            let module = module.trim_end_matches(".rs");
            let path = format!("crates/{name}/src/{module}");
            if !matches!(module, "lib" | "main") && !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// Whether a path in the map is this module: `…/tool`, `…/tool.rs` or `…/tool/mod.rs`.
fn is_module(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| matches!(rest, "" | ".rs" | "/mod.rs"))
}
