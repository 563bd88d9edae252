//! OpenRouter's `reasoning_details`: deltas merged into the array that has to go back whole.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use terret_core::limits::MAX_BLOCKS;

use crate::limits::{MAX_ANSWER_BYTES, MAX_DETAIL_FIELDS};

/// The merged array. Linear: a delta costs what it adds.
#[derive(Debug, Default)]
pub(super) struct Details {
    list: Vec<Detail>,
    /// Bytes of keys and values taken in that are still held.
    bytes: usize,
}

/// They would be more than an answer may have.
#[derive(Debug)]
pub(super) struct TooMuch;

impl Details {
    /// Takes the entries of one delta in; if one of them is no object, the delta is passed over. They are held until
    /// the answer ends, so what is too much for an answer is too much here.
    pub(super) fn add(&mut self, raw: &str) -> Result<(), TooMuch> {
        for detail in serde_json::from_str::<Vec<Detail>>(raw).unwrap_or_default() {
            let fields = match self.list.iter_mut().find(|known| known.continues(&detail)) {
                Some(known) => {
                    self.bytes += known.merge(detail);
                    known.0.len()
                }
                None => {
                    self.bytes += detail.bytes();
                    self.list.push(detail);
                    0
                }
            };
            let too_much = self.bytes > MAX_ANSWER_BYTES || self.list.len() > MAX_BLOCKS;
            if too_much || fields > MAX_DETAIL_FIELDS {
                return Err(TooMuch);
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl Serialize for Details {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(s)
    }
}

/// One entry: its fields in the order they first came.
#[derive(Debug)]
struct Detail(Vec<(String, Field)>);

#[derive(Debug)]
enum Field {
    /// A string that grows.
    Text(String),
    Raw(Box<RawValue>),
}

impl Detail {
    fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, field)| field)
    }

    fn raw(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Field::Raw(raw)) => raw.get(),
            Some(Field::Text(_)) | None => "",
        }
    }

    fn continues(&self, other: &Detail) -> bool {
        let kind = self.raw("type");
        kind == other.raw("type")
            && self.raw("index") == other.raw("index")
            && kind != "\"reasoning.encrypted\""
    }

    /// Says how many bytes it has more afterwards.
    fn merge(&mut self, other: Detail) -> usize {
        let before = self.bytes();
        for (key, value) in other.0 {
            let known = self.0.iter_mut().find(|(name, _)| *name == key).map(|(_, field)| field);
            match (known, value) {
                (Some(Field::Text(text)), Field::Text(more)) => text.push_str(&more),
                (Some(known), value) => *known = value,
                (None, value) => self.0.push((key, value)),
            }
        }
        self.bytes().saturating_sub(before)
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(key, field)| key.len() + field.bytes()).sum()
    }
}

impl Field {
    fn bytes(&self) -> usize {
        match self {
            Field::Text(text) => text.len(),
            Field::Raw(raw) => raw.get().len(),
        }
    }
}

impl<'de> Deserialize<'de> for Detail {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Detail;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Detail, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, raw)) = map.next_entry::<String, Box<RawValue>>()? {
                    let grows = matches!(key.as_str(), "text" | "summary") && raw.get().starts_with('"');
                    let field = if grows {
                        Field::Text(serde_json::from_str(raw.get()).map_err(de::Error::custom)?)
                    } else {
                        Field::Raw(raw)
                    };
                    if fields.len() == MAX_DETAIL_FIELDS {
                        return Err(de::Error::custom("an entry with too many fields"));
                    }
                    fields.push((key, field));
                }
                Ok(Detail(fields))
            }
        }
        d.deserialize_map(Fields)
    }
}

impl Serialize for Detail {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (key, field) in &self.0 {
            match field {
                Field::Text(text) => map.serialize_entry(key, text)?,
                Field::Raw(raw) => map.serialize_entry(key, raw)?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Details;

    #[test]
    fn equal_type_and_index_merge_and_encrypted_stays_apart() {
        let mut details = Details::default();
        let _ = details.add(r#"[{"type":"reasoning.text","text":"a","index":0}]"#);
        let _ = details.add(r#"[{"type":"reasoning.text","text":"b","index":0,"signature":null}]"#);
        let _ = details.add(r#"[{"type":"reasoning.text","signature":"S","index":0}]"#);
        let _ = details.add(r#"[{"type":"reasoning.encrypted","data":"x","index":1}]"#);
        let _ = details.add(r#"[{"type":"reasoning.encrypted","data":"y","index":1}]"#);
        let _ = details.add("null");
        assert_eq!(
            serde_json::to_string(&details).unwrap(),
            concat!(
                r#"[{"type":"reasoning.text","text":"ab","index":0,"signature":"S"},"#,
                r#"{"type":"reasoning.encrypted","data":"x","index":1},"#,
                r#"{"type":"reasoning.encrypted","data":"y","index":1}]"#
            )
        );
    }
}
