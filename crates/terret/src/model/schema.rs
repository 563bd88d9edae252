//! JSON Schemas of answers: which of them a server can enforce to the letter.

use serde_json::Value;

/// Whether a schema keeps the rules of strict output: every object is closed and requires all it has.
pub(super) fn is_strict(schema: &str) -> bool {
    serde_json::from_str(schema).is_ok_and(|schema| closed(&schema))
}

fn closed(schema: &Value) -> bool {
    let Value::Object(object) = schema else {
        return schema.as_array().is_none_or(|list| list.iter().all(closed));
    };
    let is_object = object.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        kind => kind == "object",
    });
    let properties = object.get("properties").and_then(Value::as_object);
    if is_object || properties.is_some() {
        let required: Vec<&str> = object
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let all = properties.is_none_or(|all| all.keys().all(|name| required.contains(&name.as_str())));
        if !all || object.get("additionalProperties") != Some(&Value::Bool(false)) {
            return false;
        }
    }
    // Under `properties` stand names, not keywords.
    let keywords = object.iter().filter(|(key, _)| !DATA.contains(&key.as_str()));
    keywords.into_iter().all(|(key, value)| match (key.as_str(), value) {
        ("properties" | "$defs" | "definitions", Value::Object(named)) => named.values().all(closed),
        (_, value) => closed(value),
    })
}

/// Keywords whose values are data and no schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "examples", "required"];

#[cfg(test)]
mod tests {
    use super::is_strict;

    #[test]
    fn every_object_must_be_closed_and_require_all() {
        let closed =
            r#"{"type":"object","properties":{"a":INNER},"required":["a"],"additionalProperties":false}"#;
        let with = |inner: &str| is_strict(&closed.replace("INNER", inner));
        assert!(with(r#"{"type":"string","enum":["object"]}"#) && with(r#"{"const":{"type":"object"}}"#));
        assert!(with(&closed.replace("INNER", "{}")));
        assert!(!with(r#"{"type":"object"}"#) && !with(r#"{"type":["object","null"]}"#));
        assert!(!with(r#"{"type":"array","items":{"type":"object","properties":{}}}"#));
        assert!(!is_strict(&closed.replace("INNER", "{}").replace(r#"["a"]"#, "[]")));
        assert!(!is_strict("not json"));
    }
}
