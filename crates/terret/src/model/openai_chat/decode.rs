//! From the events of a chat stream to chunks.

use std::borrow::Cow;

use terret_core::chunk::{Chunk, Failure, code};
use terret_core::limits::MAX_BLOCKS;
use terret_core::message::BlockKind;
use terret_core::raw::Raw;

use super::calls::{Calls, Place};
use super::details::{Details, TooMuch};
use super::event::{CallDelta, Choice, Content, Delta, Event, Part, Text};
use crate::limits::MAX_ANSWER_BYTES;
use crate::model::compact::compact;
use crate::model::failure::{self, Secret};
use crate::model::sse::{self, Flow};
use crate::model::surrogate;
use crate::model::wire::{self, End, warning};

/// Folds the events of one response into chunks. Every non-empty delta on the wire is one delta chunk.
#[derive(Default)]
pub(super) struct Decoder {
    /// Masked in failures: servers echo keys.
    pub(super) secret: Option<String>,
    pub(super) response_started: bool,
    /// Blocks opened so far.
    pub(super) blocks: u32,
    /// The text-like block that is open; a switch of channel opens a new one, so that order survives.
    pub(super) channel: Option<(BlockKind, u32)>,
    /// Half of a surrogate pair that waits for its other half in the open channel.
    pub(super) held: Option<u16>,
    pub(super) calls: Calls,
    pub(super) details: Details,
    /// The first reasoning block and the field it came in: where the details belong.
    pub(super) reasoning: Option<(u32, &'static str)>,
    pub(super) usage: Option<Box<str>>,
    pub(super) finish: Option<String>,
    pub(super) refused: bool,
    pub(super) index_reused: bool,
}

/// `finish_reason`s that mean the server gave up, with the class of each.
const FAILED_FINISHES: [(&str, &str); 4] = [
    ("insufficient_system_resource", code::OVERLOADED),
    ("network_error", code::SERVER),
    ("abort", code::SERVER),
    ("error", code::PROVIDER_ERROR),
];

impl Decoder {
    /// A decoder at the start of a response.
    pub(super) fn new(secret: Option<String>) -> Self {
        Decoder { secret, ..Decoder::default() }
    }
}

impl wire::Decoder for Decoder {
    fn event(&mut self, event: sse::Event<'_>, out: &mut Vec<Chunk>) -> Flow<End> {
        if event.data.starts_with("[DONE]") {
            return Flow::Break(End::Done);
        }
        if event.name == "error" {
            return Flow::Break(End::Failed(self.error(event.data)));
        }
        let taken = match serde_json::from_str::<Event<'_>>(event.data) {
            Ok(parsed) => self.take(parsed, event.data, false, out),
            Err(error) => match surrogate::stand_in(event.data) {
                Some(fixed) => match serde_json::from_str::<Event<'_>>(&fixed) {
                    Ok(parsed) => self.take(parsed, event.data, true, out),
                    Err(error) => Err(self.malformed(&error, event.data)),
                },
                None => Err(self.malformed(&error, event.data)),
            },
        };
        match taken {
            Ok(()) => Flow::Continue(()),
            Err(failure) => Flow::Break(End::Failed(failure)),
        }
    }

    fn end(&mut self, done: bool, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        self.conclude(done, out)
    }

    fn flush(&mut self, out: &mut Vec<Chunk>) {
        self.give_out(out);
    }
}

