//! Questions whose answers have a type.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use terret_core::fact::EndReason;

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
    /// any more, because the future was dropped or the process died.
    pub async fn ask<T: DeserializeOwned + JsonSchema>(
        &self,
        text: impl Into<String>,
    ) -> Result<Answer<T>, Error> {
        let structured = Structured::new(&T::schema_name(), schema::<T>())?;
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

fn value<T: DeserializeOwned>(structured: &Structured, text: &str) -> Result<T, String> {
    let json = structured.read(text).map_err(|wrong| wrong.join("; "))?;
    // A type may be pickier than its schema.
    serde_json::from_str(json).map_err(|e| format!("it satisfies the schema, and is none: {e}"))
}

pub(super) fn taken_off() -> Error {
    Error::Usage("the message was taken off before it was read".into())
}
