//! From the events of a stream of responses to chunks.

use terret_core::chunk::{Channel, Chunk, Failure, code};
use terret_core::limits::MAX_BLOCKS;
use terret_core::message::{BlockKind, CallKind};

use super::event::{Event, Item, Response};
use super::output::{BETWEEN_THOUGHTS, Kind, Output, Part};
use crate::limits::MAX_KEPT_BYTES;
use crate::model::failure::{self, Secret};
use crate::model::payload::ErrorWords;
use crate::model::sse::{self, Flow};
use crate::model::surrogate;
use crate::model::wire::{self, End};

/// Folds the events of one response into chunks. Every non-empty delta on the wire is one delta chunk. What goes
/// back to the provider is given out at the end: only a response that came to its end may be sent back.
#[derive(Default)]
pub(super) struct Decoder {
    /// Masked in failures: servers echo keys.
    secret: Option<String>,
    response_started: bool,
    /// Blocks opened so far.
    blocks: u32,
    pub(super) items: Vec<Output>,
    /// Bytes of the items that are kept as they came.
    kept_bytes: usize,
    /// Ids of the items of a server that gives no places.
    ids: Vec<Box<str>>,
    pub(super) usage: Option<Box<str>>,
    pub(super) last: Option<Last>,
}

/// The event that ended the response well.
pub(super) struct Last {
    /// Whether it says that the response is not complete.
    pub(super) incomplete: bool,
    /// The response as it stands in the event.
    pub(super) response: String,
}

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
        // Strings are read where they are needed, too late to find half of a character in them.
        let has_halves = event.data.contains("\\ud") || event.data.contains("\\uD");
        let fixed = if has_halves { surrogate::stand_in(event.data) } else { None };
        let taken = match serde_json::from_str::<Event<'_>>(fixed.as_deref().unwrap_or(event.data)) {
            Ok(parsed) => self.take(&parsed, event.data, fixed.is_some(), out),
            Err(error) => Err(self.malformed(&error, event.data)),
        };
        match taken {
            // The first terminal event decides.
            Ok(()) if self.last.is_some() => Flow::Break(End::Done),
            Ok(()) => Flow::Continue(()),
            Err(failure) => Flow::Break(End::Failed(failure)),
        }
    }

    fn end(&mut self, _: bool, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        self.conclude(out)
    }

    fn flush(&mut self, out: &mut Vec<Chunk>) {
        self.give_out(false, out);
    }
}

impl Decoder {
    fn take(
        &mut self,
        event: &Event<'_>,
        data: &str,
        lenient: bool,
        out: &mut Vec<Chunk>,
    ) -> Result<(), Failure> {
        if event.error.is_some() || event.error_type.is_some() || event.error_message.is_some() {
            return Err(self.error(data));
        }
        let at = event.output_index.unwrap_or_else(|| self.place(event.item_id()));
        let content = event.content_index.unwrap_or(0);
        let mut delta = |kind, block, channel, index| {
            self.delta(at, kind, Place { block, channel, index }, event, lenient, out)
        };
        match event.kind() {
            "response.created" | "response.in_progress" | "response.queued" => self.start(event, out),
            "response.output_text.delta" => delta(Kind::Message, BlockKind::Text, None, content),
            "response.refusal.delta" => delta(Kind::Message, BlockKind::Refusal, None, content),
            "response.reasoning_summary_text.delta" => {
                let index = event.summary_index.unwrap_or(0);
                delta(Kind::Reasoning, BlockKind::Reasoning, Some(Channel::Summary), index);
            }
            "response.reasoning_text.delta" => {
                delta(Kind::Reasoning, BlockKind::Reasoning, Some(Channel::Raw), content);
            }
            "response.function_call_arguments.delta" => {
                delta(Kind::Call(CallKind::Json), BlockKind::ToolCall, None, 0);
            }
            "response.custom_tool_call_input.delta" => {
                delta(Kind::Call(CallKind::Custom), BlockKind::ToolCall, None, 0);
            }
            "response.output_item.added" => {
                if let Some(raw) = event.item {
                    self.added(at, &plain(raw.get(), lenient), out);
                }
            }
            "response.output_item.done" => {
                if let Some(raw) = event.item {
                    self.done(at, plain(raw.get(), lenient), out);
                }
            }
            "response.completed" | "response.incomplete" => {
                self.start(event, out);
                if event.is_failed() {
                    return Err(self.failed(event, data, "the provider failed to respond"));
                }
                let response = event.response.map_or("{}", |raw| raw.get());
                let incomplete = event.kind() == "response.incomplete";
                self.last = Some(Last { incomplete, response: plain(response, lenient) });
            }
            "response.failed" => {
                self.start(event, out);
                return Err(self.failed(event, data, "the provider failed to respond"));
            }
            "response.cancelled" => {
                self.start(event, out);
                return Err(self.failed(event, data, "the provider cancelled the response"));
            }
            "error" => return Err(self.error(data)),
            _ => {}
        }
        self.bounded()
    }

