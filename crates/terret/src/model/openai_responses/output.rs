//! The items of a response's output, as far as they came: each is one block or, for a message, one for each part.

use terret_core::chunk::{Channel, Chunk};
use terret_core::message::{Block, BlockKind, CallKind};
use terret_core::raw::Raw;

use super::event::Item;
use super::members::Members;
use crate::model::json::Json;

/// What stands between the parts of a reasoning item.
pub(super) const BETWEEN_THOUGHTS: &str = "\n\n";

/// What an item is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call(CallKind),
    /// Anything else is kept whole.
    Other,
}

impl Kind {
    pub(super) fn of(kind: &str) -> Self {
        match kind {
            "message" => Kind::Message,
            "reasoning" => Kind::Reasoning,
            "function_call" => Kind::Call(CallKind::Json),
            "custom_tool_call" => Kind::Call(CallKind::Custom),
            _ => Kind::Other,
        }
    }

    /// The block such an item is; a message has one for each part, once it is known.
    pub(super) fn block(self) -> Option<BlockKind> {
        match self {
            Kind::Message => None,
            Kind::Reasoning => Some(BlockKind::Reasoning),
            Kind::Call(_) => Some(BlockKind::ToolCall),
            Kind::Other => Some(BlockKind::Provider),
        }
    }
}

/// An item.
pub(super) struct Output {
    at: u64,
    pub(super) kind: Kind,
    id: String,
    pub(super) parts: Vec<Part>,
    /// The item as its end repeated it.
    done: Option<String>,
}

impl Output {
    pub(super) fn new(at: u64, kind: Kind, id: String) -> Self {
        Output { at, kind, id, parts: Vec::new(), done: None }
    }

    /// Whether it is the item of this kind at this place of the output.
    pub(super) fn is(&self, at: u64, kind: Kind) -> bool {
        self.at == at && self.kind == kind
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    pub(super) fn set_done(&mut self, raw: String) {
        self.done = Some(raw);
    }

    /// Its place in the output.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Its id as it began; empty where there was none.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether it is a call of which nobody said that it is whole, and whose arguments do not show it.
    pub(super) fn is_cut_call(&self) -> bool {
        let whole = |part: &Part| serde_json::from_str::<serde::de::IgnoredAny>(&part.said).is_ok();
        match self.kind {
            Kind::Call(CallKind::Json) => self.done.is_none() && !self.parts.iter().all(whole),
            Kind::Call(CallKind::Custom) => self.done.is_none(),
            Kind::Message | Kind::Reasoning | Kind::Other => false,
        }
    }

    /// Whether it says anything: a thought nobody sees is no answer.
    pub(super) fn says(&self) -> bool {
        match self.kind {
            Kind::Message | Kind::Reasoning => self.parts.iter().any(Part::says),
            Kind::Call(_) | Kind::Other => true,
        }
    }

    /// Takes encrypted reasoning that came only with the end of the response.
    pub(super) fn backfill<'i>(&mut self, mut output: impl Iterator<Item = &'i Item<'i>>) {
        const FIELD: &str = "encrypted_content";
        let Some(done) = self.done.as_ref().filter(|_| self.kind == Kind::Reasoning) else {
            return;
        };
        let own = Members::of(done);
        if own.text(FIELD).is_some() {
            return;
        }
        let id = own.text("id");
        let same = output.find(|item| id.is_some() && item.0.text("id") == id);
        if let Some(raw) = same.and_then(|item| item.0.get(FIELD)).filter(|raw| raw.starts_with('"')) {
            self.done = Some(own.with(FIELD, raw));
        }
    }

    /// Gives out what waits for the end. Of a response that did not come to its end nothing goes back to the
    /// provider that would bind it.
    pub(super) fn end(self, finished: bool, out: &mut Vec<Chunk>) {
        let done = self.done.as_deref();
        // Looked into once, however many parts it has.
        let message = done.filter(|_| self.kind == Kind::Message).map(|raw| Item(Members::of(raw)));
        let parts = message.as_ref().map(|item| item.parts("content")).unwrap_or_default();
        for mut part in self.parts {
            if part.held.take().is_some() && done.is_none() {
                part.say(None, part.index, char::REPLACEMENT_CHARACTER.to_string(), out);
            }
            let data = done.and_then(|raw| match self.kind {
                Kind::Message => {
                    message.as_ref().map(|item| message_data(item, parts.get(part.index as usize)))
                }
                Kind::Call(kind) => Some(call_data(raw, kind)),
                Kind::Reasoning => finished.then(|| format!("{{\"item\":{raw}}}")),
                Kind::Other => finished.then(|| raw.to_owned()),
            });
            let index = part.block;
            let data = data.and_then(|data| Raw::parse(data).ok());
            out.extend(data.map(|data| Chunk::ProviderDelta { index, data }));
            if finished || done.is_some() {
                out.push(Chunk::BlockEnd { index, block: part.whole });
            }
        }
    }
}

