//! A row of the dialect table as one provider has it: the built-in one, and what configuration changes of it.

use serde_json::{Map, Value};
use terret_core::chunk::{Failure, code};
use terret_core::raw::Raw;

use super::wire::Wire;

/// The row of a provider.
#[derive(Clone)]
pub struct Row {
    wire: &'static Wire,
    name: String,
    quirks: toml::Table,
}

/// One column of an effective row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its value, as JSON.
    pub value: String,
    /// Whether configuration set it.
    pub quirk: bool,
}

impl Row {
    /// The row of this name with these columns set. Fails if there is no such row or column, or if a column does not
    /// take its value.
    pub fn new(wire: &'static Wire, name: &str, quirks: toml::Table) -> Result<Self, String> {
        let row = Row { wire, name: name.to_owned(), quirks };
        row.merged("").map(|_| row)
    }

    /// The row as it is for this model, for the header of a request.
    pub fn effective(&self, model: &str) -> Result<Raw, Failure> {
        self.merged(model).map_err(|what| Failure::new(code::INVALID_REQUEST, what))
    }

    /// The same, column by column.
    pub fn columns(&self, model: &str) -> Result<Vec<Column>, Failure> {
        let effective = self.effective(model)?;
        let columns: Map<String, Value> = serde_json::from_str(effective.get()).unwrap_or_default();
        let column = |(name, value): (String, Value)| {
            let quirk = self.quirks.contains_key(&name);
            Column { name, value: value.to_string(), quirk }
        };
        Ok(columns.into_iter().map(column).collect())
    }

    fn merged(&self, model: &str) -> Result<Raw, String> {
        let Row { wire, name, quirks } = self;
        let row = (wire.row)(name, model).ok_or_else(|| {
            format!("there is no dialect `{name}` of {}: known are {}", wire.protocol, wire.rows.join(", "))
        })?;
        if quirks.is_empty() {
            return Ok(row);
        }
        let mut columns: Map<String, Value> = serde_json::from_str(row.get()).unwrap_or_default();
        for (column, set) in quirks {
            let Some(old) = columns.get(column).filter(|_| column != "name") else {
                return Err(unknown(column, &columns));
            };
            let new = in_kind_of(old, set);
            columns.insert(column.clone(), new);
            // One at a time, so that the message names the column that is wrong.
            (wire.typed)(&Value::Object(columns.clone()).to_string())
                .map_err(|error| format!("the dialect's column `{column}` does not take {set}: {error}"))?;
        }
        (wire.typed)(&Value::Object(columns).to_string()).map_err(|error| error.to_string())
    }
}

/// A value of configuration, read as the column wants it: words on a command line have no kind of their own.
fn in_kind_of(old: &Value, set: &toml::Value) -> Value {
    match (old, set) {
        (Value::Bool(_), toml::Value::String(word)) if word == "true" || word == "false" => {
            Value::Bool(word == "true")
        }
        (Value::Array(_), toml::Value::String(words)) => {
            words.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
        }
        (_, set) => serde_json::to_value(set).unwrap_or_default(),
    }
}

fn unknown(column: &str, columns: &Map<String, Value>) -> String {
    let nearest = columns.keys().filter(|name| *name != "name");
    let nearest = nearest.min_by_key(|name| strsim::damerau_levenshtein(name, column));
    let nearest = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    format!("the dialect has no column `{column}`{nearest}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Row;
    use crate::model::openai_chat::WIRE;

    fn row(quirks: &str) -> Result<String, String> {
        let row = Row::new(&WIRE, "vllm", toml::from_str(quirks).unwrap())?;
        Ok(row.effective("m").unwrap().get().to_owned())
    }

    #[test]
    fn configuration_sets_columns_in_every_spelling() {
        let plain = row("").unwrap();
        assert!(plain.contains(r#""store":false"#) && plain.contains(r#""refused":[]"#));
        for spelling in ["store = true\nrefused = ['a', 'b']", "store = 'true'\nrefused = 'a, b'"] {
            let set = row(spelling).unwrap();
            assert_eq!(
                set,
                plain
                    .replace(r#""store":false"#, r#""store":true"#)
                    .replace(r#""refused":[]"#, r#""refused":["a","b"]"#)
            );
        }
    }

    #[test]
    fn what_no_column_takes_is_refused_by_name() {
        assert!(row("stor = true").unwrap_err().contains("did you mean `store`?"));
        assert!(row("name = 'x'").unwrap_err().contains("no column `name`"));
        let wrong = row("thinking = 'hard'").unwrap_err();
        assert!(wrong.contains("`thinking` does not take \"hard\"") && wrong.contains("effort"), "{wrong}");
        let nobody = Row::new(&WIRE, "klingon", toml::Table::new()).err().unwrap();
        assert!(nobody.contains("known are azure, deepseek"), "{nobody}");
    }
}