    /// Whether the response is still one that a model may have made.
    pub(super) fn bounded(&self) -> Result<(), Failure> {
        let blocks = self.items.len().max(self.ids.len()).max(self.blocks as usize);
        let message = if blocks > MAX_BLOCKS {
            format!("the response opened more than {MAX_BLOCKS} blocks")
        } else if self.kept_bytes > MAX_KEPT_BYTES {
            format!("the items of the response are larger than {} MiB", MAX_KEPT_BYTES >> 20)
        } else {
            return Ok(());
        };
        Err(Failure::new(code::MALFORMED_RESPONSE, message))
    }

    /// The place of an item whose server gives none (llama.cpp): where its id came among the ids. What has no id
    /// either is about the last one.
    fn place(&mut self, id: Option<&str>) -> u64 {
        let known = id.and_then(|id| self.ids.iter().position(|known| **known == *id));
        if let (Some(id), None) = (id, known) {
            self.ids.push(id.into());
        }
        known.unwrap_or(self.ids.len().saturating_sub(1)) as u64
    }

    fn start(&mut self, event: &Event<'_>, out: &mut Vec<Chunk>) {
        let response = event.response.and_then(|raw| serde_json::from_str::<Response<'_>>(raw.get()).ok());
        let Some(response) = response else {
            return;
        };
        if let Some(usage) = response.usage {
            self.usage = Some(usage.get().into());
        }
        let known = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (response_id, model) = (known(response.id), known(response.model));
        if !self.response_started && (response_id.is_some() || model.is_some()) {
            self.response_started = true;
            out.push(Chunk::ResponseStart { response_id, model });
        }
    }

    fn added(&mut self, at: u64, raw: &str, out: &mut Vec<Chunk>) {
        let Ok(item) = Item::parse(raw) else {
            return;
        };
        let known = |open: &Output| open.is(at, Kind::of(item.kind())) && !open.is_done();
        if !self.items.iter().any(known) {
            self.open(at, &item, out);
        }
    }

    /// Opens an item, and the block of an item that is one.
    fn open(&mut self, at: u64, item: &Item<'_>, out: &mut Vec<Chunk>) -> usize {
        let kind = Kind::of(item.kind());
        self.items.push(Output::new(at, kind, item.text("id")));
        let here = self.items.len() - 1;
        if let Some(block) = kind.block() {
            self.open_part(here, block, item, out);
        }
        here
    }

    fn open_part(&mut self, here: usize, kind: BlockKind, item: &Item<'_>, out: &mut Vec<Chunk>) -> usize {
        let block = self.blocks;
        self.blocks += 1;
        let part = Part::new(block, kind, item);
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (id, name) = (known(&part.id), known(&part.name));
        out.push(Chunk::BlockStart { index: block, block_type: kind, id, name });
        let parts = &mut self.items[here].parts;
        parts.push(part);
        parts.len() - 1
    }

    /// The part a text belongs to, opened if it is new.
    fn part(&mut self, here: usize, place: &Place, out: &mut Vec<Chunk>) -> &mut Part {
        let whole_item = self.items[here].kind != Kind::Message;
        let same = |part: &Part| whole_item || (part.kind == place.block && part.index == place.index);
        let known = self.items[here].parts.iter().position(same);
        let at = known.unwrap_or_else(|| self.open_part(here, place.block, &Item::default(), out));
        let part = &mut self.items[here].parts[at];
        if known.is_none() {
            part.index = place.index;
        }
        part
    }

    fn delta(
        &mut self,
        at: u64,
        kind: Kind,
        place: Place,
        event: &Event<'_>,
        lenient: bool,
        out: &mut Vec<Chunk>,
    ) {
        let text = event.delta.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return;
        };
        // Ids of items are not asked: proxies change them from event to event.
        let here = match self.items.iter().rposition(|open| open.is(at, kind)) {
            Some(here) if self.items[here].is_done() => return,
            Some(here) => here,
            None => {
                self.items.push(Output::new(at, kind, String::new()));
                self.items.len() - 1
            }
        };
        let part = self.part(here, &place, out);
        let text = match lenient || part.held.is_some() {
            true => surrogate::join(&mut part.held, &text),
            false => text,
        };
        part.say(place.channel, place.index, text, out);
    }

