//! `glob`: finds files by name.

use std::path::{Component, Path, PathBuf};

use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use terret_core::fact::{CallMode, EffectClass, ToolSpec};

use super::arguments::{INVALID_ARGUMENTS, parse_args, parse_text, schema};
use super::walk::walk;
use super::{Call, Done, Started, Tool, files, paths};
use crate::limits::GLOB_PATHS;

/// Finds files by name.
pub struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// For example `src/**/*.rs`; `*` stays in one directory, `**` goes through all.
    pattern: String,
    /// Directory to start in: the working directory unless given.
    path: Option<String>,
}

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            description:
                "Finds files by a pattern of their path, sorted, up to 500. What .gitignore names is \
                          left out, and so are hidden files unless the pattern names them. `dir/*` lists a \
                          directory."
                    .to_owned(),
            parameters: schema::<Args>(),
        }
    }

    fn effect(&self) -> EffectClass {
        EffectClass::Read
    }

    fn mode(&self, arguments: &str) -> CallMode {
        parse_text::<Args>("glob", arguments).map_or(CallMode::Exclusive, |_| CallMode::Parallel)
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        parse_args::<Args>(call).map(drop)
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        let call = started.into_call();
        Box::pin(files::blocking(call, |call| glob(call, &parse_args(call)?)))
    }
}

fn glob(call: &Call, args: &Args) -> Result<Done, Done> {
    let base = paths::absolute(call, args.path.as_deref().unwrap_or("."))?;
    let (fixed, pattern) = split(&args.pattern);
    let matcher = matcher(&pattern).map_err(|error| {
        let text = format!("`{}` is not a glob pattern: {error}", args.pattern);
        Done::error(&call.name, INVALID_ARGUMENTS, text)
    })?;
    let root = normal(&base.join(&fixed));
    if !root.is_dir() {
        let text = format!("there is no directory `{}`.", paths::shown(call, &root));
        return Err(Done::error(&call.name, "not-found", text));
    }
    let hidden = pattern.split(['/', '{', ',']).any(|part| part.starts_with('.'));
    let with_dirs = !pattern.contains("**");
    let mut found = Vec::new();
    let mut more = false;
    let below_cwd = root.strip_prefix(call.cwd.as_path()).unwrap_or(&root);
    if below_cwd.components().any(|part| part.as_os_str() == ".git") {
        return Ok(Done::ok(answer(&args.pattern, &found, more)));
    }
    for entry in walk(&root, hidden) {
        if *call.stop.borrow() {
            return Err(super::stopped(call));
        }
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        if (is_dir && !with_dirs) || !matcher.is_match(below) {
            continue;
        }
        if found.len() == GLOB_PATHS {
            more = true;
            break;
        }
        found.push(paths::shown(call, entry.path()) + if is_dir { "/" } else { "" });
    }
    Ok(Done::ok(answer(&args.pattern, &found, more)))
}

fn answer(pattern: &str, found: &[String], more: bool) -> String {
    if found.is_empty() {
        let deeper =
            if pattern.contains('/') { "" } else { " `**/` in front of it looks in all directories." };
        return format!("[nothing matches `{pattern}`; ignored files are not looked at.{deeper}]");
    }
    let mut text = found.join("\n") + "\n";
    if more {
        text.push_str(&format!("[these are the first {GLOB_PATHS}; there are more: narrow the pattern]\n"));
    }
    text
}

/// A pattern's leading directories that are plain names, and the rest: only below them is anything to find,
/// and a directory that is named is looked into even when it is ignored or hidden.
fn split(pattern: &str) -> (PathBuf, String) {
    let plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let parts: Vec<&str> = pattern.split('/').collect();
    let count = parts[..parts.len() - 1].iter().take_while(|part| plain(part)).count();
    let fixed = parts[..count].join("/");
    // The first part of an absolute pattern is empty.
    let fixed = if count > 0 && parts[0].is_empty() { format!("/{fixed}") } else { fixed };
    (PathBuf::from(fixed), parts[count..].join("/"))
}

pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build()?;
    Ok(glob.compile_matcher())
}

/// Without `.`, so that paths are shown from the working directory.
pub(super) fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests;
