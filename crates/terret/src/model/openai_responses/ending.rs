//! How a response came out, once its stream has ended.

use terret_core::chunk::{Chunk, Failure, FinishKind, code};
use terret_core::limits::MAX_BLOCKS;
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
        if let Err(failure) = self.catch_up(&response, out).and_then(|()| self.bounded()) {
            self.give_out(false, out);
            return Err(failure);
        }
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

    /// What only the end of the response says: items that were never ended or never told of, and encrypted reasoning.
    fn catch_up(&mut self, response: &Response<'_>, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        let output = response.output.as_deref().unwrap_or_default();
        if output.len() > MAX_BLOCKS {
            let message = format!("the response has more than {MAX_BLOCKS} items");
            return Err(Failure::new(code::MALFORMED_RESPONSE, message));
        }
        let items: Vec<(&str, Item<'_>)> =
            output.iter().filter_map(|raw| Some((raw.get(), Item::parse(raw.get()).ok()?))).collect();
        let mut next = self.items.iter().map(Output::at).max().map_or(0, |last| last + 1);
        for (item, known) in items.iter().zip(self.known(&items)) {
            match known {
                Some(here) if self.items[here].is_done() => {}
                Some(here) => self.done(self.items[here].at(), item.0.to_owned(), out),
                None => {
                    self.done(next, item.0.to_owned(), out);
                    next += 1;
                }
            }
            self.bounded()?;
        }
        self.items.iter_mut().for_each(|open| open.backfill(items.iter().map(|(_, item)| item)));
        Ok(())
    }

    /// Which of our items each of these is: by its id, or where proxies change ids, the next one of its kind.
    fn known(&self, items: &[(&str, Item<'_>)]) -> Vec<Option<usize>> {
        let mut free = vec![true; self.items.len()];
        let mut known = vec![None; items.len()];
        for by_id in [true, false] {
            for ((_, item), known) in items.iter().zip(&mut known).filter(|(_, known)| known.is_none()) {
                let (id, kind) = (item.text("id"), Kind::of(item.kind()));
                let same = |open: &Output| match by_id {
                    true => !id.is_empty() && open.id() == id,
                    false => open.kind == kind,
                };
                let mut candidates = self.items.iter().enumerate().filter(|(here, _)| free[*here]);
                *known = candidates.find(|(_, open)| same(open)).map(|(here, _)| here);
                if let Some(here) = *known {
                    free[here] = false;
                }
            }
        }
        known
    }

    fn completed(&self) -> Result<FinishKind, Failure> {
        let refused = |part: &Part| part.kind == BlockKind::Refusal;
        if self.items.iter().any(Output::is_cut_call) {
            let message = "the response ended before its calls were whole";
            Err(Failure::new(code::STREAM_CLOSED, message))
        } else if self.has_calls() {
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
