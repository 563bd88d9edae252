//! A JSON object whose members are known by name only: kept in their order, replaced, written out as they came.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use terret_core::raw::Raw;

use crate::limits::MAX_MEMBERS;
use crate::model::compact::compact;
use crate::model::surrogate;

/// The members in the order they first came.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// An object; nothing if the text is none.
    pub(super) fn read(raw: &str) -> Self {
        serde_json::from_str(raw).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The JSON text of a member.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get())
    }

    /// The string a member is; empty for any other. Halves of characters in it are lost.
    pub(super) fn text(&self, name: &str) -> String {
        let raw = self.get(name).unwrap_or("null");
        let read = |raw: &str| serde_json::from_str::<String>(raw).ok();
        let alone = || Some(surrogate::join_alone(read(&surrogate::stand_in(raw)?)?.into()).into_owned());
        read(raw).or_else(alone).unwrap_or_default()
    }

    /// Sets a member in its place, or behind the others.
    pub(super) fn set(&mut self, name: String, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes over the members of another object that say something.
    pub(super) fn overwrite(&mut self, other: Fields) {
        for (name, value) in other.0 {
            if value.get() != "null" {
                self.set(name, value);
            }
        }
    }

    /// The object without all members but these.
    pub(super) fn only(mut self, names: &[&str]) -> Self {
        self.0.retain(|(name, value)| names.contains(&name.as_str()) && value.get() != "null");
        self
    }

    /// The object without this member.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(key, _)| key != name);
        self
    }

    /// The object as it is kept, without blanks.
    pub(super) fn raw(&self) -> Option<Raw> {
        let text = serde_json::to_string(self).ok()?;
        Raw::parse(compact(&text)).ok()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.0.len() >= MAX_MEMBERS {
                        return Err(de::Error::custom("an object has too many members"));
                    }
                    fields.set(name, value);
                }
                Ok(fields)
            }
        }
        d.deserialize_map(Members)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
