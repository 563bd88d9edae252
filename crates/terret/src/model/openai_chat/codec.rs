//! Bodies of chat completions. This file decides bytes that stored sessions are proven against: what it writes
//! for a given header and messages never changes. A better body is a new codec.
//!
//! `openai-chat@2` reads more columns of the row than `@1` did, where they had no effect; their careful values give
//! the same bytes.

use bytes::Bytes;
use terret_core::chunk::Failure;
use terret_core::fact::Header;
use terret_core::id::CallId;
use terret_core::message::{Block, Message, ProviderData, Role, Source};
use terret_core::raw::Raw;

use super::dialect::{Dialect, EmptyContent, Images, ReasoningField, ReasoningReplay, SystemRole};
use super::head::head;
use super::parts::Parts;
use crate::model::attachment::data_url;
use crate::model::compact::compact;
use crate::model::grown::Grown;
use crate::model::ids::Ids;
use crate::model::json::{Json, Value};
use crate::model::{Blobs, Body, Codec, row_of};

/// A version of the codec.
pub struct OpenAiChat {
    pub(super) name: &'static str,
}

/// The first: without pictures and without schemas of answers.
pub static FIRST: OpenAiChat = OpenAiChat { name: "openai-chat@1" };

/// The one new requests are written by.
pub static NEWEST: OpenAiChat = OpenAiChat { name: NAME };

/// Name and version of the newest.
pub const NAME: &str = "openai-chat@2";

/// The protocol, as opaque data names it.
pub const PROTOCOL: &str = "openai-chat";

impl Codec for OpenAiChat {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self, header: &Header) -> Result<Box<dyn Body>, Failure> {
        let dialect: Dialect = row_of(header, self.name)?;
        let dialect = if self.name == FIRST.name { dialect.of_the_first() } else { dialect };
        let mut json = Json::default();
        head(&mut json, header, &dialect, self.name);
        let ids = dialect.call_ids.rule();
        let mut body = ChatBody {
            grown: Grown::new(b""),
            json,
            dialect,
            model: header.model.clone(),
            ids,
            images: Parts::default(),
            skips_blank: self.name != FIRST.name,
            behind_tools: false,
            empty: true,
        };
        if let Some(system) = &header.system {
            body.separate();
            let role = match body.dialect.system_role {
                SystemRole::System => "system",
                SystemRole::Developer => "developer",
            };
            body.json.object(&[("role", Value::Text(role)), ("content", Value::Text(system))]);
        }
        body.add();
        Ok(Box::new(body))
    }
}

struct ChatBody {
    /// The body up to the last message; the closing brackets are added on demand.
    grown: Grown,
    /// What is being added to it.
    json: Json,
    dialect: Dialect,
    model: String,
    ids: Ids,
    /// Pictures out of tool results: this wire takes them in a user's message only, behind the last result.
    images: Parts,
    /// An answer that says nothing is left out; the first version sent it.
    skips_blank: bool,
    /// The last message is a tool's.
    behind_tools: bool,
    empty: bool,
}

impl Body for ChatBody {
    fn push(&mut self, message: &Message, blobs: Blobs<'_>) -> Result<(), Failure> {
        match message.role {
            Role::User => self.user(&message.content, blobs)?,
            Role::Assistant => self.assistant(message),
        }
        self.add();
        Ok(())
    }

    fn bytes(&mut self) -> Bytes {
        self.grown.lend("]}")
    }

    fn stable(&self) -> &[u8] {
        self.grown.written()
    }
}

