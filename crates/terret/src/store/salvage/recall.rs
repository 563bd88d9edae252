//! What was said in lines that are kept as data, as plain text for the model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use terret_core::chunk::Chunk;
use terret_core::fact::{Fact, ToolResult};
use terret_core::id::{CallId, MsgId};
use terret_core::line::Event;
use terret_core::message::{Block, Message, Source};

use crate::limits::{RECALL_BYTES, RECALL_PIECE_BYTES};

/// What stands before it all.
const PREFACE: &str = "The log of this session was damaged, and the session goes on in a new one. What follows was \
                       said in it behind the damage; where something is missing it says so.";
const GAP: &str = "[something is missing here]";

/// Gathers the conversation of lines, the newest of it.
#[derive(Default)]
pub(super) struct Recall {
    pieces: VecDeque<String>,
    bytes: usize,
    /// Pieces that found no room.
    left_out: u64,
    /// Messages told already.
    told: BTreeSet<MsgId>,
    names: BTreeMap<CallId, String>,
    /// Text of an answer whose message did not come yet.
    said: String,
}

impl Recall {
    pub(super) fn event(&mut self, event: &Event) {
        if let Fact::InboxAdded(added) = &event.fact {
            self.user(&added.message);
        } else if let Fact::UserMessage(user) = &event.fact {
            self.user(&user.message);
        } else if let Fact::AssistantChunk(piece) = &event.fact {
            if let Chunk::TextDelta { text, .. } = &piece.chunk
                && self.said.len() < RECALL_BYTES
            {
                self.said.push_str(text);
            }
        } else if let Fact::AssistantMessage(answer) = &event.fact {
            self.said.clear();
            self.names.extend(answer.calls.iter().map(|call| (call.call, call.name.clone())));
            self.piece("assistant", &answer.message.text());
        } else if let Fact::RequestFailed(_) = &event.fact {
            // Its text was given up: another attempt says it anew.
            self.said.clear();
        } else if let Fact::ToolCall(call) = &event.fact {
            self.cut_off();
            self.names.insert(call.call, call.name.clone());
            self.piece(&format!("call of {}", call.name), &short(&call.arguments, RECALL_PIECE_BYTES));
        } else if let Fact::ToolResult(result) = &event.fact {
            self.result(result);
        } else if let Fact::StepEnd(_) | Fact::TurnEnd(_) | Fact::RequestAttempt(_) = &event.fact {
            self.cut_off();
        }
    }

    /// Something between what came and what comes is lost.
    pub(super) fn gap(&mut self) {
        if self.pieces.back().is_some_and(|last| last != GAP) {
            self.push(GAP.to_owned());
        }
    }

    /// All of it; nothing, if nothing was said.
    pub(super) fn text(mut self) -> Option<String> {
        self.cut_off();
        if self.pieces.iter().all(|piece| piece == GAP) {
            return None;
        }
        let mut text = PREFACE.to_owned();
        if self.left_out > 0 {
            text.push_str(&format!("\n\n[{} earlier pieces are left out]", self.left_out));
        }
        for piece in self.pieces {
            text.push_str("\n\n");
            text.push_str(&piece);
        }
        Some(text)
    }

    fn user(&mut self, message: &Message) {
        if message.source == Source::User && self.told.insert(message.id.clone()) {
            self.cut_off();
            self.piece("user", &message.text());
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let name = self.names.get(&result.call).cloned().unwrap_or_else(|| result.call.to_string());
        let mut text = String::new();
        for block in &result.content {
            if let Block::Text { text: more, .. } = block {
                text.push_str(more);
            } else if let Block::Json { value } = block {
                text.push_str(value.get());
            }
        }
        let outcome = serde_json::to_string(&result.outcome).unwrap_or_default();
        let who = format!("result of {name} ({})", outcome.trim_matches('"'));
        self.piece(&who, &short(&text, RECALL_PIECE_BYTES));
    }

    /// An answer whose message is lost, as far as its pieces are there.
    fn cut_off(&mut self) {
        let said = std::mem::take(&mut self.said);
        self.piece("assistant, in part", &said);
    }

    fn piece(&mut self, who: &str, text: &str) {
        if !text.trim().is_empty() {
            self.push(format!("{who}: {}", short(text.trim(), RECALL_BYTES)));
        }
    }

    fn push(&mut self, piece: String) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
        while self.bytes > RECALL_BYTES
            && self.pieces.len() > 1
            && let Some(oldest) = self.pieces.pop_front()
        {
            self.bytes -= oldest.len();
            self.left_out += 1;
        }
    }
}

/// The beginning of a text, and how much more there was.
fn short(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    match text.len() - end {
        0 => text.to_owned(),
        more => format!("{} [{more} more bytes]", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::{GAP, RECALL_BYTES, Recall, short};

    #[test]
    fn the_newest_is_kept_and_what_is_left_out_is_counted() {
        let mut recall = Recall::default();
        for n in 0..10 {
            recall.piece(&format!("user {n}"), &"x".repeat(RECALL_BYTES / 4));
        }
        let text = recall.text().unwrap_or_default();
        assert!(text.contains("[7 earlier pieces are left out]"), "{}", &text[..400]);
        assert!(!text.contains("user 6: ") && text.contains("user 7: ") && text.contains("user 9: "));
        assert!(text.len() < RECALL_BYTES + 1000);
    }

    #[test]
    fn one_piece_alone_is_shortened_between_characters() {
        assert_eq!(short("short", 10), "short");
        assert_eq!(short("äöü", 3), "ä [4 more bytes]");
        let mut recall = Recall::default();
        recall.piece("user", &"x".repeat(2 * RECALL_BYTES));
        assert!(recall.text().is_some_and(|text| text.ends_with("more bytes]")));
    }

    #[test]
    fn gaps_alone_say_nothing_and_are_told_once() {
        let mut recall = Recall::default();
        recall.gap();
        assert_eq!(recall.pieces.len(), 0, "nothing stands before it");
        recall.piece("user", "hi");
        recall.gap();
        recall.gap();
        assert!(recall.text().is_some_and(|text| text.ends_with(&format!("user: hi\n\n{GAP}"))));
        assert_eq!(Recall::default().text(), None);
    }
}
