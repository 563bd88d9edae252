//! A content block between its start and its stop.

use serde_json::value::RawValue;
use terret_core::chunk::Chunk;
use terret_core::message::BlockKind;
use terret_core::raw::Raw;

use super::event::Delta;
use super::fields::Fields;
use crate::model::compact::compact;
use crate::model::surrogate;
use crate::model::wire::warning;

/// A block that is being written.
pub(super) struct Open {
    /// The index the wire knows it by.
    pub(super) wire_index: u64,
    /// Ours.
    index: u32,
    /// Half of a surrogate pair that waits for its other half.
    held: Option<u16>,
    state: State,
}

enum State {
    Text {
        citations: Vec<Box<RawValue>>,
    },
    Thinking {
        signature: String,
    },
    /// Thinking nobody can read; sent back whole.
    Redacted(Fields),
    Call {
        /// Whether pieces of the arguments came.
        pieces: bool,
        start: Fields,
    },
    /// A block that is none of ours, and the pieces of its input.
    Opaque(Fields, String),
}

/// Members of a call that have no place in ours and must come back.
const CALL_EXTRAS: [&str; 2] = ["caller", "toolset_name"];

impl Open {
    /// Opens the block that starts like this. `spare` is an id for a call that has none.
    pub(super) fn new(wire_index: u64, index: u32, start: Fields, spare: &str, out: &mut Vec<Chunk>) -> Self {
        let kind = start.text("type");
        let (block_type, state) = match kind.as_str() {
            "text" => {
                let citations = start.get("citations").and_then(|raw| serde_json::from_str(raw).ok());
                (BlockKind::Text, State::Text { citations: citations.unwrap_or_default() })
            }
            "thinking" => (BlockKind::Reasoning, State::Thinking { signature: start.text("signature") }),
            "redacted_thinking" => (BlockKind::Reasoning, State::Redacted(Fields::default())),
            "tool_use" => (BlockKind::ToolCall, State::Call { pieces: false, start: Fields::default() }),
            _ => (BlockKind::Provider, State::Opaque(Fields::default(), String::new())),
        };
        let mut open = Open { wire_index, index, held: None, state };
        let (mut id, mut name) = (None, None);
        if block_type == BlockKind::ToolCall {
            let given = start.text("id");
            if given.is_empty() {
                out.push(warning("synthesised-tool-call-id", "the provider gave a call no id"));
            }
            id = Some(if given.is_empty() { spare.to_owned() } else { given });
            name = Some(start.text("name"));
        }
        out.push(Chunk::BlockStart { index, block_type, id, name });
        // Servers may put the first words into the start.
        match &mut open.state {
            State::Text { .. } => open.text(BlockKind::Text, start.text("text"), false, out),
            State::Thinking { .. } => open.text(BlockKind::Reasoning, start.text("thinking"), false, out),
            State::Redacted(fields) | State::Opaque(fields, _) => *fields = start,
            State::Call { start: kept, .. } => *kept = start,
        }
        open
    }

    /// Whether it is a call of one of our tools.
    pub(super) fn is_call(&self) -> bool {
        matches!(self.state, State::Call { .. })
    }

    /// Takes a delta in; `false` if it is of no kind this block knows.
    pub(super) fn push(&mut self, delta: Delta<'_>, raw: &str, lenient: bool, out: &mut Vec<Chunk>) -> bool {
        let text = |text: Option<String>| text.unwrap_or_default();
        match (&mut self.state, &*delta.kind) {
            (State::Text { .. }, "text_delta") => self.text(BlockKind::Text, text(delta.text), lenient, out),
            (State::Text { citations }, "citations_delta") => citations.extend(delta.citation),
            (State::Thinking { .. }, "thinking_delta") => {
                self.text(BlockKind::Reasoning, text(delta.thinking), lenient, out);
            }
            (State::Thinking { signature }, "signature_delta") => sign(signature, &text(delta.signature)),
            (State::Call { pieces, .. }, "input_json_delta") => {
                let piece = alone(text(delta.partial_json), lenient);
                if !piece.is_empty() {
                    *pieces = true;
                    out.push(call_delta(self.index, piece));
                }
            }
            (State::Opaque(_, input), "input_json_delta") => input.push_str(&text(delta.partial_json)),
            (State::Opaque(fields, _), "compaction_delta") => {
                fields.overwrite(Fields::read(&alone(raw.to_owned(), lenient)).without("type"));
            }
            _ => return false,
        }
        true
    }