    /// An item is complete, and this is it: what it says beats what was streamed.
    pub(super) fn done(&mut self, at: u64, raw: String, out: &mut Vec<Chunk>) {
        let Ok(item) = Item::parse(&raw) else {
            return;
        };
        let kind = Kind::of(item.kind());
        let here = match self.items.iter().rposition(|open| open.is(at, kind)) {
            Some(here) if self.items[here].is_done() => return,
            Some(here) => here,
            None => self.open(at, &item, out),
        };
        match kind {
            Kind::Message => {
                // One more than there may be, so that it is seen that there are too many.
                for (index, part) in item.parts("content").into_iter().take(MAX_BLOCKS + 1).enumerate() {
                    let (block, text) = match part.kind() {
                        "output_text" => (BlockKind::Text, part.text("text")),
                        "refusal" => (BlockKind::Refusal, part.text("refusal")),
                        _ => continue,
                    };
                    if !text.is_empty() {
                        let place = Place { block, channel: None, index: index as u64 };
                        self.part(here, &place, out).correct(text, out);
                    }
                }
            }
            Kind::Reasoning => {
                let thoughts = item.parts("content").into_iter().chain(item.parts("summary"));
                let thoughts: Vec<String> =
                    thoughts.map(|part| part.text("text")).filter(|text| !text.is_empty()).collect();
                if let Some(part) = self.items[here].parts.first_mut().filter(|_| !thoughts.is_empty()) {
                    part.correct(thoughts.join(BETWEEN_THOUGHTS), out);
                }
            }
            Kind::Call(kind) => {
                let place = Place { block: BlockKind::ToolCall, channel: None, index: 0 };
                self.part(here, &place, out).correct_call(kind, &item, out);
            }
            Kind::Other => {}
        }
        self.kept_bytes += raw.len();
        self.items[here].set_done(raw);
    }

    fn failed(&self, event: &Event<'_>, data: &str, otherwise: &str) -> Failure {
        let error = event
            .response
            .and_then(|raw| serde_json::from_str::<Response<'_>>(raw.get()).ok()?.error)
            .and_then(|raw| ErrorWords::from_bare(&serde_json::from_str(raw.get()).ok()?));
        let words = error.unwrap_or_else(|| ErrorWords::sentence(otherwise));
        failure::from_words(&words, data, Secret(self.secret.as_deref()))
    }

    fn error(&self, data: &str) -> Failure {
        failure::in_stream(data, Secret(self.secret.as_deref()))
    }

    fn malformed(&self, error: &serde_json::Error, data: &str) -> Failure {
        let message = format!("an event of the stream is not one of a response: {error}");
        failure::malformed(message, data, Secret(self.secret.as_deref()))
    }
}

/// Where in an item a text belongs.
struct Place {
    block: BlockKind,
    channel: Option<Channel>,
    index: u64,
}

/// The text without stand-ins for halves of characters.
fn plain(raw: &str, lenient: bool) -> String {
    if lenient { surrogate::join_alone(raw.into()).into_owned() } else { raw.to_owned() }
}