impl Decoder {
    fn take(
        &mut self,
        event: Event<'_>,
        data: &str,
        lenient: bool,
        out: &mut Vec<Chunk>,
    ) -> Result<(), Failure> {
        if let Some(usage) = event.usage.or_else(|| event.x_groq.and_then(|groq| groq.usage)) {
            self.usage = Some(usage.get().into());
        }
        let flat_error = event.object.is_some_and(|object| object.0 == "error");
        if flat_error || event.error.is_some() || event.error_type.is_some() || event.error_message.is_some()
        {
            return Err(self.error(data));
        }
        if !self.response_started {
            let known =
                |text: Option<Text<'_>>| text.map(|text| text.0.into_owned()).filter(|text| !text.is_empty());
            let (response_id, model) = (known(event.id), known(event.model));
            if response_id.is_some() || model.is_some() {
                self.response_started = true;
                out.push(Chunk::ResponseStart { response_id, model });
            }
        }
        // Only one choice was asked for; a server that sends more is not followed into the others.
        let first = event.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0);
        for choice in first {
            self.choice(choice, lenient, out)?;
        }
        self.not_too_many()
    }

    fn not_too_many(&self) -> Result<(), Failure> {
        if self.blocks as usize <= MAX_BLOCKS {
            return Ok(());
        }
        let message = format!("the response opened more than {MAX_BLOCKS} blocks");
        Err(Failure::new(code::MALFORMED_RESPONSE, message))
    }

    fn choice(&mut self, choice: Choice<'_>, lenient: bool, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        if let Some(usage) = choice.usage {
            self.usage = Some(usage.get().into());
        }
        if let Some(delta) = choice.delta {
            self.delta(delta, lenient, out)?;
        }
        // The last word stands; a later null takes nothing back.
        let finish = Text::or_empty(choice.finish_reason);
        if finish.is_empty() {
            return Ok(());
        }
        if let Some((word, class)) = FAILED_FINISHES.iter().find(|(word, _)| *word == finish) {
            return Err(Failure::new(
                class,
                format!("the provider gave up in the middle of its answer: {word}"),
            ));
        }
        self.finish = Some(finish.into_owned());
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, lenient: bool, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        // Some servers send both spellings with the same text: one field only.
        let spelled = Text::or_empty(delta.reasoning_content);
        let (field, thought) = match spelled.is_empty() {
            true => ("reasoning", Text::or_empty(delta.reasoning)),
            false => ("reasoning_content", spelled),
        };
        self.reasoning(field, thought, lenient, out);
        if let Some(details) = delta.reasoning_details.filter(|details| details.get() != "null") {
            self.details.add(details.get()).map_err(|TooMuch| {
                let message = format!(
                    "reasoning details of more than {MAX_ANSWER_BYTES} bytes or {MAX_BLOCKS} entries"
                );
                Failure::new(code::MALFORMED_RESPONSE, message)
            })?;
            if self.reasoning.is_none() && !self.details.is_empty() {
                self.open_reasoning("reasoning", out);
            }
        }
        match delta.content {
            Some(Content::Text(text)) => self.text(BlockKind::Text, text, lenient, out),
            Some(Content::Parts(parts)) => parts.into_iter().for_each(|part| self.part(part, lenient, out)),
            None => {}
        }
        self.text(BlockKind::Refusal, Text::or_empty(delta.refusal), lenient, out);
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, lenient, out)?;
        }
        Ok(())
    }

    fn part(&mut self, part: Part<'_>, lenient: bool, out: &mut Vec<Chunk>) {
        const FIELD: &str = "content.thinking";
        match part.thinking {
            Some(Content::Text(text)) => self.reasoning(FIELD, text, lenient, out),
            Some(Content::Parts(parts)) => {
                for part in parts {
                    self.reasoning(FIELD, Text::or_empty(part.text), lenient, out);
                }
            }
            None => {}
        }
        self.text(BlockKind::Text, Text::or_empty(part.text), lenient, out);
        self.text(BlockKind::Refusal, Text::or_empty(part.refusal), lenient, out);
    }

    fn reasoning(&mut self, field: &'static str, text: Cow<'_, str>, lenient: bool, out: &mut Vec<Chunk>) {
        if text.is_empty() {
            return;
        }
        let index = match self.channel {
            Some((BlockKind::Reasoning, index)) => index,
            _ => self.open_reasoning(field, out),
        };
        self.push_text(BlockKind::Reasoning, index, text, lenient, out);
    }

    fn open_reasoning(&mut self, field: &'static str, out: &mut Vec<Chunk>) -> u32 {
        let index = self.open(BlockKind::Reasoning, out);
        self.reasoning.get_or_insert((index, field));
        let data = format!("{{\"field\":\"{field}\"}}");
        out.extend(Raw::parse(data).ok().map(|data| Chunk::ProviderDelta { index, data }));
        index
    }

    fn text(&mut self, kind: BlockKind, text: Cow<'_, str>, lenient: bool, out: &mut Vec<Chunk>) {
        if text.is_empty() {
            return;
        }
        self.refused |= kind == BlockKind::Refusal;
        let index = match self.channel {
            Some((open, index)) if open == kind => index,
            _ => self.open(kind, out),
        };
        self.push_text(kind, index, text, lenient, out);
    }

    fn open(&mut self, kind: BlockKind, out: &mut Vec<Chunk>) -> u32 {
        self.close_channel(out);
        let index = self.next_block();
        self.channel = Some((kind, index));
        out.push(Chunk::BlockStart { index, block_type: kind, id: None, name: None });
        index
    }

    fn next_block(&mut self) -> u32 {
        self.blocks += 1;
        self.blocks - 1
    }

    pub(super) fn close_channel(&mut self, out: &mut Vec<Chunk>) {
        let held = self.held.take();
        if let (Some((kind, index)), Some(_)) = (self.channel.take(), held) {
            out.push(text_delta(kind, index, char::REPLACEMENT_CHARACTER.to_string()));
        }
    }

    fn push_text(
        &mut self,
        kind: BlockKind,
        index: u32,
        text: Cow<'_, str>,
        lenient: bool,
        out: &mut Vec<Chunk>,
    ) {
        let text = if lenient || self.held.is_some() {
            surrogate::join(&mut self.held, &text)
        } else {
            text.into_owned()
        };
        if !text.is_empty() {
            out.push(text_delta(kind, index, text));
        }
    }

    fn call(&mut self, delta: CallDelta<'_>, lenient: bool, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        let id = Text::or_empty(delta.id);
        let (name, arguments) = match delta.function {
            Some(function) => (Text::or_empty(function.name), function.arguments),
            None => (Cow::Borrowed(""), None),
        };
        let arguments = self.arguments(arguments.map_or("null", |raw| raw.get()), lenient)?;
        if id.is_empty() && name.is_empty() && arguments.is_empty() && delta.extra_content.is_none() {
            return Ok(());
        }
        let at = match self.calls.place(delta.index, &id, &name) {
            Place::Known(at) => at,
            Place::New { index_reused } => {
                self.close_channel(out);
                let block = self.next_block();
                self.not_too_many()?;
                let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
                let (id_known, name_known) = (known(&id), known(&name));
                out.push(Chunk::BlockStart {
                    index: block,
                    block_type: BlockKind::ToolCall,
                    id: id_known,
                    name: name_known,
                });
                if index_reused && !std::mem::replace(&mut self.index_reused, true) {
                    out.push(warning(
                        "tool-call-index-reused",
                        "the provider used one index for several calls",
                    ));
                }
                self.calls.open(block, delta.index, &id, &name)
            }
        };
        let Some(call) = self.calls.get_mut(at) else {
            return Ok(());
        };
        // Set once, by the first that is not empty; repetitions change nothing.
        let id = set_once(&mut call.id, &id);
        let name = set_once(&mut call.name, &name);
        call.push(&arguments);
        let index = call.block;
        if let Some(extra) = delta.extra_content {
            let data = format!("{{\"extra_content\":{}}}", extra.get());
            out.extend(Raw::parse(data).ok().map(|data| Chunk::ProviderDelta { index, data }));
        }
        if !arguments.is_empty() || id.is_some() || name.is_some() {
            out.push(Chunk::ToolCallDelta { index, arguments_delta: arguments.into_owned(), id, name });
        }
        Ok(())
    }

    /// Arguments are a string; an object in its place is taken for its text.
    fn arguments<'a>(&self, raw: &'a str, lenient: bool) -> Result<Cow<'a, str>, Failure> {
        if raw == "null" {
            return Ok(Cow::Borrowed(""));
        }
        if !raw.starts_with('"') {
            return Ok(compact(raw));
        }
        let text = serde_json::from_str::<Text<'a>>(raw).map_err(|error| self.malformed(&error, raw))?;
        Ok(if lenient { surrogate::join_alone(text.0) } else { text.0 })
    }

    fn error(&self, data: &str) -> Failure {
        failure::in_stream(data, Secret(self.secret.as_deref()))
    }

    fn malformed(&self, error: &serde_json::Error, data: &str) -> Failure {
        let message = format!("an event of the stream is not a chat completion chunk: {error}");
        failure::malformed(message, data, Secret(self.secret.as_deref()))
    }
}

fn text_delta(kind: BlockKind, index: u32, text: String) -> Chunk {
    match kind {
        BlockKind::Reasoning => Chunk::ReasoningDelta { index, text, channel: None },
        BlockKind::Refusal => Chunk::RefusalDelta { index, text },
        _ => Chunk::TextDelta { index, text },
    }
}

/// Sets a field that is still empty; says what it set.
fn set_once(field: &mut String, value: &str) -> Option<String> {
    if !field.is_empty() || value.is_empty() {
        return None;
    }
    field.push_str(value);
    Some(value.to_owned())
}
