//! `edit`: replaces one text in a file by another and leaves every other byte alone.

use std::io::Read;
use std::path::Path;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use terret_core::fact::{EffectClass, ToolSpec};

use super::arguments::{INVALID_ARGUMENTS, parse_args, schema};
use super::splice::{Missing, Splice, splice};
use super::write::path_data;
use super::{Call, Done, Started, Tool, files, paths};
use crate::limits::{EDIT_FILE_BYTES, EDIT_PLACES, EDIT_SNIPPET_LINES, READ_LINE_BYTES};

/// Replaces text in a file.
pub struct Edit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// File to change, from the working directory or absolute.
    path: String,
    /// Text to replace, exactly as in the file, with enough around it to be there only once.
    old: String,
    /// Text to put in its place.
    new: String,
    /// Replace it everywhere instead.
    all: Option<bool>,
}

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit".to_owned(),
            description: "Replaces `old` by `new` in a text file. `old` must be in the file exactly once, \
                          blanks and indentation included, unless `all` is true. Line ends are taken care of."
                .to_owned(),
            parameters: schema::<Args>(),
        }
    }

    fn effect(&self) -> EffectClass {
        EffectClass::Unsafe
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        let args = checked(call)?;
        paths::write_target(call, &args.path).map(drop)
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        let call = started.into_call();
        Box::pin(files::blocking(call, |call| edit(call, &checked(call)?)))
    }
}

fn checked(call: &Call) -> Result<Args, Done> {
    let args: Args = parse_args(call)?;
    let invalid = |text: &str| Err(Done::error(&call.name, INVALID_ARGUMENTS, text));
    if args.old.is_empty() {
        return invalid("`old` is empty: give the text to replace. To make a file use write.");
    }
    if args.old == args.new {
        return invalid("`old` and `new` are the same: nothing would change.");
    }
    if args.old.replace("\r\n", "\n") == args.new.replace("\r\n", "\n") {
        return invalid(
            "`old` and `new` differ in line ends only, which edit keeps: use the shell for that.",
        );
    }
    Ok(args)
}

fn edit(call: &Call, args: &Args) -> Result<Done, Done> {
    let target = paths::write_target(call, &args.path)?;
    let explain = |trouble| files::explain(call, &target, trouble);
    let (file, meta) = files::open_regular(&target).map_err(explain)?;
    let error = |code: &str, text: String| Done::error(&call.name, code, text);
    if meta.len() > EDIT_FILE_BYTES {
        let text = format!("`{}` has {} bytes: edit takes up to {EDIT_FILE_BYTES}.", args.path, meta.len());
        return Err(error("too-large", text));
    }
    let mut bytes = Vec::new();
    file.take(EDIT_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| explain(error.into()))?;
    let Ok(text) = String::from_utf8(bytes) else {
        let text =
            format!("`{}` is not UTF-8 text: edit would damage it. Change it with the shell.", args.path);
        return Err(error("not-utf8", text));
    };
    let all = args.all.unwrap_or(false);
    let done = splice(&text, &args.old, &args.new, all).map_err(|missing| match missing {
        Missing::None(hint) => error("no-match", format!("`old` is not in `{}`. {hint}", args.path)),
        Missing::Several(lines) => error("several-matches", several(&args.path, &lines)),
    })?;
    files::replace(&target, done.text.as_bytes(), Some(&meta)).map_err(explain)?;
    Ok(Done::ok(snippet(&args.path, args, &done)).with_data(path_data(Path::new(&target))))
}

fn several(path: &str, lines: &[usize]) -> String {
    let places: Vec<_> = lines.iter().take(EDIT_PLACES).map(usize::to_string).collect();
    let more = if lines.len() > EDIT_PLACES { ", ..." } else { "" };
    format!(
        "`old` is {} times in `{path}` (lines {}{more}): add more of the text around it, or set `all`.",
        lines.len(),
        places.join(", ")
    )
}

fn snippet(path: &str, args: &Args, done: &Splice) -> String {
    let times = if done.count == 1 { "one place".to_owned() } else { format!("{} places", done.count) };
    let kept = if done.crlf { "; its CRLF line ends were kept" } else { "" };
    let mut text = format!("edited `{path}` in {times}{kept}\n@@ line {} @@\n", done.line);
    for (mark, side) in [('-', &args.old), ('+', &args.new)] {
        for (index, line) in side.lines().enumerate() {
            if index == EDIT_SNIPPET_LINES {
                text.push_str(&format!("{mark}[...]\n"));
                break;
            }
            text.push_str(&format!("{mark}{}\n", files::cut(line, READ_LINE_BYTES)));
        }
    }
    text
}

#[cfg(test)]
mod tests;
