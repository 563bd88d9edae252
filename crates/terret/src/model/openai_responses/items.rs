//! Messages as items of `openai-responses@1`. What `codec.rs` says holds here: these bytes never change.

use std::collections::BTreeSet;

use terret_core::chunk::Failure;
use terret_core::id::CallId;
use terret_core::message::{Block, CallKind, Message, ProviderData, Source};
use terret_core::raw::Raw;

use super::codec::PROTOCOL;
use super::dialect::{Dialect, Images, ReplayReasoning};
use super::members::Members;
use super::parts::{Part, Parts};
use crate::limits::MAX_RESPONSES_ID_BYTES;
use crate::model::Blobs;
use crate::model::compact::compact;
use crate::model::ids::Ids;
use crate::model::json::Json;

/// The items so far, as far as later ones depend on them.
pub(super) struct Items {
    dialect: Dialect,
    provider: String,
    model: String,
    calls: Ids,
    /// Ids of calls in free text: their results are items of their own kind.
    custom: BTreeSet<String>,
    /// Ids of items: a server refuses one that comes twice.
    used: BTreeSet<String>,
    json: Json,
    empty: bool,
}

/// How ids of calls in free text begin.
const CUSTOM: &str = "ct";

impl Items {
    pub(super) fn new(dialect: Dialect, provider: &str, model: &str) -> Self {
        Items {
            dialect,
            provider: provider.to_owned(),
            model: model.to_owned(),
            calls: Ids::new(|id| id.len() <= MAX_RESPONSES_ID_BYTES),
            custom: BTreeSet::new(),
            used: BTreeSet::new(),
            json: Json::default(),
            empty: true,
        }
    }

    /// What was written since it was last cleared.
    pub(super) fn json(&mut self) -> &mut Json {
        &mut self.json
    }

    /// The items of a user's message: its results, and what is said around them.
    pub(super) fn user(&mut self, content: &[Block], blobs: Blobs<'_>) -> Result<(), Failure> {
        let send = self.dialect.images != Images::Placeholder;
        let in_results = self.dialect.images == Images::Send;
        let mut said = Parts::default();
        for block in content {
            if let Block::ToolResult { call, content, .. } = block {
                self.say(&std::mem::take(&mut said));
                self.result(*call, &Parts::of(content, in_results, blobs)?);
            } else {
                said.push(block, send, blobs)?;
            }
        }
        self.say(&said);
        Ok(())
    }

    fn say(&mut self, parts: &Parts) {
        if !parts.is_empty() {
            self.begin_message("user");
            self.json.push(",\"content\":");
            parts.write(&mut self.json);
            self.json.push("}");
        }
    }

    fn result(&mut self, call: CallId, parts: &Parts) {
        let Some(id) = self.calls.answer(call) else {
            // A server refuses an answer nobody asked for; the words are kept.
            return self.say(&parts.after(Part::Text(format!("Result of tool call {call}:"))));
        };
        let custom = self.custom.contains(&id);
        self.begin(if custom { "custom_tool_call_output" } else { "function_call_output" });
        self.json.text_field("call_id", &id);
        match parts.text() {
            Some(text) => self.json.text_field("output", if text.is_empty() { "(no output)" } else { &text }),
            None => {
                self.json.push(",\"output\":");
                parts.write(&mut self.json);
            }
        }
        self.json.push("}");
    }

    /// The items of an answer: those the model wrote, if all of them may go back to it; else what anyone may read.
    pub(super) fn assistant(&mut self, message: &Message) {
        self.calls.begin_message();
        let whole = self.goes_back(message);
        let mut rest = message.content.as_slice();
        while let Some((block, after)) = rest.split_first() {
            rest = after;
            match block {
                Block::Text { provider, .. } | Block::Refusal { provider, .. } => {
                    let data = provider.as_ref().filter(|_| whole);
                    let same = rest.iter().take_while(|next| belongs(next, data)).count();
                    let (more, after) = rest.split_at(same);
                    rest = after;
                    self.text(data, std::iter::once(block).chain(more));
                }
                Block::ToolCall { call, id, name, arguments, kind, provider } => {
                    let id = self.calls.ask(*call, id);
                    let data = provider.as_ref().filter(|_| whole);
                    self.call(&id, name, arguments, *kind, data);
                }
                Block::Reasoning { provider: Some(data), .. } if whole => {
                    self.item(Members::of(data.data.get()).get("item").unwrap_or("{}"));
                }
                Block::Provider { wire } if whole => self.item(wire.get()),
                Block::Reasoning { .. }
                | Block::Provider { .. }
                | Block::ToolResult { .. }
                | Block::Json { .. }
                | Block::Image { .. }
                | Block::File { .. } => {}
            }
        }
    }

