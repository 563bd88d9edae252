//! Everything of a body before its messages, in one fixed order. Like the codec, it never changes what it writes.

use terret_core::fact::Header;
use terret_core::raw::Raw;

use super::codec::FIRST;
use super::dialect::{Dialect, MaxTokensField, StructuredOutput, Thinking};
use crate::model::compact::compact;
use crate::model::json::{Json, Value};
use crate::model::{OUTPUT_SCHEMA, OutputSchema};

/// Keys the codec writes itself; parameters of these names do not go through.
pub(super) const RESERVED: [&str; 13] = [
    "model",
    "messages",
    "tools",
    "stream",
    "stream_options",
    "store",
    "max_tokens",
    "max_completion_tokens",
    "thinking",
    "reasoning",
    "prompt_cache_key",
    "n",
    "functions",
];

/// Everything before the messages, in one fixed order; leaves `messages` open.
pub(super) fn head(json: &mut Json, header: &Header, dialect: &Dialect, version: &str) {
    let parameter = |name: &str| header.parameters.get(name).map(Raw::get).filter(|raw| *raw != "null");
    json.push("{\"model\":");
    json.value(&header.model);
    if let Some(limit) = parameter("max_output_tokens") {
        json.raw_field(
            match dialect.max_tokens_field {
                MaxTokensField::MaxTokens => "max_tokens",
                MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            },
            limit,
        );
    }
    if let Some(effort) = parameter("reasoning_effort") {
        thinking(json, dialect.thinking, effort);
    }
    // What we have no name of our own for goes through as it is, sorted by name.
    let ours = ["max_output_tokens", "reasoning_effort", "cache_key", "parallel_tool_calls", "tool_choice"];
    let has_schema = |name: &str| name == OUTPUT_SCHEMA && version != FIRST.name;
    for (name, raw) in &header.parameters {
        let passes =
            !ours.contains(&name.as_str()) && !RESERVED.contains(&name.as_str()) && !has_schema(name);
        if passes && raw.get() != "null" {
            json.raw_field(dialect.name_of(name), raw.get());
        }
    }
    if let Some(schema) = OutputSchema::among(&header.parameters).filter(|_| has_schema(OUTPUT_SCHEMA)) {
        response_format(json, dialect.structured_output, &schema);
    }
    if dialect.store {
        json.raw_field("store", "false");
    }
    if let Some(key) = parameter("cache_key").filter(|_| dialect.prompt_cache_key) {
        json.raw_field("prompt_cache_key", key);
    }
    json.raw_field("stream", "true");
    if dialect.stream_options {
        json.raw_field("stream_options", "{\"include_usage\":true}");
    }
    // Servers refuse an empty list of tools, and what is about tools without any.
    if !header.tools.is_empty() {
        json.push(",\"tools\":[");
        for (at, tool) in header.tools.iter().enumerate() {
            json.push(if at == 0 {
                "{\"type\":\"function\",\"function\":"
            } else {
                ",{\"type\":\"function\",\"function\":"
            });
            json.object(&[
                ("name", Value::Text(&tool.name)),
                ("description", Value::Text(&tool.description)),
                ("parameters", Value::Raw(&compact(tool.parameters.get()))),
            ]);
            json.push("}");
        }
        json.push("]");
        if let Some(choice) = parameter("tool_choice") {
            let any = dialect.tool_choice_any && choice == "\"required\"";
            json.raw_field("tool_choice", if any { "\"any\"" } else { choice });
        }
        if let Some(parallel) = parameter("parallel_tool_calls").filter(|_| dialect.parallel_tool_calls) {
            json.raw_field("parallel_tool_calls", parallel);
        }
    } else if dialect.tools_with_history {
        json.raw_field("tools", "[]");
    }
    json.push(",\"messages\":[");
}

fn thinking(json: &mut Json, switch: Thinking, effort: &str) {
    match switch {
        Thinking::None => {}
        Thinking::Effort => json.raw_field("reasoning_effort", effort),
        Thinking::Deepseek if effort == "\"none\"" => json.raw_field("thinking", "{\"type\":\"disabled\"}"),
        Thinking::Deepseek => {
            json.raw_field("thinking", "{\"type\":\"enabled\"}");
            json.raw_field("reasoning_effort", effort);
        }
        Thinking::Openrouter => json.raw_field("reasoning", &format!("{{\"effort\":{effort}}}")),
        Thinking::Switch => json.raw_field("reasoning", &format!("{{\"enabled\":{}}}", effort != "\"none\"")),
        Thinking::Template => {
            let kwargs = format!("{{\"enable_thinking\":{}}}", effort != "\"none\"");
            json.raw_field("chat_template_kwargs", &kwargs);
        }
    }
}

fn response_format(json: &mut Json, how: StructuredOutput, schema: &OutputSchema) {
    match how {
        // The answer of a server that holds it to a schema is an object.
        StructuredOutput::JsonSchema if schema.is_object() => {
            let mut inner = Json::default();
            inner.object(&[
                ("name", Value::Text(&schema.name)),
                ("strict", Value::Raw(if schema.is_strict() { "true" } else { "false" })),
                ("schema", Value::Raw(&compact(schema.schema.get()))),
            ]);
            let mut format = Json::default();
            format.object(&[("type", Value::Text("json_schema")), ("json_schema", Value::Json(&inner))]);
            json.field("response_format", &format);
        }
        StructuredOutput::JsonObject if schema.is_object() => {
            json.raw_field("response_format", "{\"type\":\"json_object\"}");
        }
        StructuredOutput::None | StructuredOutput::JsonSchema | StructuredOutput::JsonObject => {}
    }
}
