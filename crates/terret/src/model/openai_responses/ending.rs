//! How a response came out, once its stream has ended.

use terret_core::chunk::{Chunk, Failure, FinishKind, code};
use terret_core::message::BlockKind;

use super::decode::{Decoder, Last};
use super::event::{Item, Response};
use super::output::{Kind, Output, Part};
use super::usage;
use crate::model::wire::warning;

impl Decoder {
    /// The stream ended cleanly. Says how the response came out.
    pub(super) fn conclude(&mut self, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        let Some(Last { incomplete, response }) = self.last.take() else {
            self.give_out(false, out);
            let message = "the stream ended before the answer was finished";
            return Err(Failure::new(code::STREAM_CLOSED, message));
        };
        let response: Response<'_> = serde_json::from_str(&response).unwrap_or_default();
        self.catch_up(&response, out);
        for change in response.input_transformations.iter().flatten() {
            out.push(warning("input-transformations", change.get()));
        }
        // Some servers end what is not complete with the event of what is.
        let incomplete = incomplete || response.status.as_deref() == Some("incomplete");
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let (kind, raw) = match (incomplete, reason) {
            (false, _) => (self.completed(), "completed".to_owned()),
            (true, Some(reason)) => (Ok(incomplete_kind(&reason)), format!("incomplete.{reason}")),
            // Nothing but the output limit is left without a reason; whatever it was, no call may run.
            (true, None) => (Ok(FinishKind::MaxTokens), "incomplete".to_owned()),
        };
        if let Ok(FinishKind::MaxTokens) = kind
            && self.has_calls()
        {
            out.push(warning("dropped-truncated-tool-calls", "the answer was cut: its calls must not run"));
        }
        self.give_out(true, out);
        out.push(Chunk::Finish { reason: kind?, raw });
        Ok(())
    }

    /// What only the end of the response says: items that were never ended, and encrypted reasoning.
    fn catch_up(&mut self, response: &Response<'_>, out: &mut Vec<Chunk>) {
        let output = response.output.as_deref().unwrap_or_default();
        if self.items.is_empty() {
            for (at, raw) in output.iter().enumerate() {
                self.done(at as u64, raw.get().to_owned(), out);
            }
            return;
        }
        let items: Vec<(&str, Item<'_>)> =
            output.iter().filter_map(|raw| Some((raw.get(), Item::parse(raw.get()).ok()?))).collect();
        let late = |(at, id): (u64, &str)| {
            let same = items.iter().find(|(_, item)| item.text("id") == id);
            same.map(|(raw, _)| (at, (*raw).to_owned()))
        };
        let late: Vec<(u64, String)> =
            self.items.iter().filter_map(|open| open.unfinished().and_then(late)).collect();
        for (at, raw) in late {
            self.done(at, raw, out);
        }
        self.items.iter_mut().for_each(|open| open.backfill(items.iter().map(|(_, item)| item)));
    }

    fn completed(&self) -> Result<FinishKind, Failure> {
        let refused = |part: &Part| part.kind == BlockKind::Refusal;
        if self.has_calls() {
            Ok(FinishKind::ToolCalls)
        } else if self.items.iter().any(|item| item.parts.iter().any(refused)) {
            Ok(FinishKind::Refusal)
        } else if self.items.iter().any(Output::says) {
            Ok(FinishKind::Stop)
        } else {
            Err(Failure::new(code::EMPTY_RESPONSE, "the answer is empty"))
        }
    }

    fn has_calls(&self) -> bool {
        self.items.iter().any(|item| matches!(item.kind, Kind::Call(_)))
    }

    /// Gives out what waits for the end of the stream, however it ends.
    pub(super) fn give_out(&mut self, finished: bool, out: &mut Vec<Chunk>) {
        for item in std::mem::take(&mut self.items) {
            item.end(finished, out);
        }
        if let Some(usage) = self.usage.take().and_then(|raw| usage::read(&raw)) {
            out.push(Chunk::Usage { usage });
        }
    }
}

fn incomplete_kind(reason: &str) -> FinishKind {
    match reason {
        "max_output_tokens" => FinishKind::MaxTokens,
        "content_filter" => FinishKind::ContentFilter,
        _ => FinishKind::Other,
    }
}
