//! A Rust file as the rules see it: tokens without comments, strings and tests, and the paths they spell.

use super::lex::{Kind, Token, lex};

/// The part of a file that is not test code.
pub(super) struct Source<'a> {
    tokens: Vec<Token<'a>>,
    lines: usize,
}

/// A path as written, from a `use` or from the middle of an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path<'a> {
    pub(super) line: usize,
    pub(super) segments: Vec<&'a str>,
    /// `use …::*`: stands for everything below.
    pub(super) glob: bool,
}

impl<'a> Source<'a> {
    pub(super) fn read(text: &'a str) -> Source<'a> {
        let mut source = Source { tokens: lex(text), lines: text.lines().count() };
        source.drop_tests();
        source
    }

    /// Lines outside test items.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Every single identifier.
    pub(super) fn names(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.tokens.iter().filter_map(|token| match token.kind {
            Kind::Name(name) => Some((token.line, name)),
            Kind::PathSep | Kind::FatArrow | Kind::Punct(_) | Kind::Literal => None,
        })
    }

    /// Lines of `_ =>`. With a guard it hides nothing: the compiler still wants the rest. A binding that
    /// ignores its value is not seen.
    pub(super) fn wildcard_arms(&self) -> Vec<usize> {
        let pairs = self.tokens.iter().zip(self.tokens.iter().skip(1));
        let arms = pairs.filter(|(token, next)| token.kind == Kind::Name("_") && next.kind == Kind::FatArrow);
        arms.map(|(token, _)| token.line).collect()
    }

    /// Every path of more than one segment, and every import.
    pub(super) fn paths(&self) -> Vec<Path<'a>> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(token) = self.tokens.get(at) {
            match token.kind {
                // `use<'a>` in a return type captures lifetimes and imports nothing.
                Kind::Name("use") if self.kind(at + 1) != Some(Kind::Punct('<')) => {
                    at = self.use_tree(at + 1, &[], &mut found);
                }
                Kind::Name(_) => at = self.inline_path(at, &mut found),
                Kind::PathSep | Kind::FatArrow | Kind::Punct(_) | Kind::Literal => at += 1,
            }
        }
        found
    }

    fn kind(&self, at: usize) -> Option<Kind<'a>> {
        self.tokens.get(at).map(|token| token.kind)
    }

    fn inline_path(&self, mut at: usize, found: &mut Vec<Path<'a>>) -> usize {
        let line = self.tokens[at].line;
        let mut segments = Vec::new();
        while let Some(Kind::Name(name)) = self.kind(at) {
            segments.push(name);
            at += 1;
            if self.kind(at) != Some(Kind::PathSep) {
                break;
            }
            at += 1;
        }
        if segments.len() > 1 {
            found.push(Path { line, segments, glob: false });
        }
        at
    }

    /// One tree of a `use`, which may be a group of trees; returns where it ended.
    fn use_tree(&self, mut at: usize, prefix: &[&'a str], found: &mut Vec<Path<'a>>) -> usize {
        let mut segments = prefix.to_vec();
        let mut glob = false;
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        while let Some(kind) = self.kind(at) {
            at += 1;
            match kind {
                Kind::Name("as") => at += 1,
                // `a::{self}` is `a`; a leading `self` is a segment.
                Kind::Name("self") if !segments.is_empty() => {}
                Kind::Name(name) => segments.push(name),
                Kind::Punct('*') => glob = true,
                Kind::Punct('{') => {
                    while self.kind(at).is_some_and(|kind| kind != Kind::Punct('}')) {
                        at = self.use_tree(at, &segments, found);
                        at += usize::from(self.kind(at) == Some(Kind::Punct(',')));
                    }
                    return at + 1;
                }
                Kind::Punct(',' | '}' | ';') => {
                    at -= 1;
                    break;
                }
                Kind::PathSep | Kind::FatArrow | Kind::Punct(_) | Kind::Literal => {}
            }
        }
        found.push(Path { line, segments, glob });
        // The `;` is left to the caller, which steps over it; never stay where we were.
        at
    }

    /// Removes each item under `#[cfg(test)]`, and its lines from the count.
    fn drop_tests(&mut self) {
        let mut kept = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let Some((attribute_end, inner)) = self.test_attribute(at) else {
                kept.push(self.tokens[at]);
                at += 1;
                continue;
            };
            let end = if inner { self.tokens.len() } else { self.item_end(attribute_end) };
            let last = self.tokens.get(end.saturating_sub(1)).map_or(0, |token| token.end_line);
            self.lines = self.lines.saturating_sub((last + 1).saturating_sub(self.tokens[at].line));
            at = end;
        }
        self.tokens = kept;
    }

    /// Whether a `cfg` that asks for `test` stands here; where it ends, and whether it is an inner attribute.
    fn test_attribute(&self, at: usize) -> Option<(usize, bool)> {
        if self.kind(at)? != Kind::Punct('#') {
            return None;
        }
        let inner = self.kind(at + 1)? == Kind::Punct('!');
        let open = at + 1 + usize::from(inner);
        if self.kind(open)? != Kind::Punct('[') || self.kind(open + 1)? != Kind::Name("cfg") {
            return None;
        }
        let end = self.group_end(open);
        let names = |wanted| self.tokens[open..end].iter().any(|token| token.kind == Kind::Name(wanted));
        (names("test") && !names("not") && !names("any")).then_some((end, inner))
    }

    /// Past the bracket that closes the one at `open`.
    fn group_end(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token.kind {
                Kind::Punct('(' | '[' | '{') => depth += 1,
                Kind::Punct(')' | ']' | '}') => depth = depth.saturating_sub(1),
                Kind::Name(_) | Kind::PathSep | Kind::FatArrow | Kind::Punct(_) | Kind::Literal => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        self.tokens.len()
    }

    /// Past the item that starts at `at`: its body in braces, or its semicolon.
    fn item_end(&self, mut at: usize) -> usize {
        while let Some(kind) = self.kind(at) {
            match kind {
                Kind::Punct('{') => return self.group_end(at),
                Kind::Punct(';') => return at + 1,
                // A field or an arm without braces ends with what holds it.
                Kind::Punct('}') => return at,
                Kind::Punct('(' | '[') => at = self.group_end(at),
                Kind::Name(_) | Kind::PathSep | Kind::FatArrow | Kind::Punct(_) | Kind::Literal => at += 1,
            }
        }
        at
    }
}
