//! A JSON object, member by member, each as it was written and in the order it was.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::limits::MAX_MEMBERS;
use crate::model::json::Json;

/// The members.
#[derive(Debug, Default)]
pub(super) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Those of this text; none if it is not an object.
    pub(super) fn of(raw: &'a str) -> Self {
        serde_json::from_str(raw).unwrap_or_default()
    }

    /// The JSON of a member.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get())
    }

    /// A member that is a string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Writes the members that say something and are not among these, each behind a comma.
    pub(super) fn write_except(&self, names: &[&str], json: &mut Json) {
        for (name, raw) in &self.0 {
            if !names.contains(&name.as_str()) && !matches!(raw.get(), "null" | "[]" | "{}") {
                json.raw_field(name, raw.get());
            }
        }
    }

    /// The object with this member in the place of its namesake, or at the end.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        let mut text = String::from("{");
        let mut put = |key: &str, raw: &str| {
            let comma = if text.len() == 1 { "" } else { "," };
            text.push_str(&format!("{comma}{}:{raw}", serde_json::Value::from(key)));
        };
        for (key, raw) in &self.0 {
            put(key, if key == name { value } else { raw.get() });
        }
        if self.get(name).is_none() {
            put(name, value);
        }
        text.push('}');
        text
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() >= MAX_MEMBERS {
                        return Err(de::Error::custom("an object has too many members"));
                    }
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        d.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::Members;
    use crate::model::json::Json;

    #[test]
    fn members_keep_their_order_and_their_bytes() {
        let members = Members::of(r#"{"b": 1.0e5, "a":null, "c" : "\u00e9", "d":[]}"#);
        assert_eq!(members.with("a", "2"), r#"{"b":1.0e5,"a":2,"c":"\u00e9","d":[]}"#);
        assert_eq!(members.with("e", "2"), r#"{"b":1.0e5,"a":null,"c":"\u00e9","d":[],"e":2}"#);
        assert_eq!(Members::of("[1]").with("e", "2"), r#"{"e":2}"#);
        let mut json = Json::default();
        members.write_except(&["b"], &mut json);
        assert_eq!(json.as_bytes(), br#","c":"\u00e9""#);
    }
}
