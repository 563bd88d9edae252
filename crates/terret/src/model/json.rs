//! JSON in an order of our own, written piece by piece.

use serde::Serialize;

use crate::model::compact::compact;

/// A value of an object: text to quote, or JSON as it is.
pub(super) enum Value<'a> {
    Text(&'a str),
    Raw(&'a str),
    Json(&'a Json),
}

/// JSON that grows at its end.
#[derive(Default)]
pub(super) struct Json(Vec<u8>);

impl Json {
    /// What is written so far.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// An object without its closing bracket.
    pub(super) fn without_end(&self) -> &[u8] {
        self.0.strip_suffix(b"}").unwrap_or(&self.0)
    }

    /// Adds an object, but for its closing bracket.
    pub(super) fn append_open(&mut self, object: &Json) {
        self.0.extend_from_slice(object.without_end());
    }

    /// What is written, as text.
    pub(super) fn into_text(self) -> String {
        // Only text was ever written.
        String::from_utf8(self.0).unwrap_or_default()
    }

    /// Adds another piece.
    pub(super) fn append(&mut self, piece: &Json) {
        self.0.extend_from_slice(&piece.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        // Writing a string into memory cannot fail.
        let _ = serde_json::to_writer(&mut self.0, value);
    }

    pub(super) fn raw_field(&mut self, name: &str, raw: &str) {
        self.push(",");
        self.value(name);
        self.push(":");
        self.push(&compact(raw));
    }

    pub(super) fn object(&mut self, fields: &[(&str, Value<'_>)]) {
        for (at, (name, value)) in fields.iter().enumerate() {
            self.push(if at == 0 { "{" } else { "," });
            self.value(name);
            self.push(":");
            match value {
                Value::Text(text) => self.value(text),
                Value::Raw(raw) => self.push(raw),
                Value::Json(json) => self.0.extend_from_slice(&json.0),
            }
        }
        self.push("}");
    }
}
