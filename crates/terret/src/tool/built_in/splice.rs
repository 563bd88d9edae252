//! Replacing text while every byte that is not replaced stays: also in files with CRLF or mixed line ends.
//!
//! Texts are compared with CRLF read as LF, because models write LF. A lone CR is a character like others.

/// A text with a replacement done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Splice {
    pub(super) text: String,
    /// How many places.
    pub(super) count: usize,
    /// Line of the first one, from 1.
    pub(super) line: usize,
    /// Whether the file's main line end is CRLF.
    pub(super) crlf: bool,
}

/// Why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is not there; what may have been meant.
    None(String),
    /// It is there more than once: on these lines.
    Several(Vec<usize>),
}

/// Replaces the only `old` in `text` by `new`, or each of them.
pub(super) fn splice(text: &str, old: &str, new: &str, all: bool) -> Result<Splice, Missing> {
    let view = View::new(text);
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    let places = if all { apart(&view.text, &old) } else { overlapping(&view.text, &old) };
    let line_at = |place: usize| view.text[..place].matches('\n').count() + 1;
    match places.as_slice() {
        [] => return Err(Missing::None(hint(&view.text, &old))),
        [_] => {}
        [_, ..] if all => {}
        several => return Err(Missing::Several(several.iter().map(|place| line_at(*place)).collect())),
    }
    let (from, to_end) = common_ends(&old, &new);
    let (gone, put) = (&old[from..old.len() - to_end], &new[from..new.len() - to_end]);
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for place in &places {
        let start = place + from;
        out.push_str(&text[view.raw(copied)..view.raw(start)]);
        push_with_line_ends(&mut out, put, &view, start, gone);
        copied = start + gone.len();
    }
    out.push_str(&text[view.raw(copied)..]);
    Ok(Splice { text: out, count: places.len(), line: line_at(places[0]), crlf: view.main_is_crlf() })
}

/// A text with CRLF read as LF, and the way back.
struct View {
    text: String,
    /// Places in `text` of the LFs that are CRLF in the original, rising.
    crlf: Vec<usize>,
}

impl View {
    fn new(original: &str) -> Self {
        let mut text = String::with_capacity(original.len());
        let mut crlf = Vec::new();
        for (index, part) in original.split("\r\n").enumerate() {
            if index > 0 {
                crlf.push(text.len());
                text.push('\n');
            }
            text.push_str(part);
        }
        View { text, crlf }
    }

    /// Where a place of the view is in the original.
    fn raw(&self, place: usize) -> usize {
        place + self.crlf.partition_point(|at| *at < place)
    }

    fn is_crlf(&self, place: usize) -> bool {
        self.crlf.binary_search(&place).is_ok()
    }

    fn main_is_crlf(&self) -> bool {
        self.crlf.len() * 2 > self.text.matches('\n').count()
    }
}

/// Appends `put`. As many lines as were there keep their own line ends; new ones take the file's main kind.
fn push_with_line_ends(out: &mut String, put: &str, view: &View, start: usize, gone: &str) {
    let replaced: Vec<usize> = gone.match_indices('\n').map(|(at, _)| start + at).collect();
    let same_count = replaced.len() == put.matches('\n').count();
    for (index, part) in put.split('\n').enumerate() {
        if let Some(line_end) = index.checked_sub(1) {
            let crlf = if same_count { view.is_crlf(replaced[line_end]) } else { view.main_is_crlf() };
            out.push_str(if crlf { "\r\n" } else { "\n" });
        }
        out.push_str(part);
    }
}

/// Bytes that both texts start and end with, so that line ends in them stay as they are.
fn common_ends(old: &str, new: &str) -> (usize, usize) {
    let pairs = old.chars().zip(new.chars());
    let from: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let pairs = old[from..].chars().rev().zip(new[from..].chars().rev());
    let to_end = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    (from, to_end)
}

fn apart(text: &str, old: &str) -> Vec<usize> {
    text.match_indices(old).map(|(place, _)| place).collect()
}

/// `aa` is twice in `aaa`: which one is meant is not known.
fn overlapping(text: &str, old: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(old) {
        places.push(from + at);
        let step = text[from + at..].chars().next().map_or(1, char::len_utf8);
        from += at + step;
    }
    places
}

/// What is in the file instead, as far as that can be told.
fn hint(text: &str, old: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.trim_matches('\n').lines().collect();
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    let first = wanted.first().copied().unwrap_or_default();
    if first.trim().is_empty() {
        return "Read the file again and copy the text from it.".to_owned();
    }
    let starts: Vec<usize> = (0..lines.len()).filter(|at| same(lines[*at], first)).collect();
    // The start that goes on as wanted the longest.
    let agreeing = |start: usize| lines[start..].iter().zip(&wanted).take_while(|(a, b)| same(a, b)).count();
    let Some(start) = starts.into_iter().max_by_key(|start| (agreeing(*start), usize::MAX - start)) else {
        return "No line like its first one is there either: read the file again.".to_owned();
    };
    if agreeing(start) == wanted.len() {
        let pairs = lines[start..].iter().zip(&wanted).enumerate();
        let differs = pairs.map(|(index, (a, b))| (index, *a, *b)).find(|(_, a, b)| a != b);
        let (index, line, _) = differs.unwrap_or((0, lines[start], first));
        return format!(
            "Only blanks differ: line {} of the file is {:?}.",
            start + index + 1,
            super::files::cut(line, 200)
        );
    }
    let differs = start + agreeing(start);
    let line = lines.get(differs).copied();
    let line =
        line.map_or("the end of the file".to_owned(), |line| format!("{:?}", super::files::cut(line, 200)));
    format!("Its first line is line {} of the file, but line {} is {line}.", start + 1, differs + 1)
}

#[cfg(test)]
mod tests;
