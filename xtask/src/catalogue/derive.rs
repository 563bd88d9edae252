//! From what the packages say to what is kept.

use serde_json::{Map, Value, json};

use super::Result;
use super::decimal::decimal;
use super::packages::Sources;

/// A provider and its names in the packages.
pub(super) struct Provider {
    /// Ours.
    pub(super) name: &'static str,
    /// The first package's file.
    pub(super) primary: &'static str,
    /// What the second package puts before its models, where it does.
    prefix: &'static str,
    /// What it calls the provider.
    overlay: &'static str,
}

const fn provider(
    name: &'static str,
    primary: &'static str,
    prefix: &'static str,
    overlay: &'static str,
) -> Provider {
    Provider { name, primary, prefix, overlay }
}

/// Those whose models are kept.
pub(super) const PROVIDERS: [Provider; 10] = [
    provider("anthropic", "anthropic", "anthropic/", "anthropic"),
    provider("azure", "azure", "azure/", "azure"),
    provider("deepseek", "deepseek", "deepseek/", "deepseek"),
    provider("gemini", "google", "gemini/", "gemini"),
    provider("groq", "groq", "groq/", "groq"),
    provider("mistral", "mistral", "mistral/", "mistral"),
    provider("openai", "openai", "openai/", "openai"),
    provider("openrouter", "openrouter", "openrouter/", "openrouter"),
    provider("together", "together", "together_ai/", "together_ai"),
    provider("xai", "xai", "xai/", "xai"),
];

/// Efforts from the least to the most, and whether silence of the package means that a model has it.
const EFFORTS: [(&str, bool); 7] = [
    ("off", false),
    ("minimal", false),
    ("low", true),
    ("medium", true),
    ("high", true),
    ("xhigh", false),
    ("max", false),
];

/// Every chat model, sorted.
pub(super) fn models(sources: &Sources) -> Result<Vec<Value>> {
    let mut models = Vec::new();
    for (name, apis) in &sources.primary {
        let provider = PROVIDERS.iter().find(|p| p.name == *name).ok_or("a provider nobody asked for")?;
        let found = apis.as_object().into_iter().flatten().flat_map(|(_, models)| models.as_object());
        for model in found.flat_map(Map::values).filter(|model| model["type"] == "chat") {
            let id = text(model, "id")?;
            models.push(one(provider, id, model, beside(&sources.overlay, provider, id))?);
        }
    }
    models.sort_by_key(key);
    models.dedup_by_key(|model| key(model));
    Ok(models)
}

/// What the file is sorted by.
pub(super) fn key(model: &Value) -> (String, String) {
    let part = |name: &str| model[name].as_str().unwrap_or_default().to_owned();
    (part("provider"), part("id"))
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().ok_or_else(|| format!("a model without `{name}`: {value}").into())
}

fn beside<'a>(overlay: &'a Map<String, Value>, provider: &Provider, id: &str) -> Option<&'a Value> {
    let bare = overlay.get(id).filter(|entry| entry["litellm_provider"] == provider.overlay);
    overlay.get(&format!("{}{id}", provider.prefix)).or(bare)
}

fn one(provider: &Provider, id: &str, model: &Value, other: Option<&Value>) -> Result<Value> {
    let number = |name: &str| {
        let number = model[name].as_u64().filter(|n| *n > 0);
        number.ok_or_else(|| format!("{}/{id} has no `{name}`", provider.name))
    };
    let images = model["input"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "image"));
    let reasoning = model["reasoning"].as_bool().unwrap_or(false);
    let mut kept = json!({
        "provider": provider.name,
        "id": id,
        "context_window": number("contextWindow")?,
        "max_output_tokens": number("maxTokens")?,
        "images": images,
        "reasoning": reasoning,
    });
    let levels = &model["thinkingLevelMap"];
    if reasoning && levels.is_object() {
        kept["efforts"] = efforts(levels);
    }
    if let Some(prices) = prices(id, &model["cost"], other)? {
        kept["prices"] = prices;
    }
    if let Some(other) = other {
        if let Some(date) = other["deprecation_date"].as_str() {
            kept["ends"] = json!(date);
        }
        let differs = differs(&kept, other);
        if !differs.is_empty() {
            kept["litellm"] = differs.into();
        }
    }
    Ok(kept)
}

/// What a request may say of effort: the wire's words, without the one that means none.
fn efforts(levels: &Value) -> Value {
    let word = |(level, always): &(&str, bool)| match levels.get(level) {
        Some(Value::String(word)) if *level != "off" || word == "none" => Some(word.to_lowercase()),
        Some(_) => None,
        None => always.then(|| (*level).to_owned()),
    };
    EFFORTS.iter().filter_map(word).collect()
}

/// Prices by class. A cache without one is as dear as other input: the package writes 0 for that. A model that is
/// free is believed to be only where something else says so too: a router that picks others is listed at 0.
fn prices(id: &str, cost: &Value, other: Option<&Value>) -> Result<Option<Value>> {
    let rates = |from: &Value| -> Result<Value> {
        let mut rates = json!({});
        for (name, theirs, always) in RATES {
            let price = decimal(&from[theirs], 0);
            match price {
                Some(price) if always || price != "0" => rates[name] = price.into(),
                None if always => return Err(format!("{id} has no price of `{name}`: {from}").into()),
                _ => {}
            }
        }
        Ok(rates)
    };
    let mut prices = rates(cost)?;
    let is_free = prices["input"] == "0" && prices["output"] == "0";
    let is_zero =
        |other: &Value| ["input_cost_per_token", "output_cost_per_token"].iter().all(|n| other[n] == 0.0);
    if is_free && !id.ends_with(":free") && !other.is_some_and(is_zero) {
        return Ok(None);
    }
    let mut tiers = Vec::new();
    for tier in cost["tiers"].as_array().into_iter().flatten() {
        let above =
            tier["inputTokensAbove"].as_u64().ok_or_else(|| format!("{id}: a tier without a threshold"))?;
        let mut kept = rates(tier)?;
        kept["above"] = above.into();
        tiers.push(kept);
    }
    tiers.sort_by_key(|tier| tier["above"].as_u64());
    if !tiers.is_empty() {
        prices["tiers"] = tiers.into();
    }
    Ok(Some(prices))
}

/// Class, the first package's name for it, whether it is always there.
const RATES: [(&str, &str, bool); 4] = [
    ("input", "input", true),
    ("output", "output", true),
    ("cache_read", "cacheRead", false),
    ("cache_write", "cacheWrite", false),
];

/// Where the second package has another number: which, and its own.
fn differs(kept: &Value, other: &Value) -> Map<String, Value> {
    let mut found = Map::new();
    for (name, theirs, ours) in [
        ("max_input_tokens", "max_input_tokens", "context_window"),
        ("max_output_tokens", "max_output_tokens", "max_output_tokens"),
    ] {
        if let Some(number) = other[theirs].as_u64().filter(|n| *n > 0 && kept[ours] != *n) {
            found.insert(name.to_owned(), number.into());
        }
    }
    for (name, theirs) in [
        ("input", "input_cost_per_token"),
        ("output", "output_cost_per_token"),
        ("cache_read", "cache_read_input_token_cost"),
        ("cache_write", "cache_creation_input_token_cost"),
    ] {
        // Per token there, per million here. No price of a cache's own is 0 there as well.
        let cached = name.starts_with("cache");
        let price = decimal(&other[theirs], 6).filter(|price| !cached || price != "0");
        if let Some(price) = price.filter(|price| kept["prices"][name] != price.as_str()) {
            found.insert(name.to_owned(), price.into());
        }
    }
    found
}
