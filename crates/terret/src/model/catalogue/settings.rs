//! What configuration says of a model: over the catalogue, or of one that it does not list.

use serde::{Deserialize, Deserializer, Serialize, de};
use terret_core::price::{Prices, Rate, Rates};

use super::Model;

/// What is set of a model; the rest is as the catalogue has it. Prices are US dollars per million tokens, as text or
/// number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Input and output together, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The most it says in one answer, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether it sees images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Price of input that came from no cache.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    pub input: Option<Rate>,
    /// Price of output.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    pub output: Option<Rate>,
    /// Price of input read from a cache.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    pub cache_read: Option<Rate>,
    /// Price of input written to a cache.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    pub cache_write: Option<Rate>,
}

impl ModelSettings {
    /// The model with these over it. Prices set here hold for requests of every size; they need an input and an
    /// output price, from here or from below, and without both there is none.
    pub(super) fn over(&self, base: Model) -> Model {
        let (prices, table) = match self.sets_a_price() {
            true => self.prices(&base).unzip(),
            false => (base.prices, base.table),
        };
        Model {
            context_window: self.context_window.or(base.context_window),
            max_output_tokens: self.max_output_tokens.or(base.max_output_tokens),
            images: self.images.or(base.images),
            prices,
            table,
            ..base
        }
    }

    /// Whether anything of a price is set.
    fn sets_a_price(&self) -> bool {
        [self.input, self.output, self.cache_read, self.cache_write].iter().any(Option::is_some)
    }

    fn prices(&self, base: &Model) -> Option<(Prices, String)> {
        let below = base.prices.as_ref().map(|prices| &prices.rates);
        let rates = Rates {
            input: self.input.or(below.map(|rates| rates.input))?,
            output: self.output.or(below.map(|rates| rates.output))?,
            cache_read: self.cache_read.or(below.and_then(|rates| rates.cache_read)),
            cache_write: self.cache_write.or(below.and_then(|rates| rates.cache_write)),
        };
        let mine = [Some(rates.input), Some(rates.output), rates.cache_read, rates.cache_write];
        let is_mine = [self.input, self.output, self.cache_read, self.cache_write] == mine;
        let table = match &base.table {
            Some(table) if !is_mine => format!("config over {table}"),
            _ => "config".to_owned(),
        };
        Some((Prices::flat(rates), table))
    }
}

/// A price as it is written in a file: `"1.25"`, `1.25`, `3`.
fn price<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
    let value = toml::Value::deserialize(d)?;
    rate(&value).map(Some).ok_or_else(|| de::Error::custom(format!("`{value}` is no price: {PRICE}")))
}

/// What a price has to be.
pub(crate) const PRICE: &str =
    "US dollars per million tokens, as a decimal from 0 up with at most six places";

/// The price a value means, if it means one. A number's shortest decimal is what was typed.
pub(crate) fn rate(value: &toml::Value) -> Option<Rate> {
    match value {
        toml::Value::String(text) => text.parse().ok(),
        toml::Value::Integer(whole) => whole.to_string().parse().ok(),
        toml::Value::Float(number) => number.to_string().parse().ok(),
        _ => None,
    }
}
