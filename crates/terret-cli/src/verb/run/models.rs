//! Providers and models, as configuration describes them.

use terret::agent::parse_route;
use terret::config::Config;
use terret::model::{ModelSettings, ProviderSettings, Providers};

use crate::open;
use crate::problem::Problem;

/// The providers and models of a configuration.
pub(crate) fn providers(config: &Config) -> Result<Providers, Problem> {
    let mut providers = Providers::new(Box::new(open::env));
    for name in config.providers() {
        if let Some(settings) = settings(config, &name)? {
            providers = providers.with(&name, settings);
        }
    }
    for name in config.models() {
        let wrong = |what: String| Problem::usage(format!("model `{name}`: {what}")).hint("terret models");
        let (provider, model) =
            parse_route(&name).map_err(|_| wrong("its name is not `PROVIDER/MODEL`".to_owned()))?;
        let table = config.model(&name).unwrap_or_default();
        let settings: ModelSettings =
            table.try_into().map_err(|e: toml::de::Error| wrong(e.message().to_owned()))?;
        providers = providers.with_model(&provider, &model, settings);
    }
    Ok(providers)
}

/// What configuration says of a provider, if it does.
pub(crate) fn settings(config: &Config, name: &str) -> Result<Option<ProviderSettings>, Problem> {
    let Some(table) = config.provider(name) else { return Ok(None) };
    let read = table.try_into();
    read.map(Some).map_err(|e: toml::de::Error| Problem::usage(format!("provider `{name}`: {}", e.message())))
}