    /// Whether an answer goes back as the items it was. They bind each other: a server refuses reasoning without
    /// the item it led to, and an item by its id without its reasoning. So it is all of them or none, and none of a
    /// response that another model wrote or that was cut: its blocks have no data.
    fn goes_back(&self, message: &Message) -> bool {
        let own = matches!(
            &message.source,
            Source::Model { provider, model, wire: Some(wire), .. }
                if *provider == self.provider && *model == self.model && wire.split('@').next() == Some(PROTOCOL)
        );
        let led_to_nothing = matches!(message.content.last(), Some(Block::Reasoning { .. }) | None);
        let mut here = BTreeSet::new();
        let mut free = |item: &str| match Members::of(item).text("id") {
            Some(id) => !self.used.contains(&id) && here.insert(id),
            None => true,
        };
        own && !led_to_nothing
            && message.content.iter().all(|block| match block {
                Block::Text { provider, .. }
                | Block::Refusal { provider, .. }
                | Block::ToolCall { provider, .. } => provider.as_ref().is_some_and(|data| self.is_own(data)),
                Block::Reasoning { provider, .. } => provider
                    .as_ref()
                    .filter(|data| self.is_own(data))
                    .and_then(|data| Members::of(data.data.get()).get("item"))
                    .is_some_and(|item| self.takes_reasoning(item) && free(item)),
                Block::Provider { wire } => free(wire.get()),
                Block::ToolResult { .. } | Block::Json { .. } | Block::Image { .. } | Block::File { .. } => {
                    true
                }
            })
    }

    fn takes_reasoning(&self, item: &str) -> bool {
        match self.dialect.replay_reasoning {
            ReplayReasoning::None => false,
            ReplayReasoning::Encrypted => Members::of(item).text("encrypted_content").is_some(),
            ReplayReasoning::Whole => true,
        }
    }

    /// Opaque data goes back only to the protocol, the provider and the model it came from.
    fn is_own(&self, data: &ProviderData) -> bool {
        data.protocol == PROTOCOL && data.route == self.provider && data.model == self.model
    }

    /// One message item of these blocks.
    fn text<'b>(&mut self, data: Option<&ProviderData>, blocks: impl Iterator<Item = &'b Block>) {
        let mut content = Json::default();
        for block in blocks {
            let (kind, field, text, provider) = match block {
                Block::Refusal { text, provider } if data.is_some() => ("refusal", "refusal", text, provider),
                Block::Text { text, provider } | Block::Refusal { text, provider } => {
                    ("output_text", "text", text, provider)
                }
                _ => continue,
            };
            if text.is_empty() {
                continue;
            }
            content.push(if content.is_empty() { "[{\"type\":" } else { ",{\"type\":" });
            content.value(kind);
            content.text_field(field, text);
            if let (Some(_), "text", Some(own)) = (data, field, provider) {
                content
                    .raw_field("annotations", Members::of(own.data.get()).get("annotations").unwrap_or("[]"));
            }
            content.push("}");
        }
        if content.is_empty() {
            return;
        }
        match data {
            Some(data) => {
                self.begin("message");
                self.json.text_field("role", "assistant");
                self.data(data, "msg");
            }
            None => self.begin_message("assistant"),
        }
        content.push("]");
        self.json.push(",\"content\":");
        self.json.push(&String::from_utf8_lossy(content.as_bytes()));
        self.json.push("}");
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str, kind: CallKind, data: Option<&ProviderData>) {
        let custom = kind == CallKind::Custom && self.dialect.custom_calls;
        self.begin(if custom { "custom_tool_call" } else { "function_call" });
        self.json.text_field("call_id", id);
        self.json.text_field("name", name);
        match kind {
            CallKind::Custom if custom => {
                self.custom.insert(id.to_owned());
                self.json.text_field("input", arguments);
            }
            CallKind::Custom => {
                let object = format!("{{\"input\":{}}}", Raw::string(arguments).get());
                self.json.text_field("arguments", &object);
            }
            CallKind::Json if arguments.trim().is_empty() => self.json.text_field("arguments", "{}"),
            CallKind::Json => self.json.text_field("arguments", arguments),
        }
        if let Some(data) = data {
            self.data(data, if custom { CUSTOM } else { "fc" });
        }
        self.json.push("}");
    }

    /// The item's own id, where it is legal and free, its status, and whatever else belongs to it.
    fn data(&mut self, data: &ProviderData, prefix: &str) {
        let members = Members::of(data.data.get());
        let id =
            members.text("item_id").filter(|id| id.starts_with(prefix) && id.len() <= MAX_RESPONSES_ID_BYTES);
        if let Some(id) = id.filter(|id| self.used.insert(id.clone())) {
            self.json.text_field("id", &id);
        }
        // A call in free text goes back without a state: the server knows none there.
        if prefix != CUSTOM {
            self.json.text_field("status", &members.text("status").unwrap_or_else(|| "completed".to_owned()));
        }
        members.write_except(&["item_id", "status", "custom", "annotations"], &mut self.json);
    }

    /// An item as it came.
    fn item(&mut self, raw: &str) {
        self.used.extend(Members::of(raw).text("id"));
        self.separate();
        self.json.push(&compact(raw));
    }

    fn begin(&mut self, kind: &str) {
        self.separate();
        self.json.push("{\"type\":");
        self.json.value(kind);
    }

    /// A message without an id.
    fn begin_message(&mut self, role: &str) {
        if self.dialect.typed_messages {
            self.begin("message");
            return self.json.text_field("role", role);
        }
        self.separate();
        self.json.push("{\"role\":");
        self.json.value(role);
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.empty, false) {
            self.json.push(",");
        }
    }
}

/// Whether a block goes into the same message item: the next part of the same item, or just the next text.
fn belongs(block: &Block, to: Option<&ProviderData>) -> bool {
    let (Block::Text { provider, .. } | Block::Refusal { provider, .. }) = block else {
        return false;
    };
    let id = |data: &ProviderData| Members::of(data.data.get()).text("item_id");
    match to {
        Some(data) => id(data).is_some() && provider.as_ref().and_then(id) == id(data),
        None => true,
    }
}
