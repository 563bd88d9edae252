//! Whether an answer satisfies a schema. No network and no file is asked for either.

use std::borrow::Cow;
use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ReferencingError, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;
use terret_core::raw::Raw;

use crate::limits::{MAX_OUTPUT_SCHEMA_BYTES, MAX_SCHEMA_PARTS, MAX_VIOLATION_BYTES, MAX_VIOLATIONS};

/// A schema that can be checked against.
pub(super) struct Check(Validator);

impl Check {
    /// Fails, with what is wrong and where, if it is no JSON Schema, or one that cannot be read by itself.
    pub(super) fn new(schema: &Raw) -> Result<Self, String> {
        let bytes = schema.get().len();
        if bytes > MAX_OUTPUT_SCHEMA_BYTES {
            return Err(format!(
                "it is too large: {bytes} bytes, at most {MAX_OUTPUT_SCHEMA_BYTES} are taken"
            ));
        }
        let value: Value =
            serde_json::from_str(schema.get()).map_err(|e| format!("it cannot be read: {e}"))?;
        let parts = Parts { root: &value, of: HashMap::new() }.within(&value);
        if parts > MAX_SCHEMA_PARTS {
            return Err(format!("its references multiply: it comes to more than {MAX_SCHEMA_PARTS} parts"));
        }
        let options = jsonschema::options().with_retriever(Nowhere);
        options.build(&value).map(Check).map_err(|error| {
            match (error.kind(), error.instance_path().as_str()) {
                (ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }), _) => {
                    format!("it refers to `{uri}`, and {OWN_PARTS}")
                }
                (_, "") => error.to_string(),
                (_, place) => format!("at `{place}`: {error}"),
            }
        })
    }

    /// The JSON of an answer that satisfies it; else what is wrong, a line each.
    pub(super) fn read<'t>(&self, answer: &'t str) -> Result<&'t str, Vec<String>> {
        let json = json(answer);
        if json.is_empty() {
            return Err(vec!["there is no text".to_owned()]);
        }
        let value: Value = serde_json::from_str(json).map_err(|e| vec![format!("it is not JSON: {e}")])?;
        if self.0.is_valid(&value) {
            return Ok(json);
        }
        let mut errors = self.0.iter_errors(&value);
        let mut lines: Vec<String> = errors.by_ref().take(MAX_VIOLATIONS).map(|error| line(&error)).collect();
        match errors.count() {
            0 => {}
            more => lines.push(format!("and {more} more")),
        }
        Err(lines)
    }
}

/// Counts what a schema comes to with every reference followed, one into itself once: a few lines can make an answer
/// be checked, and complained of, without end.
struct Parts<'s> {
    root: &'s Value,
    /// What each reference comes to.
    of: HashMap<&'s str, u64>,
}

impl<'s> Parts<'s> {
    fn within(&mut self, value: &'s Value) -> u64 {
        let sum = |parts: u64, more| parts.saturating_add(more);
        match value {
            Value::Object(members) => members.iter().fold(1, |parts, (key, value)| {
                let more = match value.as_str().filter(|_| key == "$ref") {
                    Some(reference) => self.behind(reference),
                    None => self.within(value),
                };
                sum(parts, more)
            }),
            Value::Array(items) => items.iter().fold(0, |parts, item| sum(parts, self.within(item))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    fn behind(&mut self, reference: &'s str) -> u64 {
        if let Some(parts) = self.of.get(reference) {
            return *parts;
        }
        self.of.insert(reference, 1);
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let parts = target.map_or(1, |target| self.within(target));
        self.of.insert(reference, parts);
        parts
    }
}

/// The JSON of an answer: all of it but the blanks around it and one Markdown code fence, which models put around
/// JSON whatever they are told.
fn json(answer: &str) -> &str {
    let answer = answer.trim();
    let fenced = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match fenced.and_then(|fenced| fenced.split_once('\n')) {
        Some((language, inner)) if language.trim().chars().all(char::is_alphanumeric) => inner.trim(),
        Some(_) | None => answer,
    }
}

/// One thing that is wrong: where, and what. What stands there is not repeated.
fn line(error: &ValidationError<'_>) -> String {
    let place = match error.instance_path().as_str() {
        "" => Cow::Borrowed("at the top"),
        place => Cow::Owned(format!("at `{place}`")),
    };
    let mut line = format!("{place}: {}", error.masked());
    if line.len() > MAX_VIOLATION_BYTES {
        line.truncate(line.floor_char_boundary(MAX_VIOLATION_BYTES));
        line.push('…');
    }
    line
}

const OWN_PARTS: &str = "a schema may refer to its own parts only: put the other one into its `$defs`";

/// Refuses to look for a schema anywhere else, also where another crate of the program made the validator able to.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(OWN_PARTS.into())
    }
}

#[cfg(test)]
mod tests;
