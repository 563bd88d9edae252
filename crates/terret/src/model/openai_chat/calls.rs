//! Which call a delta belongs to, over all the ways servers number them.

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
    pub(super) fn place(&self, index: Option<i64>, id: &str, name: &str) -> Place {
        let fresh = Place::New { index_reused: false };
        if let Some(index) = index {
            // The last one, because an index may have been used before.
            let Some(at) = self.list.iter().rposition(|call| call.index == Some(index)) else {
                return fresh;
            };
            let call = &self.list[at];
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            if other_id && (!name.is_empty() || call.is_complete()) {
                return Place::New { index_reused: true };
            }
            return Place::Known(at);
        }
        if !id.is_empty() {
            return self.list.iter().rposition(|call| call.id == id).map_or(fresh, Place::Known);
        }
        match self.list.last() {
            Some(call) if name.is_empty() || !call.is_complete() => Place::Known(self.list.len() - 1),
            Some(_) | None => fresh,
        }
    }

    pub(super) fn open(&mut self, block: u32, index: Option<i64>, id: &str, name: &str) -> usize {
        self.list.push(Call {
            block,
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
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
    pub(super) fn all_complete(&self) -> bool {
        self.list.iter().all(|call| call.arguments.trim_start().starts_with('{') && call.is_complete())
    }

    /// An id no call of this response has.
    pub(super) fn free_id(&self, ordinal: usize) -> String {
        let taken = |id: &str| self.list.iter().any(|call| call.id == id);
        let ids = (ordinal..).map(|n| format!("call_{n}"));
        ids.into_iter().find(|id| !taken(id)).unwrap_or_default()
    }
}

impl Call {
    pub(super) fn push(&mut self, arguments: &str) {
        self.arguments.push_str(arguments);
    }

    fn is_complete(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
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
    fn free_ids_are_free() {
        let mut calls = Calls::default();
        calls.open(0, None, "call_1", "f");
        assert_eq!(calls.free_id(0), "call_0");
        assert_eq!(calls.free_id(1), "call_2");
    }
}
