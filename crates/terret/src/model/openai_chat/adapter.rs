//! The adapter of chat completions: one provider, one base URL, one kept-alive connection.

use std::collections::BTreeMap;

use terret_core::chunk::{Failure, code};
use terret_core::raw::Raw;

use super::codec::{NAME, RESERVED};
use super::dialect::Dialect;
use super::stream;
use crate::model::catalogue::{Known, Model};
use crate::model::http::Http;
use crate::model::{Adapter, ChunkStream, Outgoing, Prepared, Proposal};

/// Speaks chat completions to one server.
pub struct ChatAdapter {
    /// Name of the provider, for messages.
    pub provider: String,
    /// How this server differs.
    pub dialect: Dialect,
    /// Where it is.
    pub http: Http,
    /// What is known of its models.
    pub models: Known,
    /// The environment variable that should hold the key, when it is needed and does not.
    pub missing_key: Option<String>,
}

impl Adapter for ChatAdapter {
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure> {
        if let Some(variable) = &self.missing_key {
            let message = format!("no API key for {}: set {variable}", self.provider);
            return Err(Failure::new(code::AUTH, message));
        }
        if proposal.model.is_empty() {
            let message = format!("no model given: write {}/MODEL", self.provider);
            return Err(Failure::new(code::INVALID_REQUEST, message));
        }
        check(&proposal.parameters)?;
        let known = self.models.find(&proposal.model);
        let mut parameters = proposal.parameters.clone();
        let mut defaults = Vec::new();
        if let (Some(limit), false) = (
            known.as_ref().and_then(Model::default_output_tokens),
            parameters.contains_key("max_output_tokens"),
        ) {
            let limit = Raw::from_value(&limit).map_err(unwritable)?;
            parameters.insert("max_output_tokens".to_owned(), limit);
            defaults.push("max_output_tokens".to_owned());
        }
        Ok(Prepared {
            wire: NAME.to_owned(),
            dialect: Raw::from_value(&self.dialect).map_err(unwritable)?,
            parameters,
            defaults,
            context_window: known.and_then(|model| model.context_window),
        })
    }

    fn stream(&self, request: Outgoing) -> ChunkStream {
        stream::stream(self.http.clone(), request)
    }
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::new(code::UNKNOWN, error.to_string())
}

/// Refuses what a server could only refuse more expensively.
fn check(parameters: &BTreeMap<String, Raw>) -> Result<(), Failure> {
    let invalid = |what: String| Err(Failure::new(code::INVALID_REQUEST, what));
    for (name, raw) in parameters {
        if RESERVED.contains(&name.as_str()) {
            return invalid(format!("the parameter `{name}` is set by the harness"));
        }
        let value = raw.get();
        match name.as_str() {
            "max_output_tokens" if !value.parse::<u64>().is_ok_and(|tokens| tokens > 0) => {
                return invalid(format!("`max_output_tokens` must be a whole number above 0, not {value}"));
            }
            "temperature" | "top_p" if value.parse::<f64>().is_err() => {
                return invalid(format!("`{name}` must be a number, not {value}"));
            }
            "reasoning_effort" | "cache_key" if !value.starts_with('"') => {
                return invalid(format!("`{name}` must be a string, not {value}"));
            }
            _ => {}
        }
    }
    Ok(())
}
