//! Imports against the table in `rules`.

use super::Finding;
use super::rules::{CRATES, Crate, Module};
use super::source::{Path, Source};

/// Checks every path that non-test code of a crate spells.
pub(super) fn check_source(path: &str, source: &Source<'_>, findings: &mut Vec<Finding>) {
    let mut report = |line, what| findings.push(Finding { path: path.to_owned(), line, what });
    let Some((rule, inside)) = crate_of(path) else {
        return report(0, "belongs to no crate of the import table (`xtask/src/tidy/rules.rs`)".to_owned());
    };
    let Some(inside) = inside.strip_prefix("src/") else {
        return;
    };
    for (line, name) in source.names().filter(|(_, name)| rule.never_named.contains(name)) {
        report(line, format!("`{}` never names `{name}`", rule.dir));
    }
    let home = module_path(inside);
    let own = home.first().and_then(|name| rule.modules.iter().find(|module| module.name == *name));
    if let (Some(name), None, false) = (home.first(), own, rule.modules.is_empty()) {
        report(0, format!("module `{name}` is not in the import table (`xtask/src/tidy/rules.rs`)"));
    }
    for path in source.paths() {
        if let Some(never) = rule.never.iter().find(|never| names(&path, never)) {
            report(path.line, format!("`{}` never imports `{never}`", rule.dir));
        }
        if let Some(what) = own.and_then(|own| forbidden_neighbour(rule, own, &home, &path)) {
            report(path.line, what);
        }
    }
}

/// Checks that a manifest does not bring in what no source may name.
pub(super) fn check_manifest(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let Some((rule, "Cargo.toml")) = crate_of(path) else {
        return;
    };
    let mut section = "";
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        }
        // Either `[dependencies]` with a line each, or `[dependencies.NAME]`.
        let dependency = match section.split_once("dependencies") {
            Some((before, _)) if before.ends_with("dev-") => continue,
            Some((_, "")) => line.split(['=', '.', ' ']).next(),
            Some((_, name)) if line.starts_with('[') => name.strip_prefix('.'),
            Some(_) | None => None,
        };
        let dependency = dependency.unwrap_or_default().trim_matches('"').replace('-', "_");
        if rule.never.contains(&dependency.as_str()) {
            let what = format!("`{}` never depends on `{dependency}`", rule.dir);
            findings.push(Finding { path: path.to_owned(), line: at + 1, what });
        }
    }
}

/// The crate a file belongs to, and its path inside.
fn crate_of(path: &str) -> Option<(&'static Crate, &str)> {
    CRATES.iter().find_map(|rule| Some((rule, path.strip_prefix(rule.dir)?.strip_prefix('/')?)))
}

/// `model/openai.rs` → `[model, openai]`; the crate's roots are `[]`.
fn module_path(inside: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    if parts.last() == Some(&"mod") || matches!(parts[..], ["lib" | "main"]) {
        parts.pop();
    }
    parts
}

/// Whether a path reaches into `never`, or hides it under a glob.
fn names(path: &Path<'_>, never: &str) -> bool {
    let never: Vec<&str> = never.split("::").collect();
    path.segments.starts_with(&never) || (path.glob && never.starts_with(&path.segments))
}

/// Why a module may not spell this path, if it may not.
fn forbidden_neighbour(rule: &Crate, own: &Module, home: &[&str], path: &Path<'_>) -> Option<String> {
    let absolute = in_crate(home, &path.segments)?;
    let Some(first) = absolute.first() else {
        return path.glob.then(|| format!("`{}` imports the whole crate: name the modules", own.name));
    };
    let known = rule.modules.iter().any(|module| module.name == *first);
    let allowed = *first == own.name || own.uses.split(' ').any(|name| name == *first);
    (known && !allowed).then(|| format!("`{}` never uses `{first}`", own.name))
}

/// A path from the crate's root; `None` when it starts elsewhere. `super` counts from the file, not from a
/// module written inside it.
fn in_crate<'a>(home: &[&'a str], segments: &[&'a str]) -> Option<Vec<&'a str>> {
    let supers = segments.iter().skip_while(|s| **s == "self").take_while(|s| **s == "super").count();
    match segments {
        ["crate", rest @ ..] => Some(rest.to_vec()),
        ["self" | "super", ..] => {
            let base = &home[..home.len().saturating_sub(supers)];
            let rest = segments.iter().filter(|s| **s != "self" && **s != "super");
            Some(base.iter().chain(rest).copied().collect())
        }
        _ => None,
    }
}
