//! Providers as data: where they are, what they speak, and where their key is.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terret_core::chunk::{Failure, code};

use super::Adapter;
use super::adapter::WireAdapter;
use super::catalogue::{Configured, Known};
use super::http::Http;
use super::row::Row;
use super::script::ScriptAdapter;
use super::transport::HttpClient;
use super::wire::{self, Auth, WIRES, Wire};

/// A provider as configuration describes it. Over a built-in of the same name, what is given here wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderSettings {
    /// Protocol: `anthropic-messages`, `openai-chat` or `openai-responses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// Where the server is, for example `http://localhost:8000/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key; `""` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Name of a dialect row; `generic` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The header that carries the key instead of the wire's own, for example `api-key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_header: Option<String>,
    /// Columns in which this server differs from its row.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub quirks: toml::Table,
    /// Extra headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// A provider we know by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name in routes.
    pub name: &'static str,
    /// Protocol.
    pub wire: &'static str,
    /// Where it is.
    pub base_url: &'static str,
    /// Environment variable that moves it.
    pub base_url_env: &'static str,
    /// Environment variable with its key.
    pub api_key_env: &'static str,
    /// Whether it answers nobody without a key.
    pub needs_key: bool,
    /// Dialect row.
    pub dialect: &'static str,
}

/// All of them, by name.
pub const BUILT_IN: [BuiltIn; 13] = [
    BuiltIn {
        name: "anthropic",
        wire: "anthropic-messages",
        base_url: "https://api.anthropic.com",
        base_url_env: "ANTHROPIC_BASE_URL",
        api_key_env: "ANTHROPIC_API_KEY",
        needs_key: true,
        dialect: "anthropic",
    },
    chat("deepseek", "https://api.deepseek.com", "DEEPSEEK_BASE_URL", "DEEPSEEK_API_KEY", true),
    chat(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_BASE_URL",
        "GEMINI_API_KEY",
        true,
    ),
    chat("groq", "https://api.groq.com/openai/v1", "GROQ_BASE_URL", "GROQ_API_KEY", true),
    chat("llamacpp", "http://127.0.0.1:8080/v1", "LLAMACPP_BASE_URL", "LLAMACPP_API_KEY", false),
    chat("lmstudio", "http://127.0.0.1:1234/v1", "LMSTUDIO_BASE_URL", "LMSTUDIO_API_KEY", false),
    chat("mistral", "https://api.mistral.ai/v1", "MISTRAL_BASE_URL", "MISTRAL_API_KEY", true),
    chat("ollama", "http://127.0.0.1:11434/v1", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", false),
    chat("openai", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY", true),
    chat("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", "OPENROUTER_API_KEY", true),
    chat("together", "https://api.together.xyz/v1", "TOGETHER_BASE_URL", "TOGETHER_API_KEY", true),
    chat("vllm", "http://127.0.0.1:8000/v1", "VLLM_BASE_URL", "VLLM_API_KEY", false),
    chat("xai", "https://api.x.ai/v1", "XAI_BASE_URL", "XAI_API_KEY", true),
];

const CHAT: &str = "openai-chat";

const fn chat(
    name: &'static str,
    base_url: &'static str,
    base_url_env: &'static str,
    api_key_env: &'static str,
    needs_key: bool,
) -> BuiltIn {
    BuiltIn { name, wire: CHAT, base_url, base_url_env, api_key_env, needs_key, dialect: name }
}

/// Parts of an adapter that come from the program rather than from settings.
#[derive(Clone, Default)]
pub struct Own {
    /// What sends the requests; absent: the client that comes along.
    pub client: Option<Arc<dyn HttpClient>>,
    /// Further headers of every request. Those of the settings win.
    pub headers: Vec<(String, String)>,
    /// What it says of models.
    pub(crate) models: Configured,
}

impl Own {
    /// What is known of a provider's models. A local server knows its own best: its names are not looked up.
    pub(crate) fn known(&self, provider: &str) -> Known {
        let hosted = BUILT_IN.iter().any(|known| known.name == provider && known.needs_key);
        Known::new(provider, hosted, self.models.clone())
    }
}

/// What a provider comes to: a built-in, a configured one, or a built-in with settings over it.
pub struct Resolved {
    /// What it speaks.
    pub wire: &'static Wire,
    /// Where it is.
    pub base_url: String,
    /// How it differs from others.
    pub row: Row,
    /// The environment variable of its key; empty for none.
    pub api_key_env: String,
    /// Whether it answers nobody without a key.
    pub needs_key: bool,
    /// The header that carries the key.
    pub auth: Auth,
}

/// What this provider comes to. `env` looks up environment variables.
pub fn resolve(
    name: &str,
    settings: Option<&ProviderSettings>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, Failure> {
    let built_in = BUILT_IN.iter().find(|provider| provider.name == name);
    let none = ProviderSettings::default();
    let settings = match (settings, built_in) {
        (None, None) => return Err(unknown(name)),
        (settings, _) => settings.unwrap_or(&none),
    };
    let invalid = |what: String| invalid(name, what);
    let protocol = settings.wire.as_deref().or(built_in.map(|known| known.wire)).unwrap_or(CHAT);
    let wire = wire::wire(protocol).ok_or_else(|| {
        let known: Vec<&str> = WIRES.iter().map(|wire| wire.protocol).collect();
        invalid(format!("there is no wire `{protocol}`: known are {}", known.join(", ")))
    })?;
    let moved = || built_in.and_then(|known| present(known.base_url_env, env));
    let base_url =
        settings.base_url.clone().or_else(moved).or(built_in.map(|known| known.base_url.to_owned()));
    let mut base_url = base_url.ok_or_else(|| invalid("it has no base_url".to_owned()))?;
    // Where the path has the version, people give the address with it and without.
    if wire.path.starts_with("/v1/") {
        base_url = base_url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
    }
    // A built-in that is told to speak another wire has a row there, or is nobody in particular.
    let known_row = built_in.map(|known| known.dialect).filter(|row| wire.rows.contains(row));
    let row = settings.dialect.as_deref().or(known_row).unwrap_or("generic");
    let row = Row::new(wire, row, settings.quirks.clone()).map_err(invalid)?;
    // A variable that configuration names is meant: its absence is a mistake.
    let (api_key_env, needs_key) = match (&settings.api_key_env, built_in) {
        (Some(variable), _) => (variable.as_str(), !variable.is_empty()),
        (None, Some(known)) => (known.api_key_env, known.needs_key),
        (None, None) => ("", false),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !api_key_env.chars().all(is_name) {
        // It is not shown: it may well be the key.
        return Err(invalid(
            "its `api_key_env` is no name of a variable; a key does not belong there".to_owned(),
        ));
    }
    let named = settings.api_key_header.clone().map(|name| Auth::Header(name.into()));
    Ok(Resolved {
        wire,
        base_url,
        row,
        api_key_env: api_key_env.to_owned(),
        needs_key,
        auth: named.unwrap_or_else(|| wire.auth.clone()),
    })
}

/// The adapter of a provider. `env` looks up environment variables.
pub fn adapter(
    name: &str,
    settings: Option<&ProviderSettings>,
    env: &dyn Fn(&str) -> Option<String>,
    own: Own,
) -> Result<Box<dyn Adapter>, Failure> {
    if name == "script" && settings.is_none() {
        return Ok(Box::new(ScriptAdapter::new()));
    }
    let Resolved { wire, base_url, row, api_key_env, needs_key, auth } = resolve(name, settings, env)?;
    let key = present(&api_key_env, env);
    let missing_key = (needs_key && key.is_none()).then_some(api_key_env);
    let effective = row.effective("", None)?;
    let models = own.known(name);
    let fixed = (wire.headers)(&effective).into_iter().map(|(name, value)| (name.to_owned(), value));
    let further = settings.map(|settings| settings.headers.clone()).unwrap_or_default();
    let headers: Vec<(String, String)> = fixed.chain(own.headers).chain(further).collect();
    let http = Http::new(&base_url, key.map(|key| (auth, key)), &headers, own.client);
    let http = http.map_err(|failure| invalid(name, failure.message))?;
    Ok(Box::new(WireAdapter { wire, provider: name.to_owned(), row, http, models, missing_key }))
}

/// A variable that is set to something.
fn present(variable: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let value = Some(variable).filter(|variable| !variable.is_empty()).and_then(env);
    value.filter(|value| !value.trim().is_empty())
}

fn invalid(provider: &str, what: String) -> Failure {
    Failure::new(code::INVALID_REQUEST, format!("provider {provider}: {what}"))
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = BUILT_IN.iter().map(|provider| provider.name).collect();
    let message = format!(
        "no provider `{name}`: known are {}, script; others come from configuration",
        known.join(", ")
    );
    Failure::new(code::NO_ADAPTER, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{BUILT_IN, Own, ProviderSettings, adapter};
    use crate::model::openai_chat::dialect::{Dialect, Images};
    use crate::model::{Prepared, Proposal};
    use terret_core::chunk::{Failure, code};

    fn prepare(name: &str, settings: Option<&str>, env: &[(&str, &str)]) -> Result<Prepared, Failure> {
        let settings: Option<ProviderSettings> = settings.map(|text| toml::from_str(text).unwrap());
        let get = |key: &str| env.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        let proposal =
            Proposal { provider: name.to_owned(), model: "gpt-5".to_owned(), ..Proposal::default() };
        adapter(name, settings.as_ref(), &get, Own::default())?.prepare(&proposal)
    }

    #[test]
    fn a_missing_key_is_named_before_anything_is_sent() {
        for provider in BUILT_IN.iter().filter(|provider| provider.needs_key) {
            let failure = prepare(provider.name, None, &[]).unwrap_err();
            assert_eq!(failure.code, code::AUTH);
            assert!(failure.message.contains(provider.api_key_env), "{}", failure.message);
            assert!(prepare(provider.name, None, &[(provider.api_key_env, "k")]).is_ok());
        }
        assert!(prepare("ollama", None, &[]).is_ok());
        let named = "base_url = 'http://a'\napi_key_env = 'MY_KEY'";
        assert!(prepare("mine", Some(named), &[]).unwrap_err().message.contains("MY_KEY"));
        assert!(prepare("openai", Some("api_key_env = ''"), &[]).is_ok());
    }

    #[test]
    fn defaults_are_marked_and_the_dialect_is_named() {
        let prepared = prepare("openai", None, &[("OPENAI_API_KEY", "k")]).unwrap();
        assert_eq!(prepared.wire, "openai-chat@2");
        assert_eq!(prepared.defaults, ["max_output_tokens"]);
        assert_eq!(prepared.parameters["max_output_tokens"].get(), "32000");
        assert_eq!(prepared.context_window, Some(400_000));
        assert_eq!(Dialect::from_raw(&prepared.dialect).unwrap().name, "openai");
        let generic = prepare("mine", Some("base_url = 'http://a'"), &[]).unwrap();
        assert_eq!(Dialect::from_raw(&generic.dialect).unwrap().name, "generic");
    }

    #[test]
    fn a_model_that_sees_none_gets_words_for_pictures() {
        let images = |model: &str, quirks: &str| {
            let settings: ProviderSettings = toml::from_str(&format!("api_key_env = ''\n{quirks}")).unwrap();
            let own = Own::default();
            let adapter = adapter("deepseek", Some(&settings), &|_| None, own).unwrap();
            let proposal =
                Proposal { provider: "deepseek".into(), model: model.into(), ..Proposal::default() };
            Dialect::from_raw(&adapter.prepare(&proposal).unwrap().dialect).unwrap().images
        };
        assert_eq!(images("deepseek-v4-pro", ""), Images::Placeholder);
        assert_eq!(images("deepseek-flash", ""), Images::Send);
        assert_eq!(images("deepseek-v4-pro", "[quirks]\nimages = 'send'"), Images::Send);
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        let message = |name: &str, settings: Option<&str>| prepare(name, settings, &[]).unwrap_err().message;
        assert!(
            message("mine", Some("wire = 'smoke'"))
                .contains("no wire `smoke`: known are anthropic-messages, openai-chat, openai-responses")
        );
        let key = message("mine", Some("base_url = 'http://a'\napi_key_env = 'sk-secret-1'"));
        assert!(key.contains("no name of a variable") && !key.contains("sk-secret"), "{key}");
        assert!(message("opeani", None).contains("known are anthropic, deepseek"));
        assert!(message("mine", Some("wire = 'openai-chat'")).contains("no base_url"));
        assert!(message("mine", Some("base_url = 'x'")).contains("`x` is not"));
        assert!(message("mine", Some("base_url = 'http://a'\ndialect = 'klingon'")).contains("klingon"));
    }

    #[test]
    fn parameters_are_checked_before_anything_is_sent() {
        let refused = |name: &str, value: &str| {
            let mut proposal = Proposal { model: "m".to_owned(), ..Proposal::default() };
            let value = terret_core::raw::Raw::parse(value).unwrap();
            proposal.parameters.insert(name.to_owned(), value);
            adapter("ollama", None, &|_| None, Own::default()).unwrap().prepare(&proposal).is_err()
        };
        assert!(refused("max_output_tokens", "0") && refused("max_output_tokens", "\"5\""));
        assert!(refused("messages", "[]") && refused("temperature", "\"hot\"") && refused("cache_key", "1"));
        assert!(!refused("max_output_tokens", "5") && !refused("seed", "7") && !refused("stop", "[\"x\"]"));
    }
}
