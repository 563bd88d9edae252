//! Bodies of `openai-responses@1`. This file and `items.rs` decide bytes that stored sessions are proven against:
//! what they write for a given header and messages never changes. A better body is a new codec.

use bytes::Bytes;
use terret_core::chunk::Failure;
use terret_core::fact::Header;
use terret_core::message::{Message, Role};
use terret_core::raw::Raw;

use super::dialect::{Dialect, Reasoning, StructuredOutput};
use super::items::Items;
use super::members::Members;
use crate::model::compact::compact;
use crate::model::grown::Grown;
use crate::model::json::{Json, Value};
use crate::model::{Blobs, Body, Codec, OUTPUT_SCHEMA, OutputSchema, row_of};

/// The codec.
pub struct OpenAiResponses;

/// Its name and version.
pub const NAME: &str = "openai-responses@1";

/// The protocol, as opaque data names it.
pub const PROTOCOL: &str = "openai-responses";

impl Codec for OpenAiResponses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn begin(&self, header: &Header) -> Result<Box<dyn Body>, Failure> {
        let dialect: Dialect = row_of(header, NAME)?;
        let mut json = Json::default();
        head(&mut json, header, &dialect);
        let grown = Grown::new(json.as_bytes());
        let items = Items::new(dialect, &header.provider, &header.model);
        Ok(Box::new(ResponsesBody { grown, items }))
    }
}

/// Keys the codec writes itself, and keys of a conversation that is kept elsewhere; parameters of these names do not
/// go through.
pub const RESERVED: [&str; 14] = [
    "model",
    "instructions",
    "input",
    "tools",
    "reasoning",
    "text",
    "include",
    "store",
    "stream",
    "prompt_cache_key",
    "background",
    "conversation",
    "previous_response_id",
    "prompt",
];

/// Parameters of our own names.
const OURS: [&str; 7] = [
    "max_output_tokens",
    "reasoning_effort",
    "cache_key",
    "parallel_tool_calls",
    "tool_choice",
    OUTPUT_SCHEMA,
    "verbosity",
];

/// Everything before the items, in one fixed order; leaves `input` open.
fn head(json: &mut Json, header: &Header, dialect: &Dialect) {
    let parameter = |name: &str| header.parameters.get(name).map(Raw::get).filter(|raw| *raw != "null");
    json.push("{\"model\":");
    json.value(&header.model);
    if let Some(system) = &header.system {
        json.text_field("instructions", system);
    }
    // Servers refuse what is about tools without any.
    if !header.tools.is_empty() {
        tools(json, header);
        if let Some(choice) = parameter("tool_choice") {
            json.raw_field("tool_choice", &flat(choice));
        }
        if let Some(parallel) = parameter("parallel_tool_calls").filter(|_| dialect.parallel_tool_calls) {
            json.raw_field("parallel_tool_calls", parallel);
        }
    }
    if let Some(effort) = parameter("reasoning_effort") {
        match dialect.reasoning {
            Reasoning::None => {}
            Reasoning::EffortAndSummary if effort != "\"none\"" => {
                json.raw_field("reasoning", &format!("{{\"effort\":{effort},\"summary\":\"auto\"}}"));
            }
            Reasoning::Effort | Reasoning::EffortAndSummary => {
                json.raw_field("reasoning", &format!("{{\"effort\":{effort}}}"));
            }
        }
    }
    let native = dialect.structured_output == StructuredOutput::JsonSchema;
    let shape = OutputSchema::among(&header.parameters).filter(|shape| native && shape.is_object());
    text(json, shape.as_ref(), parameter("verbosity"));
    if let Some(limit) = parameter("max_output_tokens") {
        json.raw_field("max_output_tokens", limit);
    }
    // What we have no name of our own for goes through as it is, sorted by name.
    for (name, raw) in &header.parameters {
        if !OURS.contains(&name.as_str()) && !RESERVED.contains(&name.as_str()) && raw.get() != "null" {
            json.raw_field(name, raw.get());
        }
    }
    if dialect.include_encrypted {
        json.raw_field("include", "[\"reasoning.encrypted_content\"]");
    }
    if dialect.store {
        json.raw_field("store", "false");
    }
    json.raw_field("stream", "true");
    if let Some(key) = parameter("cache_key").filter(|_| dialect.prompt_cache_key) {
        json.raw_field("prompt_cache_key", key);
    }
    json.push(",\"input\":[");
}

fn tools(json: &mut Json, header: &Header) {
    json.push(",\"tools\":[");
    for (at, tool) in header.tools.iter().enumerate() {
        if at > 0 {
            json.push(",");
        }
        json.object(&[
            ("type", Value::Text("function")),
            ("name", Value::Text(&tool.name)),
            ("description", Value::Text(&tool.description)),
            ("parameters", Value::Raw(&compact(tool.parameters.get()))),
            // Left out, a server may tighten the schema by itself.
            ("strict", Value::Raw("false")),
        ]);
    }
    json.push("]");
}

/// A choice of one tool has its name at the top here, and one level deeper in chat completions.
fn flat(choice: &str) -> String {
    let outer = Members::of(choice);
    match outer.get("function").and_then(|function| Members::of(function).text("name")) {
        Some(name) => format!("{{\"type\":\"function\",\"name\":{}}}", Raw::string(&name).get()),
        None => choice.to_owned(),
    }
}

/// The shape of the answer and how wordy it is.
fn text(json: &mut Json, shape: Option<&OutputSchema>, verbosity: Option<&str>) {
    let mut fields = Vec::new();
    if let Some(shape) = shape {
        let (name, strict) = (Raw::string(&shape.name), shape.is_strict());
        let (name, schema) = (name.get(), compact(shape.schema.get()));
        fields.push(format!(
            "\"format\":{{\"type\":\"json_schema\",\"name\":{name},\"schema\":{schema},\"strict\":{strict}}}"
        ));
    }
    fields.extend(verbosity.map(|verbosity| format!("\"verbosity\":{verbosity}")));
    if !fields.is_empty() {
        json.raw_field("text", &format!("{{{}}}", fields.join(",")));
    }
}

struct ResponsesBody {
    /// The body up to the last item; the closing brackets are added on demand.
    grown: Grown,
    items: Items,
}

impl Body for ResponsesBody {
    fn push(&mut self, message: &Message, blobs: Blobs<'_>) -> Result<(), Failure> {
        match message.role {
            Role::User => self.items.user(&message.content, blobs)?,
            Role::Assistant => self.items.assistant(message),
        }
        self.grown.push(self.items.json().as_bytes());
        self.items.json().clear();
        Ok(())
    }

    fn bytes(&mut self) -> Bytes {
        self.grown.lend("]}")
    }

    fn stable(&self) -> &[u8] {
        self.grown.written()
    }
}