/// What has to go back with a part of a message: the id, and all that our blocks do not say.
fn message_data(item: &Item<'_>, part: Option<&Item<'_>>) -> String {
    let mut json = begin(item);
    item.0.write_except(&["id", "type", "role", "content", "status", "item_id", "annotations"], &mut json);
    let notes = part.and_then(|part| part.0.get("annotations"));
    if let Some(notes) = notes.filter(|notes| !matches!(*notes, "[]" | "null")) {
        json.raw_field("annotations", notes);
    }
    finish(json)
}

fn call_data(raw: &str, kind: CallKind) -> String {
    let item = Item(Members::of(raw));
    let mut json = begin(&item);
    if kind == CallKind::Custom {
        json.raw_field("custom", "true");
    }
    let said = ["id", "type", "call_id", "name", "arguments", "input", "status", "item_id", "custom"];
    item.0.write_except(&said, &mut json);
    finish(json)
}

fn begin(item: &Item<'_>) -> Json {
    let mut json = Json::default();
    if let Some(id) = item.0.text("id") {
        json.raw_field("item_id", Raw::string(&id).get());
    }
    if item.text("status") == "incomplete" {
        json.raw_field("status", "\"incomplete\"");
    }
    json
}

fn finish(json: Json) -> String {
    let text = String::from_utf8_lossy(json.as_bytes());
    format!("{{{}}}", text.strip_prefix(',').unwrap_or_default())
}

/// A part of an item that is one block.
pub(super) struct Part {
    pub(super) block: u32,
    pub(super) kind: BlockKind,
    /// Which part of its item it is; of a reasoning item, the part that was said last.
    pub(super) index: u64,
    channel: Option<Channel>,
    pub(super) id: String,
    pub(super) name: String,
    said: String,
    /// Half of a surrogate pair that waits for its other half.
    pub(super) held: Option<u16>,
    /// The block where it is not what was streamed.
    whole: Option<Block>,
}

impl Part {
    pub(super) fn new(block: u32, kind: BlockKind, item: &Item<'_>) -> Self {
        let call = kind == BlockKind::ToolCall;
        let text = |name| if call { item.text(name) } else { String::new() };
        let (id, name) = (text("call_id"), text("name"));
        Part { block, kind, index: 0, channel: None, id, name, said: String::new(), held: None, whole: None }
    }

    fn says(&self) -> bool {
        !self.said.is_empty() || self.whole.is_some()
    }

    /// Gives out more of its text.
    pub(super) fn say(&mut self, channel: Option<Channel>, index: u64, text: String, out: &mut Vec<Chunk>) {
        if text.is_empty() {
            return;
        }
        let mut text = text;
        if self.kind == BlockKind::Reasoning {
            let another = (self.channel, self.index) != (channel, index) && channel.is_some();
            if another && !self.said.is_empty() {
                text.insert_str(0, BETWEEN_THOUGHTS);
            }
            (self.channel, self.index) = (channel.or(self.channel), index);
        }
        self.said.push_str(&text);
        let (index, channel) = (self.block, self.channel);
        out.push(match self.kind {
            BlockKind::Reasoning => Chunk::ReasoningDelta { index, text, channel },
            BlockKind::Refusal => Chunk::RefusalDelta { index, text },
            BlockKind::ToolCall => {
                Chunk::ToolCallDelta { index, arguments_delta: text, id: None, name: None }
            }
            _ => Chunk::TextDelta { index, text },
        });
    }

    /// What the part is in the end: the rest is said, or all of it is replaced.
    pub(super) fn correct(&mut self, text: String, out: &mut Vec<Chunk>) {
        self.held = None;
        if let Some(rest) = text.strip_prefix(self.said.as_str()) {
            let rest = rest.to_owned();
            return self.say(None, self.index, rest, out);
        }
        self.whole = Some(match self.kind {
            BlockKind::Reasoning => Block::Reasoning { text, provider: None },
            BlockKind::Refusal => Block::Refusal { text, provider: None },
            _ => Block::Text { text, provider: None },
        });
    }

    /// The same for a call.
    pub(super) fn correct_call(&mut self, kind: CallKind, item: &Item<'_>, out: &mut Vec<Chunk>) {
        self.held = None;
        let (id, name) = (item.text("call_id"), item.text("name"));
        let arguments = match kind {
            CallKind::Json => item.arguments(),
            CallKind::Custom => item.text("input"),
        };
        let fits = self.id == id && self.name == name && kind == CallKind::Json;
        match arguments.strip_prefix(self.said.as_str()) {
            Some(rest) if fits => self.say(None, 0, rest.to_owned(), out),
            _ => self.whole = Some(Block::ToolCall { call: None, id, name, arguments, kind, provider: None }),
        }
    }
}
