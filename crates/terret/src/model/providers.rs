//! Finds the adapter of a provider: the scripted model, a built-in, or one the configuration describes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use terret_core::chunk::Failure;

use super::Adapter;
use super::catalogue::{Model, ModelSettings};
use super::provider::{self, Own, ProviderSettings};
use super::script::ScriptAdapter;
use super::transport::HttpClient;

/// Finds the adapter of a provider.
pub trait Models: Send + Sync {
    /// The adapter, or why there is none.
    fn adapter(&self, provider: &str) -> Result<Arc<dyn Adapter>, Failure>;

    /// What is known of a model: its window where the adapter does not say, and its price.
    fn known(&self, provider: &str, model: &str) -> Option<Model> {
        let _ = (provider, model);
        None
    }
}

type Env = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The providers of a configuration. An adapter is made when it is first asked for and kept, so that its
/// connection is.
pub struct Providers {
    env: Env,
    settings: HashMap<String, ProviderSettings>,
    own: Own,
    made: Mutex<HashMap<String, Arc<dyn Adapter>>>,
}

impl Providers {
    /// The built-in providers. `env` looks up environment variables, keys among them.
    pub fn new(env: Env) -> Self {
        Providers { env, settings: HashMap::new(), own: Own::default(), made: Mutex::default() }
    }

    /// Adds a provider, or settings over a built-in one.
    pub fn with(mut self, name: &str, settings: ProviderSettings) -> Self {
        self.settings.insert(name.to_owned(), settings);
        self
    }

    /// Says something of a model: over the catalogue, or of one that it does not list.
    pub fn with_model(mut self, provider: &str, model: &str, settings: ModelSettings) -> Self {
        let name = (provider.to_owned(), model.to_owned());
        Arc::make_mut(&mut self.own.models).insert(name, settings);
        self
    }

    /// Serves a provider by an adapter of the program's own.
    pub fn with_adapter(self, name: &str, adapter: impl Adapter + 'static) -> Self {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.insert(name.to_owned(), Arc::new(adapter));
        drop(made);
        self
    }

    /// Sends through the program's own HTTP client: with the feature `http` a `reqwest::Client` is one, and without it
    /// there is no other.
    pub fn with_client(mut self, client: impl HttpClient + 'static) -> Self {
        self.own.client = Some(Arc::new(client));
        self
    }

    /// Adds a header to every request of every provider; one of the same name in a provider's settings wins. Failures
    /// show its value as little as they show keys.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.own.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Models for Providers {
    fn adapter(&self, name: &str) -> Result<Arc<dyn Adapter>, Failure> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(adapter) = made.get(name) {
            return Ok(adapter.clone());
        }
        let adapter: Arc<dyn Adapter> = match name {
            "script" => Arc::new(ScriptAdapter::new()),
            _ => provider::adapter(name, self.settings.get(name), &self.env, self.own.clone())?.into(),
        };
        made.insert(name.to_owned(), adapter.clone());
        Ok(adapter)
    }

    fn known(&self, provider: &str, model: &str) -> Option<Model> {
        self.own.known(provider).find(model)
    }
}
