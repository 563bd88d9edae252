//! The schema an answer has to satisfy, as a parameter of a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use terret_core::raw::Raw;

use crate::limits::MAX_SCHEMA_NAME_BYTES;

/// Name of the parameter. Its value is an [`OutputSchema`]. It is of the turn that asks for it: the next request does
/// not take it over from the log, as it does other parameters.
pub const OUTPUT_SCHEMA: &str = "output_schema";

/// The schema an answer has to satisfy, under a name every wire takes. A codec whose wire can force answers into a
/// schema says so there; the others leave it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// Its name: `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// A JSON Schema.
    pub schema: Raw,
}

impl OutputSchema {
    /// Under a name close to the given one.
    pub fn new(name: &str, schema: Raw) -> Self {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name = name.chars().map(|c| if legal(c) { c } else { '_' }).take(MAX_SCHEMA_NAME_BYTES);
        let name = Some(name.collect()).filter(|name: &String| !name.is_empty());
        OutputSchema { name: name.unwrap_or_else(|| "answer".to_owned()), schema }
    }

    /// The one among a request's parameters.
    pub fn among(parameters: &BTreeMap<String, Raw>) -> Option<Self> {
        parameters.get(OUTPUT_SCHEMA).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// Whether the answer is to be an object. Servers that hold answers to schemas take no others.
    pub fn is_object(&self) -> bool {
        let schema: Option<Value> = serde_json::from_str(self.schema.get()).ok();
        schema.is_some_and(|schema| schema["type"] == "object")
    }

    /// Whether a server that insists on strict schemas takes it as one: an object at the top, every object closed,
    /// every property required, and no keyword that servers are known to refuse there. A server that is told `strict`
    /// about another one refuses the request. Codecs write this word into bodies: another answer here is another body.
    pub fn is_strict(&self) -> bool {
        let schema: Option<Value> = serde_json::from_str(self.schema.get()).ok();
        schema.is_some_and(|schema| schema["type"] == "object" && is_closed(&schema))
    }
}

/// Whether a schema, and every one in it, is as strict servers want it.
fn is_closed(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    if !schema.keys().all(|key| STRICT.contains(&key.as_str())) {
        return false;
    }
    let none = serde_json::Map::new();
    let object = |name: &str| schema.get(name).and_then(Value::as_object).unwrap_or(&none);
    let list = |name: &str| schema.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of_type =
        |kind: &Value| kind == "object" || kind.as_array().is_some_and(|k| k.contains(&"object".into()));
    if schema.contains_key("properties") || schema.get("type").is_some_and(of_type) {
        let required = |name: &String| list("required").iter().any(|n| n == name);
        if schema.get("additionalProperties") != Some(&Value::Bool(false))
            || !object("properties").keys().all(required)
        {
            return false;
        }
    }
    let inner = object("properties").values().chain(object("$defs").values());
    inner.chain(list("anyOf")).chain(schema.get("items")).all(is_closed)
}

/// The keywords OpenAI documents for strict schemas, and `$schema`, which it passes over.
const STRICT: [&str; 22] = [
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_name_is_one_that_every_wire_takes() {
        let name = |name: &str| OutputSchema::new(name, Raw::string("")).name;
        assert_eq!(name("weather-v2_x"), "weather-v2_x");
        assert_eq!(name("Wetter für heute.v2"), "Wetter_f_r_heute_v2");
        assert_eq!(name(""), "answer");
        assert_eq!(name(&"ü".repeat(100)), "_".repeat(64));
    }

    #[test]
    fn it_is_found_among_parameters_as_it_was_put_there() {
        let schema = OutputSchema::new("x", Raw::parse(r#"{"b":1,"a":2.0}"#).unwrap());
        let raw = Raw::from_value(&schema).unwrap();
        assert_eq!(raw.get(), r#"{"name":"x","schema":{"b":1,"a":2.0}}"#);
        assert_eq!(OutputSchema::among(&[(OUTPUT_SCHEMA.to_owned(), raw)].into()), Some(schema));
        assert_eq!(OutputSchema::among(&BTreeMap::new()), None);
    }

    #[test]
    fn strict_is_closed_and_full_all_the_way_down() {
        let strict = |schema: &str| OutputSchema::new("x", Raw::parse(schema).unwrap()).is_strict();
        let inner = |inner: &str| {
            format!(
                r##"{{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
                "properties":{{"a":{inner}}},"required":["a"],"additionalProperties":false}}"##
            )
        };
        let open = [
            r#"{"type":"object","properties":{}}"#,
            r#"{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":false}"#,
            r#"{"type":["object","null"],"additionalProperties":{"type":"string"}}"#,
            r#"{"oneOf":[{"type":"string"}]}"#,
            r#"{"allOf":[]}"#,
            "true",
        ];
        let closed = [
            r#"{"type":"string","enum":["x"]}"#,
            r##"{"anyOf":[{"type":"null"},{"$ref":"#"}]}"##,
            r#"{"type":"object","properties":{},"additionalProperties":false}"#,
        ];
        for schema in closed {
            assert!(strict(&inner(schema)), "{schema}");
        }
        for schema in open {
            assert!(!strict(&inner(schema)), "{schema}");
            for around in [
                format!(r#"{{"type":"array","items":{schema}}}"#),
                format!(r#"{{"anyOf":[{schema}]}}"#),
                format!(r#"{{"$defs":{{"d":{schema}}},"type":"string"}}"#),
            ] {
                assert!(!strict(&inner(&around)), "{around}");
            }
        }
        assert!(!strict(r#"{"type":"string"}"#), "the top is no object");
    }
}
