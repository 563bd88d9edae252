//! How a chat response came out, once its stream has ended.

use terret_core::chunk::{Chunk, Failure, FinishKind, code};
use terret_core::raw::Raw;

use super::decode::Decoder;
use super::details::Details;
use super::usage;
use crate::model::wire::warning;

impl Decoder {
    /// The stream ended cleanly, with its end marker or without. Says how the response came out.
    pub(super) fn conclude(&mut self, done: bool, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        let outcome = self.outcome(done, out);
        if let Ok(kind) = outcome {
            self.name_nameless_calls(kind, out);
        }
        self.give_out(out);
        let reason = outcome.map_err(|(class, message)| Failure::new(class, message))?;
        out.push(Chunk::Finish { reason, raw: self.finish.take().unwrap_or_default() });
        Ok(())
    }

    /// Gives out what waits for the end of the stream, however it ends: what is held back, and the usage.
    pub(super) fn give_out(&mut self, out: &mut Vec<Chunk>) {
        self.close_channel(out);
        if let (false, Some((index, field))) = (self.details.is_empty(), self.reasoning) {
            #[derive(serde::Serialize)]
            struct Data<'a> {
                field: &'a str,
                reasoning_details: &'a Details,
            }
            let data = Raw::from_value(&Data { field, reasoning_details: &self.details });
            out.extend(data.ok().map(|data| Chunk::ProviderDelta { index, data }));
            self.details = Details::default();
        }
        if let Some(usage) = self.usage.take().and_then(|raw| usage::read(&raw)) {
            out.push(Chunk::Usage { usage });
        }
    }

    fn outcome(
        &mut self,
        done: bool,
        out: &mut Vec<Chunk>,
    ) -> Result<FinishKind, (&'static str, &'static str)> {
        let closed = (code::STREAM_CLOSED, "the stream ended before the answer was finished");
        let kind = match self.finish.as_deref() {
            None if !done => return Err(closed),
            None => {
                if !self.calls.all_complete() {
                    return Err(closed);
                }
                out.push(warning("missing-finish-reason", "the stream ended without a finish reason"));
                if self.calls.is_empty() { FinishKind::Stop } else { FinishKind::ToolCalls }
            }
            Some(word) => self.kind(word, out),
        };
        if self.finish.is_some() && !done {
            out.push(warning("missing-done", "the stream ended without its end marker"));
        }
        let cut_short = matches!(kind, FinishKind::MaxTokens | FinishKind::ContextWindow);
        if cut_short && !self.calls.is_empty() {
            out.push(warning("dropped-truncated-tool-calls", "the answer was cut: its calls must not run"));
        }
        if kind == FinishKind::Stop && self.blocks == 0 {
            return Err((code::EMPTY_RESPONSE, "the answer is empty"));
        }
        Ok(kind)
    }

    fn kind(&self, word: &str, out: &mut Vec<Chunk>) -> FinishKind {
        match word {
            "stop" | "eos" | "end" if self.refused => FinishKind::Refusal,
            "stop" | "eos" | "end" if !self.calls.is_empty() => {
                out.push(warning("finish-stop-with-tool-calls", "the answer stops with calls in it"));
                FinishKind::ToolCalls
            }
            "stop" | "eos" | "end" => FinishKind::Stop,
            "tool_calls" | "function_call" if self.calls.is_empty() => {
                out.push(warning("finish-tool-calls-without-call", "the answer promises calls and has none"));
                FinishKind::Stop
            }
            "tool_calls" | "function_call" => FinishKind::ToolCalls,
            "length" | "model_length" => FinishKind::MaxTokens,
            "model_context_window_exceeded" => FinishKind::ContextWindow,
            "content_filter" | "sensitive" => FinishKind::ContentFilter,
            _ => FinishKind::Other,
        }
    }

    /// Calls without an id get one, unless nobody will answer them.
    fn name_nameless_calls(&mut self, kind: FinishKind, out: &mut Vec<Chunk>) {
        if kind != FinishKind::ToolCalls {
            return;
        }
        let (mut warned, mut taken) = (false, self.calls.ids());
        for ordinal in 0.. {
            let Some(call) = self.calls.get_mut(ordinal) else {
                break;
            };
            if !call.id.is_empty() {
                continue;
            }
            let free = (ordinal..).map(|n| format!("call_{n}")).find(|id| taken.insert(id.clone()));
            let free = free.unwrap_or_default();
            call.id.clone_from(&free);
            let index = call.block;
            out.push(Chunk::ToolCallDelta {
                index,
                arguments_delta: String::new(),
                id: Some(free),
                name: None,
            });
            if !std::mem::replace(&mut warned, true) {
                out.push(warning("synthesised-tool-call-id", "the provider gave a call no id"));
            }
        }
    }
}
