//! What is known of models: windows, output limits, prices. One committed file, made by `cargo xtask catalogue`, with
//! the versions of what it is made from in its first line.
//!
//! What is not known stays unknown: no window and no price is made up, and no output limit is sent to a wire that
//! works without one. Where a wire demands one, [`DEFAULT_MAX_OUTPUT_TOKENS`] is asked for.

mod known;
mod lines;
mod settings;

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use terret_core::price::{Prices, Rate};

use crate::limits::DEFAULT_MAX_OUTPUT_TOKENS;

pub(crate) use known::Configured;
pub use known::Known;
pub use settings::ModelSettings;
pub(crate) use settings::{PRICE, rate};

/// A model, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Its provider.
    pub provider: String,
    /// What the provider calls it. Of a model that was found by its family: what that one is called.
    pub id: String,
    /// Input and output together, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The most it says in one answer, in tokens, thought included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether it sees images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Whether it thinks before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// How much it can be asked to think, in the words of its wire, least first; empty: nobody says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efforts: Vec<String>,
    /// What its tokens cost. Absence is not zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// Where the prices are from; absent without prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The day its provider ends it, `2026-12-11`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
    /// What the second package says where it differs.
    #[serde(rename = "litellm", skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
}

/// Numbers of the second package, where they differ. The first one's are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// The longest input: less than the window where that counts output in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// The most in one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Price of input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Rate>,
    /// Price of output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Rate>,
    /// Price of input read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Rate>,
    /// Price of input written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Rate>,
}

impl Model {
    /// The output limit to ask for where nobody says otherwise; `None` where the model's own is not known. At most
    /// half the window, since servers refuse a request whose input and limit together are more than that.
    pub fn default_output_tokens(&self) -> Option<u64> {
        let half = self.context_window.map_or(u64::MAX, |window| (window / 2).max(1));
        self.max_output_tokens.map(|most| most.min(DEFAULT_MAX_OUTPUT_TOKENS).min(half))
    }

    /// What of it holds for its relatives too: limits, but no price and no end.
    fn family(self) -> Model {
        Model { prices: None, table: None, ends: None, beside: None, ..self }
    }
}

/// A model by its provider and what it is called there.
///
/// In this order: as it is listed; without the date of a snapshot or `-latest`; a router's `vendor/model` as the
/// vendor's own; by the longest listed name that it begins with. The last two are relatives of what was asked for,
/// and give no price, unless the vendor is the provider itself.
///
/// ```
/// # use terret::model::catalogue::find;
/// assert_eq!(find("openai", "gpt-5-2025-08-07").map(|model| model.id), Some("gpt-5".to_owned()));
/// assert!(find("openai", "gpt-5-something-new").is_some_and(|model| model.prices.is_none()));
/// assert!(find("openai", "something-else").is_none());
/// ```
pub fn find(provider: &str, model: &str) -> Option<Model> {
    if let Some(listed) = same(provider, model) {
        return Some(listed);
    }
    let routed = model.split_once('/').and_then(|(vendor, last)| Some((provider_of(vendor)?, last)));
    if let Some((vendor, last)) = routed
        && let Some(listed) = same(vendor, last)
    {
        return Some(if vendor == provider { listed } else { listed.family() });
    }
    let family = related(provider, model);
    family.or_else(|| routed.and_then(|(vendor, last)| related(vendor, last))).map(Model::family)
}

/// All of them, by provider and name.
pub fn all() -> impl Iterator<Item = Model> {
    lines::all(TEXT).filter_map(read)
}

/// Name and version of the table: `catalogue 2026-11-30 (pi-ai 1.6.0, litellm 1.110.2)`.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| lines::version(TEXT).unwrap_or_else(|| "catalogue".to_owned()))
}

static TEXT: &str = include_str!("catalogue.json");

fn read(line: &str) -> Option<Model> {
    let mut model: Model = serde_json::from_str(line).ok()?;
    model.table = model.prices.as_ref().map(|_| version().to_owned());
    Some(model)
}

/// The model of this name, or the one it is a snapshot of.
fn same(provider: &str, model: &str) -> Option<Model> {
    let line = lines::find(TEXT, provider, model).or_else(|| lines::find(TEXT, provider, undated(model)?));
    line.and_then(read)
}

/// The model with the longest name that this one begins with, up to a place where names have parts.
fn related(provider: &str, model: &str) -> Option<Model> {
    let ends = model.match_indices(['-', ':', '@']).map(|(at, _)| at);
    let starts = ends.collect::<Vec<_>>().into_iter().rev().map(|at| &model[..at]);
    starts.into_iter().find_map(|start| lines::find(TEXT, provider, start)).and_then(read)
}

/// A name without the date of a snapshot, or `-latest`, behind it.
fn undated(model: &str) -> Option<&str> {
    ENDS.iter().find_map(|shape| {
        let (name, end) = model.split_at_checked(model.len().checked_sub(shape.len())?)?;
        let fits = |(have, want): (u8, u8)| if want == b'0' { have.is_ascii_digit() } else { have == want };
        end.bytes().zip(shape.bytes()).all(fits).then_some(name)
    })
}

/// What stands behind the name of a model that is that very model; 0: any digit.
const ENDS: [&str; 4] = ["-0000-00-00", "-00000000", "@00000000", "-latest"];

/// The provider that serves a vendor's own models, by the name routers give the vendor.
fn provider_of(vendor: &str) -> Option<&'static str> {
    VENDORS.iter().find(|(name, _)| *name == vendor).map(|(_, provider)| *provider)
}

const VENDORS: [(&str, &str); 9] = [
    ("anthropic", "anthropic"),
    ("deepseek", "deepseek"),
    ("deepseek-ai", "deepseek"),
    ("google", "gemini"),
    ("mistralai", "mistral"),
    ("openai", "openai"),
    ("x-ai", "xai"),
    ("xai", "xai"),
    ("models", "gemini"),
];

#[cfg(test)]
mod tests;