    /// The block is whole: gives out what had to wait for that.
    pub(super) fn close(mut self, out: &mut Vec<Chunk>) {
        let index = self.index;
        self.release(out);
        let data = match self.state {
            State::Text { citations } if citations.is_empty() => None,
            State::Text { citations } => {
                #[derive(serde::Serialize)]
                struct Data {
                    citations: Vec<Box<RawValue>>,
                }
                Raw::from_value(&Data { citations }).ok()
            }
            // Without a signature it cannot be sent back.
            State::Thinking { signature } if signature.is_empty() => None,
            State::Thinking { signature } => {
                let signature = Raw::string(&signature);
                Raw::parse(format!("{{\"type\":\"thinking\",\"signature\":{}}}", signature.get())).ok()
            }
            State::Redacted(fields) => fields.raw(),
            State::Call { pieces, start } => {
                let whole =
                    start.get("input").map(compact).filter(|input| *input != "{}" && *input != "null");
                if let (Some(input), false) = (whole, pieces) {
                    out.push(call_delta(index, input.into_owned()));
                }
                let extras = start.only(&CALL_EXTRAS);
                if extras.is_empty() { None } else { extras.raw() }
            }
            State::Opaque(mut fields, input) => {
                // Without pieces the start has it.
                if !input.is_empty() {
                    match RawValue::from_string(input) {
                        Ok(input) => fields.set("input".to_owned(), input),
                        Err(_) => out.push(warning("invalid-block-input", "a block's input is not JSON")),
                    }
                }
                fields.raw()
            }
        };
        out.extend(data.map(|data| Chunk::ProviderDelta { index, data }));
        out.push(Chunk::BlockEnd { index, block: None });
    }

    /// Gives out half a character that waited in vain.
    pub(super) fn release(&mut self, out: &mut Vec<Chunk>) {
        if self.held.take().is_some() {
            let text = char::REPLACEMENT_CHARACTER.to_string();
            out.push(match self.state {
                State::Thinking { .. } => reasoning(self.index, text),
                _ => Chunk::TextDelta { index: self.index, text },
            });
        }
    }

    fn text(&mut self, kind: BlockKind, text: String, lenient: bool, out: &mut Vec<Chunk>) {
        let text = match lenient || self.held.is_some() {
            true => surrogate::join(&mut self.held, &text),
            false => text,
        };
        if !text.is_empty() {
            out.push(match kind {
                BlockKind::Reasoning => reasoning(self.index, text),
                _ => Chunk::TextDelta { index: self.index, text },
            });
        }
    }
}

/// A signature usually comes in one piece. Servers that cut it are understood, and servers that send a newer one: what
/// ends in padding is a whole one already, and so is what the next piece repeats.
fn sign(signature: &mut String, piece: &str) {
    if !piece.is_empty() && (signature.ends_with('=') || piece.starts_with(signature.as_str())) {
        signature.clear();
    }
    signature.push_str(piece);
}

fn reasoning(index: u32, text: String) -> Chunk {
    Chunk::ReasoningDelta { index, text, channel: None }
}

fn call_delta(index: u32, arguments_delta: String) -> Chunk {
    Chunk::ToolCallDelta { index, arguments_delta, id: None, name: None }
}

/// Text whose halves of characters find no other half.
fn alone(text: String, lenient: bool) -> String {
    if lenient { surrogate::join_alone(text.into()).into_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::sign;

    #[test]
    fn signatures_come_whole_in_pieces_or_again() {
        for (pieces, whole) in [
            (&["SIG=="][..], "SIG=="),
            (&["U0lH", "Mg=="], "U0lHMg=="),
            (&["OLD=", "NEW="], "NEW="),
            (&["abc", "abcdef"], "abcdef"),
            (&["abc=", ""], "abc="),
        ] {
            let mut signature = String::new();
            pieces.iter().for_each(|piece| sign(&mut signature, piece));
            assert_eq!(signature, whole, "{pieces:?}");
        }
    }
}
