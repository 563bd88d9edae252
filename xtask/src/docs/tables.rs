//! Tables made from `terret schema` and from the doc comments of the facts.

use serde_json::Value;

use super::Result;

/// Every event: what it means, and the fields of its `data`.
pub(super) fn events(source: &str, schema: &Value) -> Result<String> {
    let facts = facts(source);
    let known = schema["event"]["oneOf"].as_array().ok_or("the schema lists no events")?;
    let known: Vec<(&str, &Value)> = known
        .iter()
        .filter_map(|event| Some((event["properties"]["type"]["const"].as_str()?, &event["properties"])))
        .collect();
    if facts.len() != known.len() {
        return Err(
            format!("{} facts in the source, {} events in the schema", facts.len(), known.len()).into()
        );
    }
    let mut out = String::from(
        "| event | `h` | who writes it, when, what its absence means | `data` |\n|---|---|---|---|\n",
    );
    for fact in &facts {
        let (_, line) = known
            .iter()
            .find(|(name, _)| *name == fact.name)
            .ok_or_else(|| format!("the schema has no `{}`", fact.name))?;
        let link = if fact.barrier { "yes" } else { "" };
        let fields = fields(resolve(schema, &line["data"]));
        out.push_str(&format!("| `{}` | {link} | {} | {fields} |\n", fact.name, cell(&fact.doc)));
    }
    Ok(out)
}

/// Every key of the configuration.
pub(super) fn config(schema: &Value) -> Result<String> {
    let keys = schema["config"].as_object().ok_or("the schema has no configuration")?;
    let mut out = String::from("| key | variable | default | meaning |\n|---|---|---|---|\n");
    for (key, about) in keys {
        let variable = match key.contains('*') {
            true => String::new(),
            false => format!("`TERRET_{}`", key.replace('.', "_").to_uppercase()),
        };
        let text = |name: &str| cell(about[name].as_str().unwrap_or_default());
        out.push_str(&format!("| `{key}` | {variable} | {} | {} |\n", text("default"), text("description")));
    }
    Ok(out)
}

struct FactDoc {
    name: String,
    doc: String,
    barrier: bool,
}

/// Reads `/// …` lines followed by `"noun/verb" Variant(Payload) Class;`.
fn facts(source: &str) -> Vec<FactDoc> {
    let mut found = Vec::new();
    let mut doc: Vec<&str> = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim());
            continue;
        }
        let name = line.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        if let Some((name, rest)) = name.filter(|(name, rest)| name.contains('/') && rest.ends_with(';')) {
            let barrier = rest.ends_with(" Barrier;");
            found.push(FactDoc { name: name.to_owned(), doc: doc.join(" "), barrier });
        }
        doc.clear();
    }
    found
}

/// What a `$ref` stands for.
fn resolve<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let named = value["$ref"].as_str().and_then(|target| target.strip_prefix("#/$defs/"));
    named.map_or(value, |name| &schema["$defs"][name])
}

/// Names of fields: those that are always there in their order on disk, then the others, with `?`.
fn fields(payload: &Value) -> String {
    let required: Vec<&str> =
        payload["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = payload["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let optional = all.filter(|name| !required.contains(name)).map(|name| format!("`{name}`?"));
    let names: Vec<String> = required.iter().map(|name| format!("`{name}`")).chain(optional).collect();
    names.join(", ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{config, events};
    use serde_json::json;

    const SOURCE: &str = "/// An enum.\nenum X {\n}\n/// Written last.\n/// Without it: open.\n\"turn/end\" TurnEnd(TurnEnd) Barrier;\n";

    #[test]
    fn an_event_is_a_row() {
        let line =
            json!({"properties": {"type": {"const": "turn/end"}, "data": {"$ref": "#/$defs/TurnEnd"}}});
        let end =
            json!({"properties": {"turn": {}, "note": {}, "reason": {}}, "required": ["turn", "reason"]});
        let schema = json!({"event": {"oneOf": [line]}, "$defs": {"TurnEnd": end}});
        let table = events(SOURCE, &schema).unwrap();
        assert!(table.ends_with(
            "| `turn/end` | yes | Written last. Without it: open. | `turn`, `reason`, `note`? |\n"
        ));
        assert!(events("", &schema).is_err(), "a fact that the source no longer declares");
    }

    #[test]
    fn a_key_is_a_row() {
        let schema = json!({"config": {"a_b": {"default": "1", "description": "x|y"}, "p.*.u": {}}});
        let table = config(&schema).unwrap();
        assert!(table.contains("| `a_b` | `TERRET_A_B` | 1 | x\\|y |\n| `p.*.u` |  |  |  |\n"), "{table}");
    }
}