impl ChatBody {
    fn add(&mut self) {
        self.grown.push(self.json.as_bytes());
        self.json.clear();
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.empty, false) {
            self.json.push(",");
        }
    }

    fn user(&mut self, content: &[Block], blobs: Blobs<'_>) -> Result<(), Failure> {
        let mut parts = Parts::default();
        for block in content {
            if let Block::ToolResult { call, content, .. } = block {
                self.say(std::mem::take(&mut parts));
                self.tool_result(*call, content, blobs)?;
            } else if let Some(picture) = self.picture(block, blobs)? {
                parts.show(picture);
            } else {
                parts.push(block);
            }
        }
        self.say(parts);
        Ok(())
    }

    /// A picture as this server takes it; `None` if it takes none, or if it is none.
    fn picture(&self, block: &Block, blobs: Blobs<'_>) -> Result<Option<String>, Failure> {
        match (block, self.dialect.images) {
            (Block::Image { attachment }, Images::Send) => data_url(attachment, blobs),
            _ => Ok(None),
        }
    }

    /// A user message, unless there is nothing to say.
    fn say(&mut self, parts: Parts) {
        if !parts.is_empty() {
            self.show_images();
            self.user_message(&parts);
        }
    }

    fn user_message(&mut self, parts: &Parts) {
        if self.behind_tools && self.dialect.bridge_after_tools {
            self.message(&[("role", Value::Text("assistant")), ("content", Value::Text("Understood."))]);
        }
        self.message(&[("role", Value::Text("user")), ("content", Value::Json(&parts.content()))]);
    }

    fn tool_result(&mut self, call: CallId, content: &[Block], blobs: Blobs<'_>) -> Result<(), Failure> {
        let (mut said, mut seen) = (Parts::default(), Parts::default());
        for block in content {
            match (block, self.picture(block, blobs)?) {
                (_, Some(picture)) => seen.show(picture),
                (Block::Image { .. }, None) => seen.push(block),
                (_, None) => said.push(block),
            }
        }
        let Some(id) = self.ids.answer(call) else {
            // A server refuses an answer nobody asked for; the words are kept.
            let mut words = Parts::default();
            words.line(&format!("Result of tool call {call}:\n{}", said.text()));
            words.extend(seen);
            self.say(words);
            return Ok(());
        };
        let none = if seen.is_empty() { "(no output)" } else { "(see the image below)" };
        let text = said.text();
        self.message(&[
            ("role", Value::Text("tool")),
            ("tool_call_id", Value::Text(&id)),
            ("content", Value::Text(if text.is_empty() { none } else { &text })),
        ]);
        self.behind_tools = true;
        if !seen.is_empty() {
            self.images.line(&format!("Image(s) from tool result {id}:"));
            self.images.extend(seen);
        }
        // Answers must follow the calls without anything between them.
        if self.ids.all_answered() {
            self.show_images();
        }
        Ok(())
    }

    fn show_images(&mut self) {
        let images = std::mem::take(&mut self.images);
        if !images.is_empty() {
            self.user_message(&images);
        }
    }

    fn assistant(&mut self, message: &Message) {
        self.show_images();
        self.ids.begin_message();
        let text = message.text();
        let mut calls = Json::default();
        let foreign = !matches!(&message.source, Source::Model { model, .. } if *model == self.model);
        for block in &message.content {
            if let Block::ToolCall { call, id, name, arguments, provider, .. } = block {
                let first = calls.is_empty();
                let id = self.ids.ask(*call, id);
                let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
                calls.push(if first { "[" } else { "," });
                let mut function = Json::default();
                function.object(&[("name", Value::Text(name)), ("arguments", Value::Text(arguments))]);
                let extra = self.extra_content(provider.as_ref(), foreign && first);
                let mut fields = vec![
                    ("id", Value::Text(&id)),
                    ("type", Value::Text("function")),
                    ("function", Value::Json(&function)),
                ];
                fields.extend(extra.as_deref().map(|extra| ("extra_content", Value::Raw(extra))));
                calls.object(&fields);
            }
        }
        let reasoning = self.reasoning(&message.content);
        let thought = reasoning.as_ref().is_some_and(|(_, json)| json != "\"\"");
        if self.skips_blank && calls.is_empty() && !thought && text.trim().is_empty() {
            return;
        }
        let mut fields = vec![("role", Value::Text("assistant"))];
        let null = !calls.is_empty() && text.is_empty() && self.dialect.empty_content == EmptyContent::Null;
        fields.push(("content", if null { Value::Raw("null") } else { Value::Text(&text) }));
        if let Some((field, json)) = &reasoning {
            fields.push((field, Value::Raw(json)));
        }
        if !calls.is_empty() {
            calls.push("]");
            fields.push(("tool_calls", Value::Json(&calls)));
        }
        self.message(&fields);
    }

    /// The field that carries reasoning back, and its JSON.
    fn reasoning(&self, content: &[Block]) -> Option<(&'static str, String)> {
        if self.dialect.reasoning_replay == ReasoningReplay::None {
            return None;
        }
        let mut text = String::new();
        let mut details = None;
        for block in content {
            if let Block::Reasoning { text: thought, provider: Some(data) } = block
                && self.is_own(data)
            {
                text.push_str(thought);
                details = details.or_else(|| member(&data.data, "reasoning_details"));
            }
        }
        let quoted = Raw::string(&text).get().to_owned();
        let with_empty = self.dialect.reasoning_replay == ReasoningReplay::AllWithEmpty;
        match (self.dialect.reasoning_field, details) {
            (ReasoningField::ReasoningDetails, Some(details)) => Some(("reasoning_details", details)),
            _ if text.is_empty() && !with_empty => None,
            (ReasoningField::ReasoningContent, _) => Some(("reasoning_content", quoted)),
            (ReasoningField::Reasoning | ReasoningField::ReasoningDetails, _) => Some(("reasoning", quoted)),
        }
    }

    fn extra_content(&self, provider: Option<&ProviderData>, foreign_first: bool) -> Option<String> {
        // Gemini's word for "this call was not made by me": without it, it refuses the history.
        const STAND_IN: &str = "{\"google\":{\"thought_signature\":\"skip_thought_signature_validator\"}}";
        if !self.dialect.extra_content {
            return None;
        }
        let own =
            provider.filter(|data| self.is_own(data)).and_then(|data| member(&data.data, "extra_content"));
        own.or_else(|| foreign_first.then(|| STAND_IN.to_owned()))
    }

    /// Opaque data goes back only to the protocol and model it came from.
    fn is_own(&self, data: &ProviderData) -> bool {
        data.protocol == PROTOCOL && data.model == self.model
    }

    fn message(&mut self, fields: &[(&str, Value<'_>)]) {
        self.behind_tools = false;
        self.separate();
        self.json.object(fields);
    }
}

/// One member of a JSON object, as it was written, without blanks.
fn member(raw: &Raw, name: &str) -> Option<String> {
    let object: std::collections::BTreeMap<String, Raw> = serde_json::from_str(raw.get()).ok()?;
    object.get(name).map(|value| compact(value.get()).into_owned())
}
