//! `grep`: finds lines by a regular expression.

use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use terret_core::fact::{CallMode, EffectClass, ToolSpec};
use tokio::sync::watch;

use super::arguments::{INVALID_ARGUMENTS, parse_args, parse_text, schema};
use super::glob::{matcher, normal};
use super::walk::walk;
use super::{Call, Done, Started, Tool, files, paths};
use crate::limits::{GREP_BYTES, GREP_CONTEXT_LINES, GREP_HEAP_BYTES, GREP_LINE_BYTES, GREP_MATCHES};

/// Finds lines by a regular expression.
pub struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Regular expression for one line (Rust syntax).
    pattern: String,
    /// File or directory to look in: the working directory unless given.
    path: Option<String>,
    /// Only files like this, for example `*.rs` or `src/**/*.rs`.
    glob: Option<String>,
    /// Take upper and lower case as the same.
    ignore_case: Option<bool>,
    /// Lines to show before and after each match, at most 10.
    context: Option<usize>,
}

impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "grep".to_owned(),
            description: "Finds lines by a regular expression and gives them as path:line:text, sorted by \
                          path, up to 200. Binary files, hidden files and what .gitignore names are left out."
                .to_owned(),
            parameters: schema::<Args>(),
        }
    }

    fn effect(&self) -> EffectClass {
        EffectClass::Read
    }

    fn mode(&self, arguments: &str) -> CallMode {
        parse_text::<Args>("grep", arguments).map_or(CallMode::Exclusive, |_| CallMode::Parallel)
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        let args: Args = parse_args(call)?;
        regex(call, &args).map(drop)
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        let call = started.into_call();
        Box::pin(files::blocking(call, |call| grep(call, &parse_args(call)?)))
    }
}

fn regex(call: &Call, args: &Args) -> Result<RegexMatcher, Done> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(args.ignore_case.unwrap_or(false)).line_terminator(Some(b'\n')).crlf(true);
    builder.build(&args.pattern).map_err(|error| {
        let text = format!(
            "`pattern` is not a regular expression grep takes: {error}\nIt matches within one line; there is \
             no look-around and no back-reference. Put `\\` before a character that is meant as itself."
        );
        Done::error(&call.name, INVALID_ARGUMENTS, text)
    })
}

fn grep(call: &Call, args: &Args) -> Result<Done, Done> {
    let regex = regex(call, args)?;
    let glob = args.glob.as_deref().map(file_filter).transpose().map_err(|error| {
        Done::error(&call.name, INVALID_ARGUMENTS, format!("`glob` is not a glob pattern: {error}"))
    })?;
    let root = normal(&paths::absolute(call, args.path.as_deref().unwrap_or("."))?);
    let meta = std::fs::metadata(&root).map_err(|error| files::explain(call, &root, error.into()))?;
    let context = args.context.unwrap_or(0).min(GREP_CONTEXT_LINES);
    let searcher = SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(GREP_HEAP_BYTES))
        .build();
    let mut search =
        Search { call, regex, searcher, text: String::new(), matches: 0, skipped: Vec::new(), full: false };
    if meta.is_dir() {
        for path in
            walk(&root, false).filter(|e| e.file_type().is_some_and(|k| k.is_file())).map(|e| e.into_path())
        {
            let below = path.strip_prefix(&root).unwrap_or(&path);
            if glob.as_ref().is_none_or(|glob| glob.is_match(below)) {
                // What went away or may not be read since it was listed is as if it were not there.
                let _ = search.file(&path);
            }
            if *call.stop.borrow() {
                return Err(super::stopped(call));
            }
            if search.full {
                break;
            }
        }
    } else {
        search.file(&root).map_err(|trouble| files::explain(call, &root, trouble))?;
    }
    Ok(Done::ok(search.answer(&args.pattern, meta.is_file())))
}

/// A pattern without a directory means the file's name, in any directory.
fn file_filter(pattern: &str) -> Result<globset::GlobMatcher, globset::Error> {
    if pattern.contains('/') { matcher(pattern) } else { matcher(&format!("**/{pattern}")) }
}

struct Search<'a> {
    call: &'a Call,
    regex: RegexMatcher,
    searcher: Searcher,
    text: String,
    matches: usize,
    skipped: Vec<PathBuf>,
    full: bool,
}

impl Search<'_> {
    fn file(&mut self, path: &Path) -> Result<(), files::Trouble> {
        let (file, _) = files::open_regular(path)?;
        let reader = Stoppable { file, stop: self.call.stop.clone() };
        let room = (GREP_MATCHES - self.matches, GREP_BYTES.saturating_sub(self.text.len()));
        let shown = paths::shown(self.call, path);
        let mut lines =
            Lines { path: &shown, room, text: String::new(), matches: 0, full: false, binary: false };
        if self.searcher.search_reader(&self.regex, reader, &mut lines).is_err() || lines.binary {
            self.skipped.push(path.to_owned());
            return Ok(());
        }
        if !self.text.is_empty() && lines.matches > 0 && self.searcher.after_context() > 0 {
            self.text.push_str("--\n");
        }
        self.text.push_str(&lines.text);
        self.matches += lines.matches;
        self.full = lines.full;
        Ok(())
    }

    fn answer(self, pattern: &str, one_file: bool) -> String {
        let mut text = self.text;
        if self.matches == 0 {
            let why = if one_file && !self.skipped.is_empty() { "; it is a binary file" } else { "" };
            text = format!("[nothing matches `{pattern}`{why}]");
        }
        if self.full {
            text.push_str("[there are more matches: narrow the pattern, the path or the glob]\n");
        }
        text
    }
}

/// The matches of one file as they are shown.
struct Lines<'a> {
    path: &'a str,
    /// Matches and bytes that still fit.
    room: (usize, usize),
    text: String,
    matches: usize,
    full: bool,
    binary: bool,
}

impl Lines<'_> {
    fn push(&mut self, mark: char, number: Option<u64>, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\r', '\n']);
        let start = files::cut(line, GREP_LINE_BYTES);
        let cut = line.len() - start.len();
        let note = if cut > 0 { format!(" [... {cut} bytes cut]") } else { String::new() };
        let number = number.unwrap_or(0);
        self.text.push_str(&format!("{}{mark}{number}{mark}{start}{note}\n", self.path));
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches >= self.room.0 || self.text.len() >= self.room.1 {
            self.full = true;
            return Ok(false);
        }
        self.matches += 1;
        self.push(':', found.line_number(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.push('-', context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.text.push_str("--\n");
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A file whose reading ends when the call is stopped.
struct Stoppable {
    file: std::fs::File,
    stop: watch::Receiver<bool>,
}

impl io::Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if *self.stop.borrow() { Ok(0) } else { self.file.read(buffer) }
    }
}

#[cfg(test)]
mod tests;
