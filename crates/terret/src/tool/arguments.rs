//! Arguments: the schema a model sees, and what it is told when its JSON does not fit.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use terret_core::raw::Raw;

use super::{Call, Done};

/// Code of the error for arguments that do not fit the schema.
pub const INVALID_ARGUMENTS: &str = "invalid-arguments";

/// Reads a call's arguments. The error says which argument is wrong and what the tool takes.
pub fn parse_args<T: DeserializeOwned + JsonSchema>(call: &Call) -> Result<T, Done> {
    parse_text(&call.name, &call.arguments)
}

/// The same from text. Nothing at all means `{}`: some providers send an empty string for no arguments.
pub fn parse_text<T: DeserializeOwned + JsonSchema>(tool: &str, text: &str) -> Result<T, Done> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let refused = |sentence: String| {
        let takes = takes(&schema::<T>());
        Done::error(tool, INVALID_ARGUMENTS, format!("{tool}: {sentence}. The tool takes {takes}."))
    };
    // Serde would read a struct from an array as well; a model that sends one has misread the schema.
    if !text.trim_start().starts_with('{') {
        return Err(refused("the arguments must be one JSON object".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| refused(sentence(text, &error)))
}

/// The JSON Schema of `T` as models get it: one inlined object, closed, the same bytes every time.
pub fn schema<T: JsonSchema>() -> Raw {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator = settings.with_transform(RecursiveTransform(tidy)).into_generator();
    let mut root = generator.into_root_schema_for::<T>();
    if root.get("type").is_some_and(|kind| kind == "object") && root.get("additionalProperties").is_none() {
        // A struct without fields has no `properties`; some providers insist on the key.
        root.insert("properties".to_owned(), Value::Object(serde_json::Map::new()));
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    let mut value = root.to_value();
    // Some other crate of the program may have switched serde_json to insertion order.
    value.sort_all_objects();
    Raw::from_value(&value).expect("a JSON value can be written as JSON")
}

fn tidy(schema: &mut Schema) {
    schema.remove("title");
    // `uint64` and the like are no formats of JSON Schema, and some providers refuse what they do not know.
    let rust_format = |format: &Value| format.as_str().is_some_and(|f| f.contains("int") || f == "double");
    if schema.get("format").is_some_and(rust_format) {
        schema.remove("format");
    }
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

fn sentence(text: &str, error: &serde_json::Error) -> String {
    let whole = error.to_string();
    if !error.is_data() {
        return format!("the arguments are not valid JSON: {whole}");
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = whole.strip_suffix(&place).unwrap_or(&whole);
    // These name their field, and their place is the end of the object.
    let named = ["missing field", "unknown field", "duplicate field"];
    if named.iter().any(|start| what.starts_with(start)) {
        return what.to_owned();
    }
    match argument_at(text, error) {
        Some(name) => format!("argument `{name}`: {what}"),
        None => what.to_owned(),
    }
}

/// The top-level argument in whose value the error is.
fn argument_at(text: &str, error: &serde_json::Error) -> Option<String> {
    let earlier_lines = text.split_inclusive('\n').take(error.line().checked_sub(1)?);
    let at = earlier_lines.map(str::len).sum::<usize>() + error.column();
    let values: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let inside = |value: &RawValue| {
        // Borrowed raw values are slices of the text.
        let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
        (start..=start + value.get().len()).contains(&at)
    };
    values.into_iter().find(|(_, value)| inside(value)).map(|(name, _)| name)
}

/// For example `command (string, required), timeout_ms (integer)`.
fn takes(schema: &Raw) -> String {
    let schema: Value = serde_json::from_str(schema.get()).unwrap_or(Value::Null);
    let Some(properties) = schema["properties"].as_object().filter(|p| !p.is_empty()) else {
        return "no arguments".to_owned();
    };
    let required = |name: &str| schema["required"].as_array().is_some_and(|r| r.iter().any(|n| n == name));
    let fields = properties.iter().map(|(name, property)| {
        let kind = match &property["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(kinds) => {
                kinds.iter().filter_map(Value::as_str).find(|k| *k != "null").unwrap_or("null")
            }
            _ => "value",
        };
        let required = if required(name) { ", required" } else { "" };
        format!("{name} ({kind}{required})")
    });
    fields.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
