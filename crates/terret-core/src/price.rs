//! Money: what tokens cost, exactly. Decimals in, integers inside, decimals out; no binary fraction anywhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::chunk::Usage;

/// What the tokens of a model cost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prices {
    /// Prices of a request below every tier.
    #[serde(flatten)]
    pub rates: Rates,
    /// Prices of larger requests, by what they begin above, rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
}

/// Prices by class of tokens, in US dollars per million.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// Input that came from no cache.
    pub input: Rate,
    /// Output, reasoning included.
    pub output: Rate,
    /// Input read from a cache; absent: as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Rate>,
    /// Input written to a cache; absent: as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Rate>,
}

/// Prices of a whole request whose input is longer than a threshold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tier {
    /// Input tokens, cached or not, above which it holds.
    pub above: u64,
    /// The prices.
    #[serde(flatten)]
    pub rates: Rates,
}

impl Prices {
    /// The same for requests of every size.
    pub fn flat(rates: Rates) -> Self {
        Prices { rates, tiers: Vec::new() }
    }

    /// What one response cost: each class at its price, all at the tier its input falls into. Exact, without
    /// rounding; an amount beyond what [`Usd`] holds stays there.
    ///
    /// ```
    /// # use terret_core::{chunk::Usage, price::Prices};
    /// let prices: Prices = serde_json::from_str(r#"{"input":"1.25","output":"10","cache_read":"0.125"}"#)?;
    /// let usage = Usage { input_tokens: 1000, output_tokens: 200, cache_read_tokens: Some(4000), ..Usage::default() };
    /// // 1000 × 1.25 + 4000 × 0.125 + 200 × 10 millionths of a dollar.
    /// assert_eq!(prices.cost(&usage).to_string(), "0.00375");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn cost(&self, usage: &Usage) -> Usd {
        let read = usage.cache_read_tokens.unwrap_or(0);
        let write = usage.cache_write_tokens.unwrap_or(0);
        let input = usage.input_tokens.saturating_add(read).saturating_add(write);
        let tier = self.tiers.iter().filter(|tier| input > tier.above).max_by_key(|tier| tier.above);
        let rates = tier.map_or(&self.rates, |tier| &tier.rates);
        let classes = [
            (usage.input_tokens, rates.input),
            (read, rates.cache_read.unwrap_or(rates.input)),
            (write, rates.cache_write.unwrap_or(rates.input)),
            (usage.output_tokens, rates.output),
        ];
        classes.into_iter().fold(Usd::default(), |sum, (tokens, rate)| sum.plus(rate.times(tokens)))
    }
}

/// US dollars per million tokens: a decimal with up to six places, kept as trillionths of a dollar per token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    fn times(self, tokens: u64) -> Usd {
        Usd(u128::from(self.0) * u128::from(tokens))
    }
}

impl FromStr for Rate {
    type Err = NotDecimal;

    fn from_str(text: &str) -> Result<Self, NotDecimal> {
        scaled(text, RATE_PLACES).and_then(|n| u64::try_from(n).ok()).map(Rate).ok_or(NotDecimal(RATE_PLACES))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, u128::from(self.0), RATE_PLACES)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(d)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Rate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rate".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]{1,6})?$",
            "description": "US dollars per million tokens, as an exact decimal",
        })
    }
}

/// An amount of US dollars, to the trillionth. Never rounded when added, only where somebody asks for fewer places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u128);

impl Usd {
    /// From millionths of a dollar, the unit of budgets.
    pub fn from_micros(micros: u64) -> Self {
        Usd(u128::from(micros) * PICOS_IN_MICRO)
    }

    /// In millionths of a dollar, up: what costs anything costs one at least.
    pub fn micros_up(self) -> u64 {
        u64::try_from(self.0.div_ceil(PICOS_IN_MICRO)).unwrap_or(u64::MAX)
    }

    /// The sum; it stays at the largest amount there is.
    pub fn plus(self, other: Usd) -> Usd {
        Usd(self.0.saturating_add(other.0))
    }
}

impl FromStr for Usd {
    type Err = NotDecimal;

    fn from_str(text: &str) -> Result<Self, NotDecimal> {
        scaled(text, USD_PLACES).map(Usd).ok_or(NotDecimal(USD_PLACES))
    }
}

/// Dollars as a decimal, all its places and none that is not needed: `0.00375`.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, USD_PLACES)
    }
}

/// A text that is no decimal, or has more places than fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotDecimal(u32);

impl fmt::Display for NotDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a decimal number from 0 up with at most {} places", self.0)
    }
}

impl std::error::Error for NotDecimal {}

const RATE_PLACES: u32 = 6;
const USD_PLACES: u32 = 12;
const PICOS_IN_MICRO: u128 = 1_000_000;

/// `12.5` with two places is 1250. Digits and at most one point between them; nothing is rounded.
fn scaled(text: &str, places: u32) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let room = places.checked_sub(u32::try_from(part.len()).ok()?)?;
    if !digits(whole) || !digits(part) {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(10_u128.pow(places))?;
    whole.checked_add(part.parse::<u128>().ok()? * 10_u128.pow(room))
}

fn write_decimal(f: &mut fmt::Formatter<'_>, scaled: u128, places: u32) -> fmt::Result {
    let one = 10_u128.pow(places);
    let width = places as usize;
    let text = format!("{}.{:0width$}", scaled / one, scaled % one);
    f.pad(text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests;
