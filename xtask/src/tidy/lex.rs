//! Enough of Rust's tokens to tell code from comments and strings.

/// One token of code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) line: usize,
    /// Only a string spans lines.
    pub(super) end_line: usize,
    pub(super) kind: Kind<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// An identifier or a keyword, `_` too; `r#` is dropped.
    Name(&'a str),
    /// `::`
    PathSep,
    /// `=>`
    FatArrow,
    Punct(char),
    /// A string, a character or a number; what it says is no code.
    Literal,
}

/// Splits a file. What is no Rust gives some tokens or other: the compiler is there to complain.
pub(super) fn lex(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { rest: text, line: 1, tokens: Vec::new() };
    while lexer.next() {}
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> bool {
        let rest = self.rest;
        let Some(first) = rest.chars().next() else {
            return false;
        };
        if rest.starts_with("//") {
            self.skip(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.skip(comment_bytes(rest));
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else if let Some(bytes) = string_bytes(rest) {
            self.push(Kind::Literal, bytes);
        } else if first == '\'' {
            match char_bytes(rest) {
                Some(bytes) => self.push(Kind::Literal, bytes),
                // A lifetime: its name is the next token, and harms no rule.
                None => self.skip(1),
            }
        } else if first == '_' || first.is_alphanumeric() {
            self.word();
        } else if rest.starts_with("::") {
            self.push(Kind::PathSep, 2);
        } else if rest.starts_with("=>") {
            self.push(Kind::FatArrow, 2);
        } else {
            self.push(Kind::Punct(first), first.len_utf8());
        }
        true
    }

    fn word(&mut self) {
        let raw = self.rest.strip_prefix("r#").filter(|rest| rest.starts_with(is_word));
        if raw.is_some() {
            self.skip(2);
        }
        let bytes = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        let word = &self.rest[..bytes];
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        self.push(if number { Kind::Literal } else { Kind::Name(word) }, bytes);
    }

    fn push(&mut self, kind: Kind<'a>, bytes: usize) {
        let line = self.line;
        self.skip(bytes);
        self.tokens.push(Token { line, end_line: self.line, kind });
    }

    fn skip(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.line += gone.matches('\n').count();
        self.rest = rest;
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Length of a block comment, which may hold others.
fn comment_bytes(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let here = &text.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Length of a string literal of any kind, if one starts here.
fn string_bytes(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let after = text
            .strip_prefix(prefix)
            .map(|rest| if prefix.ends_with('r') { rest.trim_start_matches('#') } else { rest });
        after.is_some_and(|rest| rest.starts_with('"'))
    })?;
    let body = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let close = format!("\"{}", "#".repeat(hashes));
        let start = hashes + 1;
        let end = body[start..].find(&close).map_or(body.len(), |found| start + found + close.len());
        return Some(prefix.len() + end);
    }
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        match c {
            '"' if !escaped => return Some(prefix.len() + at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    Some(text.len())
}

/// Length of a character literal; `None` for a lifetime.
fn char_bytes(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        // The escaped character itself may be a quote.
        chars.next()?;
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}
