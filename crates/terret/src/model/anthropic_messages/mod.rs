//! Anthropic's messages, and the servers that speak them too.

mod blocks;
mod breakpoints;
pub mod codec;
mod decode;
pub mod dialect;
mod ending;
mod event;
mod fields;
mod head;
mod history;
mod open;
pub mod rows;

use std::borrow::Cow;

use terret_core::raw::Raw;

use super::wire::{Auth, Wire};
use crate::limits::DEFAULT_MAX_OUTPUT_TOKENS;

/// The wire.
pub static WIRE: Wire = Wire {
    protocol: codec::PROTOCOL,
    codec: codec::NAME,
    path: "/v1/messages",
    auth: Auth::Header(Cow::Borrowed("x-api-key")),
    headers: |row| {
        let version = dialect::Dialect::from_raw(row).map(|row| row.version).unwrap_or_default();
        vec![("anthropic-version", version)]
    },
    row: |name, model| Raw::from_value(&dialect::Dialect::built_in(name, model)?).ok(),
    rows: &rows::NAMES,
    typed: |columns| Raw::from_value(&serde_json::from_str::<dialect::Dialect>(columns)?),
    reserved: &head::RESERVED,
    output_tokens: Some(DEFAULT_MAX_OUTPUT_TOKENS),
    decoder: |secret| Box::new(decode::Decoder::new(secret)),
};
