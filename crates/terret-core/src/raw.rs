//! JSON we keep byte for byte and never interpret.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

/// One JSON value on one line, kept exactly as it was written: numbers, key order and spacing included.
/// Line breaks between its tokens become spaces, since a log line has none.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Raw::on_one_line(Box::<RawValue>::deserialize(d)?).map_err(de::Error::custom)
    }
}

impl Raw {
    /// Takes JSON text; an error if it is not one JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).and_then(Raw::on_one_line)
    }

    fn on_one_line(value: Box<RawValue>) -> Result<Self, serde_json::Error> {
        if !value.get().contains(['\n', '\r']) {
            return Ok(Raw(value));
        }
        // Inside strings JSON has them escaped: these stand between tokens.
        RawValue::from_string(value.get().replace(['\n', '\r'], " ")).map(Raw)
    }

    /// Serialises a value in its own field order.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).and_then(Raw::on_one_line)
    }

    /// A JSON string.
    pub fn string(text: &str) -> Self {
        let quoted = serde_json::Value::from(text).to_string();
        // A quoted string is always one JSON value.
        Raw(RawValue::from_string(quoted).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Raw {}

impl Hash for Raw {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.get().hash(state);
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Raw {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
}
