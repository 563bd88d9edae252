//! `terret doctor --provider NAME`: what a provider comes to, column by column.

use terret::config::Config;
use terret::model::Models as _;
use terret::model::failure::without_userinfo;
use terret::model::provider::resolve;
use terret::model::wire::Auth;

use crate::open;
use crate::problem::Problem;
use crate::verb::run::{providers, settings};

/// What a request to this route is shaped by. Never a key.
pub(super) fn report(route: &str, config: &Config) -> Result<String, Problem> {
    let (name, model) = route.split_once('/').unwrap_or((route, ""));
    let settings = settings(config, name)?;
    let found =
        resolve(name, settings.as_ref(), &open::env).map_err(|failure| Problem::usage(failure.message))?;
    let known = providers(config)?.known(name, model);
    let sees_images = known.and_then(|model| model.images);
    let columns = found.row.columns(model, sees_images).map_err(|failure| Problem::usage(failure.message))?;
    let header = match &found.auth {
        Auth::Bearer => "authorization",
        Auth::Header(name) => name,
    };
    let key = match found.api_key_env.as_str() {
        "" => "none needed".to_owned(),
        variable => {
            let set = open::env(variable).is_some_and(|value| !value.trim().is_empty());
            let state = if set { "is set" } else { "is not set" };
            let needed = if set || found.needs_key { "" } else { " (not needed)" };
            format!("{variable} {state}{needed}, sent as `{header}`")
        }
    };
    let mut text = format!(
        "provider  {name}\nwire      {} (codec {})\nserver    {}\nkey       {key}\n\ndialect{}\n",
        found.wire.protocol,
        found.wire.codec,
        without_userinfo(&found.base_url),
        if model.is_empty() { String::new() } else { format!(" for {model}") },
    );
    for column in columns {
        let origin = match column.quirk {
            true => {
                let key = format!("providers.{name}.quirks.{}", column.name);
                let origin = config.values().get(&key).map(|set| set.origin.as_str());
                format!("  ({})", origin.unwrap_or("configuration"))
            }
            false => String::new(),
        };
        text.push_str(&format!("  {:<20} {}{origin}\n", column.name, column.value));
    }
    Ok(text)
}
