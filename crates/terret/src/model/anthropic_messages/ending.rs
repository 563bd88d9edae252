//! How a message came out, once its stream has ended.

use terret_core::chunk::{Chunk, Failure, FinishKind, Usage, code};

use super::decode::Decoder;
use super::fields::Fields;
use crate::model::failure::cut;
use crate::model::wire::warning;

impl Decoder {
    /// The stream ended cleanly, with its end marker or without. It is whole if it says why it stopped and left no block
    /// unfinished; the marker alone proves nothing, and its absence takes nothing away.
    pub(super) fn conclude(
        &mut self,
        done: bool,
        unfinished: bool,
        out: &mut Vec<Chunk>,
    ) -> Result<(), Failure> {
        let Some(word) = self.stop_reason.take().filter(|_| !unfinished) else {
            let message = "the stream ended before the answer was finished";
            return Err(Failure::new(code::STREAM_CLOSED, message));
        };
        if !done {
            out.push(warning("missing-done", "the stream ended without its end marker"));
        }
        let reason = self.kind(&word, out);
        if reason == FinishKind::Stop && !self.said {
            return Err(Failure::new(code::EMPTY_RESPONSE, "the answer is empty"));
        }
        out.push(Chunk::Finish { reason, raw: word });
        Ok(())
    }

    /// Gives out what was counted, once.
    pub(super) fn count(&mut self, out: &mut Vec<Chunk>) {
        let counted = std::mem::take(&mut self.usage);
        if !counted.is_empty() {
            out.push(Chunk::Usage { usage: usage(&counted) });
        }
    }

    fn kind(&self, word: &str, out: &mut Vec<Chunk>) -> FinishKind {
        let kind = match word {
            "end_turn" | "stop_sequence" if self.calls => {
                out.push(warning("finish-stop-with-tool-calls", "the answer stops with calls in it"));
                FinishKind::ToolCalls
            }
            "end_turn" | "stop_sequence" => FinishKind::Stop,
            "tool_use" if !self.calls => {
                out.push(warning("finish-tool-calls-without-call", "the answer promises calls and has none"));
                FinishKind::Stop
            }
            "tool_use" => FinishKind::ToolCalls,
            "max_tokens" => FinishKind::MaxTokens,
            "model_context_window_exceeded" => FinishKind::ContextWindow,
            "pause_turn" | "compaction" => FinishKind::Pause,
            "refusal" => FinishKind::Refusal,
            "sensitive" => FinishKind::ContentFilter,
            _ => FinishKind::Other,
        };
        if matches!(kind, FinishKind::MaxTokens | FinishKind::ContextWindow) && self.calls {
            out.push(warning("dropped-truncated-tool-calls", "the answer was cut: its calls must not run"));
        }
        if let (FinishKind::Refusal, Some(details)) = (kind, &self.stop_details) {
            let said = [&details.category, &details.explanation];
            let said: Vec<&str> = said.into_iter().flatten().map(|text| cut(text, 1000)).collect();
            if !said.is_empty() {
                out.push(warning("refusal", &said.join(": ")));
            }
        }
        kind
    }
}

/// Token counts, which are in disjoint classes on this wire already.
fn usage(counted: &Fields) -> Usage {
    let count = |name: &str| counted.get(name)?.parse().ok();
    let details = counted.get("output_tokens_details").map(Fields::read).unwrap_or_default();
    Usage {
        input_tokens: count("input_tokens").unwrap_or(0),
        cache_read_tokens: count("cache_read_input_tokens"),
        cache_write_tokens: count("cache_creation_input_tokens"),
        output_tokens: count("output_tokens").unwrap_or(0),
        reasoning_tokens: details.get("thinking_tokens").and_then(|raw| raw.parse().ok()),
        raw: counted.raw(),
    }
}
