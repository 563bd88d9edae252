//! Questions whose answers have a type.

use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;
use terret_core::fact::EndReason;
use terret_core::raw::Raw;

use super::{Agent, Outcome, Settlement};
use crate::error::Error;
use crate::policy::Structured;
use crate::tool::schema;

/// An answer of the type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// What the model answered.
    pub value: T,
    /// How its turn ended, with the text the value was read from.
    pub outcome: Outcome,
}

impl Agent {
    /// Sends a prompt whose answer is a `T`, and waits for it. The model is told the JSON Schema of `T`, and a server
    /// that can is made to keep to it; an answer that does not satisfy it is sent back once (see [`Structured`]).
    ///
    /// The schema is of this question's turn and of no other, whatever else is queued. Questions of one agent wait for
    /// each other. Fails with [`Error::NoAnswer`] if the turn ended without such an answer, or before it was asked: then
    /// the question waits, as a prompt would, and is read as an ordinary one. The same goes for one that nobody awaits
    /// any more, because the future was dropped or the process died. An agent that has a [`Structured`] of its own refuses
    /// questions: an answer has one schema.
    pub async fn ask<T: DeserializeOwned + JsonSchema>(
        &self,
        text: impl Into<String>,
    ) -> Result<Answer<T>, Error> {
        let structured = Structured::new(&T::schema_name(), asked_for::<T>()?)?;
        let question = self.user(text);
        let _turn = self.asking.lock().await;
        let _installed = self.install(structured.clone().only(question.id.clone()))?;
        let (outcome, is_its_own) = match self.settlement(question).await? {
            Settlement::Ended(outcome) => (outcome, true),
            Settlement::Parked(outcome) | Settlement::Held(outcome) => (outcome, false),
            Settlement::Removed(_) | Settlement::Earlier => return Err(taken_off()),
        };
        let why = match &outcome.ending {
            _ if !is_its_own => "the question waits behind it".to_owned(),
            EndReason::Completed => match value(&structured, &outcome.text) {
                Ok(value) => return Ok(Answer { value, outcome }),
                Err(why) => why,
            },
            EndReason::Error { failure } => failure.to_string(),
            other @ (EndReason::MaxTokens
            | EndReason::Blocked { .. }
            | EndReason::Aborted { .. }
            | EndReason::Interrupted) => format!("the turn ended {}", other.word()),
        };
        let Outcome { turn, ending, text, .. } = outcome;
        Err(Error::NoAnswer { turn, ending: Box::new(ending), text, why })
    }
}

/// The schema of a type as it is asked for: every field has to be there, absent ones as `null`, and the variants of an
/// enum are `anyOf`. Servers that are strict about schemas take nothing else, and the type reads it all the same.
fn asked_for<T: JsonSchema>() -> Result<Raw, Error> {
    let unusable = |e: serde_json::Error| Error::Usage(format!("the schema of the type cannot be used: {e}"));
    let mut schema: Schema = serde_json::from_str(schema::<T>().get()).map_err(unusable)?;
    let demand = |schema: &mut Schema| {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let names = properties.keys().cloned().map(Value::from).collect();
            schema.insert("required".to_owned(), Value::Array(names));
        }
        if schema.get("anyOf").is_none()
            && let Some(variants) = schema.remove("oneOf")
        {
            schema.insert("anyOf".to_owned(), variants);
        }
    };
    RecursiveTransform(demand).transform(&mut schema);
    Raw::from_value(&schema).map_err(unusable)
}

fn value<T: DeserializeOwned>(structured: &Structured, text: &str) -> Result<T, String> {
    let json = structured.read(text).map_err(|wrong| wrong.join("; "))?;
    // A type may be pickier than its schema.
    serde_json::from_str(json).map_err(|e| format!("it satisfies the schema, and is none: {e}"))
}

pub(super) fn taken_off() -> Error {
    Error::Usage("the message was taken off before it was read".into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, dead_code)]

    use super::*;
    use crate::request::OutputSchema;

    #[derive(JsonSchema)]
    struct Tree {
        /// A property that is called like a keyword.
        properties: Option<String>,
        kind: Kind,
        below: Vec<Tree>,
    }

    #[derive(JsonSchema)]
    enum Kind {
        /// Said of it.
        Leaf,
        Branch {
            length: Option<u32>,
        },
    }

    #[test]
    fn a_type_is_asked_for_as_strict_servers_want_it() {
        let plain = OutputSchema::new("tree", schema::<Tree>());
        assert!(!plain.is_strict());
        let asked = OutputSchema::new("tree", asked_for::<Tree>().unwrap());
        assert!(asked.is_strict(), "{:?}", asked.schema);
        let schema: Value = serde_json::from_str(asked.schema.get()).unwrap();
        assert_eq!(schema["required"], serde_json::json!(["below", "kind", "properties"]));
        Structured::new("tree", asked.schema).unwrap();
    }
}
