//! Which call a delta belongs to, over all the ways servers number them.

use std::collections::HashSet;

use serde::de::IgnoredAny;

/// The calls of one response, in the order first seen.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
}

/// One call as far as it came.
#[derive(Debug)]
pub(super) struct Call {
    /// Its block.
    pub(super) block: u32,
    /// The provider's id; empty until it comes.
    pub(super) id: String,
    /// The tool; empty until it comes.
    pub(super) name: String,
    arguments: String,
    brackets: Brackets,
    /// No more of them can make JSON of these arguments.
    spoilt: bool,
    index: Option<i64>,
}

/// Where a delta goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To the call at this position.
    Known(usize),
    /// To a new call.
    New {
        /// Whether its index was another call's.
        index_reused: bool,
    },
}

impl Calls {
    /// Finds the place of a delta. Its own index decides; without one its id; without either it continues the
    /// last call. Servers that use one index for all calls are known by a second id.
    pub(super) fn place(&mut self, index: Option<i64>, id: &str, name: &str) -> Place {
        let fresh = Place::New { index_reused: false };
        if let Some(index) = index {
            // The last one, because an index may have been used before.
            let Some(at) = self.list.iter().rposition(|call| call.index == Some(index)) else {
                return fresh;
            };
            let call = &mut self.list[at];
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            if other_id && (!name.is_empty() || call.is_complete()) {
                return Place::New { index_reused: true };
            }
            return Place::Known(at);
        }
        if !id.is_empty() {
            return self.list.iter().rposition(|call| call.id == id).map_or(fresh, Place::Known);
        }
        match self.list.last_mut().map(|call| name.is_empty() || !call.is_complete()) {
            Some(true) => Place::Known(self.list.len() - 1),
            Some(false) | None => fresh,
        }
    }

    pub(super) fn open(&mut self, block: u32, index: Option<i64>, id: &str, name: &str) -> usize {
        self.list.push(Call {
            block,
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            brackets: Brackets::default(),
            spoilt: false,
            index,
        });
        self.list.len() - 1
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Call> {
        self.list.get_mut(at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether every call's arguments are one complete JSON object.
    pub(super) fn all_complete(&mut self) -> bool {
        self.list.iter_mut().all(|call| call.arguments.trim_start().starts_with('{') && call.is_complete())
    }

    /// The ids that are taken.
    pub(super) fn ids(&self) -> HashSet<String> {
        self.list.iter().map(|call| call.id.clone()).filter(|id| !id.is_empty()).collect()
    }
}

impl Call {
    pub(super) fn push(&mut self, arguments: &str) {
        self.arguments.push_str(arguments);
        self.brackets.push(arguments);
    }

    /// Whether the arguments are one JSON value. They are asked after with every piece by servers that number badly,
    /// so they are read only where they may be whole, and not again once they cannot be.
    fn is_complete(&mut self) -> bool {
        if self.spoilt || !self.brackets.closed() {
            return false;
        }
        let read = serde_json::from_str::<IgnoredAny>(&self.arguments);
        self.spoilt = read.as_ref().is_err_and(|error| !error.is_eof());
        read.is_ok()
    }
}

/// Whether brackets and quotes are closed behind something; each byte is looked at once.
#[derive(Debug, Default)]
struct Brackets {
    any: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Brackets {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            self.any |= !byte.is_ascii_whitespace();
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn closed(&self) -> bool {
        self.any && self.depth == 0 && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::{Calls, Place};

    const NEW: Place = Place::New { index_reused: false };

    #[test]
    fn an_index_decides_unless_another_id_comes() {
        let mut calls = Calls::default();
        assert_eq!(calls.place(Some(0), "a", "f"), NEW);
        calls.open(0, Some(0), "a", "f");
        assert_eq!(calls.place(Some(0), "a", "f"), Place::Known(0));
        assert_eq!(calls.place(Some(0), "", ""), Place::Known(0));
        assert_eq!(calls.place(Some(0), "b", ""), Place::Known(0), "no name, arguments still open");
        assert_eq!(calls.place(Some(0), "b", "f"), Place::New { index_reused: true });
        calls.open(1, Some(0), "b", "f");
        assert_eq!(calls.place(Some(0), "", ""), Place::Known(1));
        assert_eq!(calls.place(Some(1), "", ""), NEW);
    }

    #[test]
    fn without_an_index_the_id_decides_and_without_that_the_last_call() {
        let mut calls = Calls::default();
        assert_eq!(calls.place(None, "", ""), NEW);
        calls.open(0, None, "a", "f");
        assert_eq!(calls.place(None, "a", ""), Place::Known(0));
        assert_eq!(calls.place(None, "b", "f"), NEW);
        assert_eq!(calls.place(None, "", "g"), Place::Known(0), "the call before is not complete");
        if let Some(call) = calls.get_mut(0) {
            call.push("{}");
        }
        assert_eq!(calls.place(None, "", "g"), NEW);
        assert_eq!(calls.place(None, "", ""), Place::Known(0));
    }

    #[test]
    fn arguments_are_whole_when_json_says_so_however_they_came() {
        for text in [
            "",
            " ",
            "{}",
            " {\"a\":\"}\\\"{\"} ",
            "{]",
            "}{",
            "[1,{}]",
            "12",
            "\"a",
            "tru",
            "{}{}",
            "{\"a\":",
            "\\",
        ] {
            let mut calls = Calls::default();
            calls.open(0, None, "a", "f");
            for (at, piece) in text.char_indices() {
                let call = &mut calls.list[0];
                call.push(&text[at..at + piece.len_utf8()]);
                let so_far = &text[..at + piece.len_utf8()];
                let whole = serde_json::from_str::<serde::de::IgnoredAny>(so_far).is_ok();
                assert_eq!(call.is_complete(), whole, "{so_far}");
            }
        }
    }
}
