//! What is known of one provider's models: configuration, then the catalogue where the names mean what it says.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Model, ModelSettings};

/// Settings by provider and model.
pub(crate) type Configured = Arc<BTreeMap<(String, String), ModelSettings>>;

/// Looks models of one provider up.
#[derive(Clone, Debug, Default)]
pub struct Known {
    provider: String,
    /// Whether its model names mean what the catalogue says; a local server's may mean anything.
    hosted: bool,
    configured: Configured,
}

impl Known {
    pub(crate) fn new(provider: &str, hosted: bool, configured: Configured) -> Self {
        Known { provider: provider.to_owned(), hosted, configured }
    }

    /// The model, as far as it is known.
    pub fn find(&self, model: &str) -> Option<Model> {
        let listed = self.hosted.then(|| super::find(&self.provider, model)).flatten();
        let settings = self.configured.get(&(self.provider.clone(), model.to_owned()));
        match settings {
            Some(settings) => {
                let unlisted =
                    || Model { provider: self.provider.clone(), id: model.to_owned(), ..Model::default() };
                Some(settings.over(listed.unwrap_or_else(unlisted)))
            }
            None => listed,
        }
    }
}
