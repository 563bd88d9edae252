//! What stands before the messages of a body, in one fixed order. It decides bytes of `anthropic-messages@1`.

use terret_core::fact::Header;
use terret_core::raw::Raw;

use super::dialect::{Dialect, Thinking};
use super::fields::Fields;
use crate::model::compact::compact;
use crate::model::json::{Json, Value};
use crate::model::{OUTPUT_SCHEMA, OutputSchema};

/// Keys the codec writes itself; parameters of these names do not go through.
pub(super) const RESERVED: [&str; 10] = [
    "model",
    "max_tokens",
    "system",
    "tools",
    "thinking",
    "output_config",
    "stop_sequences",
    "cache_control",
    "stream",
    "messages",
];

/// Parameters with names of our own.
const OURS: [&str; 7] = [
    "max_output_tokens",
    "reasoning_effort",
    OUTPUT_SCHEMA,
    "stop",
    "tool_choice",
    "parallel_tool_calls",
    "cache_key",
];

/// Marks the block it stands in: up to there the prompt is worth caching.
pub(super) const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

/// What a request asks for that has no limit of its own; the server wants one.
const LIMIT: &str = "32000";

/// Writes everything before the messages and leaves `messages` open. The end of what never changes is marked: the
/// system text, or the last tool where there is none.
pub(super) fn head(json: &mut Json, header: &Header, dialect: &Dialect) {
    let parameter = |name: &str| header.parameters.get(name).map(Raw::get).filter(|raw| *raw != "null");
    let system = header.system.as_deref().filter(|text| !text.trim().is_empty());
    let limit = parameter("max_output_tokens").unwrap_or(LIMIT);
    json.push("{\"model\":");
    json.value(&header.model);
    json.raw_field("max_tokens", limit);
    if let Some(text) = system {
        json.push(",\"system\":[{\"type\":\"text\",\"text\":");
        json.value(text);
        json.push(if dialect.cache_control { MARK } else { "" });
        json.push("}]");
    }
    if !header.tools.is_empty() {
        tools(json, header, dialect.cache_control && system.is_none());
        let choice = tool_choice(parameter("tool_choice"), parameter("parallel_tool_calls"));
        if let Some(choice) = choice {
            json.raw_field("tool_choice", &choice);
        }
    }
    let effort = parameter("reasoning_effort");
    if let Some(thinking) = effort.and_then(|effort| thinking(dialect.thinking, effort, limit)) {
        json.raw_field("thinking", &thinking);
    }
    let effort = effort.filter(|effort| dialect.effort && *effort != NONE);
    // A server that holds answers to a schema takes closed ones only.
    let shape = OutputSchema::among(&header.parameters);
    let shape = shape.filter(|shape| dialect.structured_output && shape.is_strict());
    output_config(json, effort, shape.as_ref().map(|shape| shape.schema.get()));
    if let Some(stop) = parameter("stop") {
        let list = stop.starts_with('[');
        json.raw_field("stop_sequences", &if list { stop.to_owned() } else { format!("[{stop}]") });
    }
    // What we have no name of our own for goes through as it is, sorted by name.
    for (name, raw) in &header.parameters {
        let known = OURS.contains(&name.as_str()) || RESERVED.contains(&name.as_str());
        if !known && raw.get() != "null" {
            json.raw_field(name, raw.get());
        }
    }
    json.raw_field("stream", "true");
    json.push(",\"messages\":[");
}

fn tools(json: &mut Json, header: &Header, marked: bool) {
    json.push(",\"tools\":[");
    for (at, tool) in header.tools.iter().enumerate() {
        json.push(if at == 0 { "" } else { "," });
        let mut one = Json::default();
        one.object(&[
            ("name", Value::Text(&tool.name)),
            ("description", Value::Text(&tool.description)),
            ("input_schema", Value::Raw(&compact(tool.parameters.get()))),
        ]);
        let last = at + 1 == header.tools.len();
        json.append_open(&one);
        json.push(if marked && last { MARK } else { "" });
        json.push("}");
    }
    json.push("]");
}

/// Which tool the model may or must call: in our words, in OpenAI's, or in the wire's own.
fn tool_choice(choice: Option<&str>, parallel: Option<&str>) -> Option<String> {
    let single = parallel == Some("false");
    let given = Fields::read(choice.unwrap_or("{}"));
    let kind = match choice {
        None if !single => return None,
        None | Some("\"auto\"") => "auto",
        Some("\"none\"") => return Some("{\"type\":\"none\"}".to_owned()),
        Some("\"required\"" | "\"any\"") => "any",
        Some(_) if given.text("type") == "function" => "tool",
        // As it is: the server knows best what is wrong with it.
        Some(other) => return Some(other.to_owned()),
    };
    let mut json = Json::default();
    json.push("{\"type\":");
    json.value(kind);
    if kind == "tool" {
        json.push(",\"name\":");
        json.value(&given.get("function").map(Fields::read).unwrap_or_default().text("name"));
    }
    json.push(if single { ",\"disable_parallel_tool_use\":true}" } else { "}" });
    Some(json.into_text())
}

/// The effort that is none.
const NONE: &str = "\"none\"";

fn thinking(how: Thinking, effort: &str, limit: &str) -> Option<String> {
    Some(match how {
        Thinking::None => return None,
        Thinking::Adaptive | Thinking::Budget if effort == NONE => "{\"type\":\"disabled\"}".to_owned(),
        // Models that say nothing of it by themselves are asked for a summary.
        Thinking::Adaptive => "{\"type\":\"adaptive\",\"display\":\"summarized\"}".to_owned(),
        // There is no room to think in.
        Thinking::Budget if limit.parse::<u64>().is_ok_and(|limit| limit <= LEAST_BUDGET_TOKENS) => {
            return None;
        }
        Thinking::Budget => {
            format!("{{\"type\":\"enabled\",\"budget_tokens\":{}}}", budget_tokens(effort, limit))
        }
    })
}

/// Tokens to think with: by effort, and half of the limit at most, so that something can be said. Servers take no less
/// than 1024.
fn budget_tokens(effort: &str, limit: &str) -> u64 {
    let wanted = match effort.trim_matches('"') {
        "minimal" => 1024,
        "low" => 4096,
        "high" => 16_384,
        "xhigh" | "max" => 32_768,
        _ => 8192,
    };
    let half = limit.parse::<u64>().unwrap_or(0) / 2;
    wanted.min(half).max(LEAST_BUDGET_TOKENS)
}

/// Servers take no smaller budget, and none that is not below the limit of the answer.
const LEAST_BUDGET_TOKENS: u64 = 1024;

fn output_config(json: &mut Json, effort: Option<&str>, schema: Option<&str>) {
    // The least it knows; others have a word below.
    let effort = effort.map(|effort| if effort == "\"minimal\"" { "\"low\"" } else { effort });
    let format = schema.map(|schema| format!("{{\"type\":\"json_schema\",\"schema\":{}}}", compact(schema)));
    let mut fields = Vec::new();
    fields.extend(effort.map(|effort| ("effort", Value::Raw(effort))));
    fields.extend(format.as_deref().map(|format| ("format", Value::Raw(format))));
    if !fields.is_empty() {
        json.push(",\"output_config\":");
        json.object(&fields);
    }
}
