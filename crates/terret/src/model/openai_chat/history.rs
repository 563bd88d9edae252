//! What a body remembers of the messages pushed so far: ids of calls, and pictures that wait for their place.

use std::collections::{BTreeMap, BTreeSet};

use terret_core::id::{CallId, Digest};
use terret_core::message::Block;

use crate::limits::MAX_CHAT_CALL_ID_BYTES;

/// Ids of calls on this wire. The provider's own id is kept where it is legal and free; any other call gets a
/// hash. A pure function of the messages pushed so far, so what was sent once is sent the same again.
#[derive(Default)]
pub(super) struct Ids {
    used: BTreeSet<String>,
    open: BTreeMap<CallId, String>,
    anonymous: u64,
}

impl Ids {
    /// Another assistant's message begins: what is still open of the one before can no longer be answered.
    pub(super) fn begin_message(&mut self) {
        self.open.clear();
    }

    /// The id of a call the assistant makes.
    pub(super) fn ask(&mut self, call: Option<CallId>, provider_id: &str) -> String {
        let legal = !provider_id.is_empty() && provider_id.len() <= MAX_CHAT_CALL_ID_BYTES;
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

    fn hashed(&mut self, call: Option<CallId>, provider_id: &str) -> String {
        let ours = match call {
            Some(call) => call.to_string(),
            None => {
                self.anonymous += 1;
                format!("#{}", self.anonymous)
            }
        };
        let digest = Digest::of(format!("{provider_id}\0{ours}").as_bytes()).to_string();
        format!("call_{}", &digest[..24])
    }
}

/// Pictures out of tool results: this wire takes them in a user message only, and that may come only after
/// the last result.
#[derive(Default)]
pub(super) struct Images(Option<String>);

impl Images {
    /// Remembers the pictures of one result.
    pub(super) fn keep(&mut self, id: &str, images: &[&Block]) {
        if images.is_empty() {
            return;
        }
        let text = self.0.get_or_insert_default();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("Image(s) from tool result {id}:"));
        for image in images {
            text.push('\n');
            text.push_str(&placeholder(image));
        }
    }

    /// The text of the message that shows them, once.
    pub(super) fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}

/// What stands for bytes a body cannot carry: a codec reads the log, not the files beside it.
pub(super) fn placeholder(block: &Block) -> String {
    let (what, attachment) = match block {
        Block::Image { attachment } => ("image", attachment),
        Block::File { attachment } => ("file", attachment),
        _ => return String::new(),
    };
    let name = attachment.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    format!(
        "[{what}{name}: {}, {} bytes, blake3 {}]",
        attachment.media_type, attachment.bytes, attachment.blob
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Ids;
    use terret_core::id::CallId;

    #[test]
    fn an_id_is_kept_if_it_is_legal_and_free() {
        let mut ids = Ids::default();
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

        let mut same = Ids::default();
        same.ask(Some(call(0)), "a");
        assert_eq!(same.ask(Some(call(1)), "a"), again, "a function of what was pushed");
    }
}
