//! The adapter: one provider, one base URL, one kept-alive connection.

use std::collections::BTreeMap;

use terret_core::chunk::{Failure, code};
use terret_core::raw::Raw;

use super::http::Http;
use super::row::Row;
use super::wire::Wire;
use super::{Adapter, ChunkStream, Outgoing, Prepared, Proposal, models, stream};

/// Speaks one wire to one server.
pub(super) struct WireAdapter {
    /// The wire.
    pub wire: &'static Wire,
    /// Name of the provider, for messages.
    pub provider: String,
    /// The row that says how this server differs.
    pub row: Row,
    /// Where it is.
    pub http: Http,
    /// Whether its model names mean what our table of models says; a local server's may mean anything.
    pub hosted: bool,
    /// The environment variable that should hold the key, when it is needed and does not.
    pub missing_key: Option<String>,
}

impl Adapter for WireAdapter {
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure> {
        if let Some(variable) = &self.missing_key {
            let message = format!("no API key for {}: set {variable}", self.provider);
            return Err(Failure::new(code::AUTH, message));
        }
        if proposal.model.is_empty() {
            let message = format!("no model given: write {}/MODEL", self.provider);
            return Err(Failure::new(code::INVALID_REQUEST, message));
        }
        check(self.wire, &proposal.parameters)?;
        let dialect = self.row.effective(&proposal.model)?;
        self.accepts(proposal, &dialect)?;
        let known = models::find(&proposal.model).filter(|_| self.hosted);
        let mut parameters = proposal.parameters.clone();
        let mut defaults = Vec::new();
        let limit = known.map(models::Model::default_output_tokens).or(self.wire.output_tokens);
        if let (Some(limit), false) = (limit, parameters.contains_key("max_output_tokens")) {
            let limit = Raw::from_value(&limit).map_err(unwritable)?;
            parameters.insert("max_output_tokens".to_owned(), limit);
            defaults.push("max_output_tokens".to_owned());
        }
        Ok(Prepared {
            wire: self.wire.codec.to_owned(),
            dialect,
            parameters,
            defaults,
            context_window: known.map(|model| model.context_window),
        })
    }

    fn stream(&self, request: Outgoing) -> ChunkStream {
        stream::stream(self.wire, self.http.clone(), request)
    }
}

impl WireAdapter {
    /// Refuses parameters the server would refuse, or take and not heed.
    fn accepts(&self, proposal: &Proposal, dialect: &Raw) -> Result<(), Failure> {
        #[derive(serde::Deserialize)]
        struct Refuses {
            #[serde(default)]
            refused: Vec<String>,
        }
        let refused = serde_json::from_str::<Refuses>(dialect.get()).map_err(unwritable)?.refused;
        let given = |refused: &&String| match refused.split_once('=') {
            Some((name, word)) => proposal.parameters.get(name).is_some_and(|raw| *raw == Raw::string(word)),
            None => proposal.parameters.contains_key(*refused),
        };
        match refused.iter().find(given) {
            None => Ok(()),
            Some(refused) => {
                let (provider, model) = (&self.provider, &proposal.model);
                let what = format!("{provider} takes no `{refused}` for {model}: leave it out");
                Err(Failure::new(code::INVALID_REQUEST, what))
            }
        }
    }
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::new(code::UNKNOWN, error.to_string())
}

/// Refuses what a server could only refuse more expensively.
fn check(wire: &Wire, parameters: &BTreeMap<String, Raw>) -> Result<(), Failure> {
    let invalid = |what: String| Err(Failure::new(code::INVALID_REQUEST, what));
    for (name, raw) in parameters {
        if wire.reserved.contains(&name.as_str()) {
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
