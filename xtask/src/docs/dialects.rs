//! The dialect tables of the wires, out of `terret schema`: what each column says, and every row.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::Result;

/// For each wire a table of its columns and one of its rows, in which only what differs from most is shown.
pub(super) fn tables(dialects: &Value) -> Result<String> {
    let mut out = String::new();
    for (wire, dialect) in dialects.as_object().ok_or("the schema has no dialects")? {
        let rows = dialect["rows"].as_object().ok_or("a wire has no rows")?;
        let columns = dialect["columns"]["properties"].as_object().ok_or("a row has no columns")?;
        writeln!(out, "### `{wire}`\n\n| column | meaning | values |\n|---|---|---|")?;
        for (name, column) in columns.iter().filter(|(name, _)| *name != "name") {
            let about = text(&column["description"]);
            writeln!(out, "| `{name}` | {about} | {} |", values(&dialect["columns"], column))?;
        }
        let careful = rows.get("generic").and_then(Value::as_object).ok_or("a wire has no `generic` row")?;
        writeln!(out, "\n| row | differs from `generic` in |\n|---|---|")?;
        for (name, row) in rows {
            writeln!(
                out,
                "| `{name}` | {} |",
                differs(row.as_object().ok_or("a row is no object")?, careful)
            )?;
        }
        writeln!(
            out,
            "\n`generic` itself: {}.\n",
            words(careful.iter().filter(|(name, _)| *name != "name"))
        )?;
    }
    Ok(out)
}

fn differs(row: &Map<String, Value>, careful: &Map<String, Value>) -> String {
    let other = row.iter().filter(|(name, value)| *name != "name" && careful.get(*name) != Some(value));
    let other = words(other);
    if other.is_empty() { "nothing".to_owned() } else { other }
}

fn words<'a>(columns: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let words = columns.map(|(name, value)| format!("{name} `{}`", value.to_string().replace('"', "")));
    words.collect::<Vec<_>>().join(", ")
}

/// The words a column takes, with what each means; nothing for what is plain.
fn values(schema: &Value, column: &Value) -> String {
    let named = column["$ref"].as_str().or_else(|| column["allOf"][0]["$ref"].as_str());
    let named = named.and_then(|target| target.strip_prefix("#/$defs/"));
    let all = named.and_then(|name| schema["$defs"][name]["oneOf"].as_array());
    let value = |value: &Value| format!("`{}`: {}", text(&value["const"]), text(&value["description"]));
    match all {
        Some(all) => all.iter().map(value).collect::<Vec<_>>().join(" "),
        None => text(&column["type"]),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::tables;

    #[test]
    fn a_row_shows_where_it_differs_from_the_careful_one() {
        let how = json!({"oneOf": [{"const": "a", "description": "One|two."}, {"const": "b", "description": "B."}]});
        let columns = json!({
            "properties": {
                "name": {"type": "string"},
                "on": {"type": "boolean", "description": "Whether."},
                "how": {"$ref": "#/$defs/How", "description": "How."},
            },
            "$defs": {"How": how},
        });
        let rows = json!({
            "generic": {"name": "generic", "on": false, "how": "a"},
            "mine": {"name": "mine", "on": true, "how": "a"},
            "same": {"name": "same", "on": false, "how": "a"},
        });
        let page = tables(&json!({"w": {"columns": columns, "rows": rows}})).unwrap();
        assert!(page.contains("| `how` | How. | `a`: One\\|two. `b`: B. |\n"), "{page}");
        assert!(page.contains("| `mine` | on `true` |\n| `same` | nothing |\n"), "{page}");
        assert!(tables(&json!({"w": {"columns": columns, "rows": {}}})).is_err());
    }
}
