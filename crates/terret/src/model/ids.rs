//! What a body remembers of the calls pushed so far.

use std::collections::{BTreeMap, BTreeSet};

use terret_core::id::{CallId, Digest};

/// Ids of calls on a wire. The provider's own id is kept where it is legal and free; any other call gets a
/// hash. A pure function of the messages pushed so far, so what was sent once is sent the same again.
pub(super) struct Ids {
    /// Whether the wire takes this id.
    legal: fn(&str) -> bool,
    /// An id of the wire's form, from hexadecimal digits.
    form: fn(&str) -> String,
    used: BTreeSet<String>,
    open: BTreeMap<CallId, String>,
    anonymous: u64,
}

impl Ids {
    /// No ids yet, on a wire with this rule. It takes at least `call_` and 24 hexadecimal digits.
    pub(super) fn new(legal: fn(&str) -> bool) -> Self {
        Ids::of_form(legal, |digits| format!("call_{}", &digits[..24]))
    }

    /// The same for a wire whose ids have a form of their own.
    pub(super) fn of_form(legal: fn(&str) -> bool, form: fn(&str) -> String) -> Self {
        Ids { legal, form, used: BTreeSet::new(), open: BTreeMap::new(), anonymous: 0 }
    }

    /// Another assistant's message begins: what is still open of the one before can no longer be answered.
    pub(super) fn begin_message(&mut self) {
        self.open.clear();
    }

    /// The id of a call the assistant makes.
    pub(super) fn ask(&mut self, call: Option<CallId>, provider_id: &str) -> String {
        let legal = !provider_id.is_empty() && (self.legal)(provider_id);
        let id = if legal && !self.used.contains(provider_id) {
            provider_id.to_owned()
        } else {
            self.hashed(call, provider_id)
        };
        self.used.insert(id.clone());
        if let Some(call) = call {
            self.open.insert(call, id.clone());
        }
        id
    }

    /// The id an answer must name; `None` if nobody asked, or the answer was given already.
    pub(super) fn answer(&mut self, call: CallId) -> Option<String> {
        self.open.remove(&call)
    }

    /// Whether every call of the last assistant's message has its answer.
    pub(super) fn all_answered(&self) -> bool {
        self.open.is_empty()
    }

    /// The ids of all calls of the last message that have no answer, in the order of the calls; they count as answered.
    pub(super) fn unanswered(&mut self) -> Vec<String> {
        std::mem::take(&mut self.open).into_values().collect()
    }

    fn hashed(&mut self, call: Option<CallId>, provider_id: &str) -> String {
        let ours = match call {
            Some(call) => call.to_string(),
            None => {
                self.anonymous += 1;
                format!("#{}", self.anonymous)
            }
        };
        (self.form)(&Digest::of(format!("{provider_id}\0{ours}").as_bytes()).to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Ids;
    use terret_core::id::CallId;

    #[test]
    fn an_id_is_kept_if_it_is_legal_and_free() {
        let mut ids = Ids::new(|id| id.len() <= 40);
        let call = |ordinal| CallId { turn: 1, step: 1, ordinal };
        assert_eq!(ids.ask(Some(call(0)), "a"), "a");
        let again = ids.ask(Some(call(1)), "a");
        let long = ids.ask(Some(call(2)), &"x".repeat(41));
        let none = ids.ask(Some(call(3)), "");
        for id in [&again, &long, &none] {
            assert!(id.starts_with("call_") && id.len() <= 40, "{id}");
        }
        assert_eq!(ids.answer(call(1)).unwrap(), again);
        assert_eq!(ids.answer(call(1)), None, "answered once");
        assert!(!ids.all_answered());

        let mut same = Ids::new(|id| id.len() <= 40);
        same.ask(Some(call(0)), "a");
        assert_eq!(same.ask(Some(call(1)), "a"), again, "a function of what was pushed");
    }

    #[test]
    fn a_wire_may_have_a_form_of_its_own() {
        let form = |digits: &str| digits[..9].to_owned();
        let mut nine =
            Ids::of_form(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), form);
        let call = |ordinal| CallId { turn: 1, step: 1, ordinal };
        assert_eq!(nine.ask(Some(call(0)), "D681PevKs"), "D681PevKs");
        for (ordinal, id) in [(1, "call_1"), (2, "D681-evKs"), (3, "D681PevKs")] {
            let id = nine.ask(Some(call(ordinal)), id);
            assert!(
                id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) && id != "D681PevKs",
                "{id}"
            );
        }
    }
}
