//! OpenAI's chat completions and the many servers that speak it.

mod calls;
pub mod codec;
mod decode;
mod details;
pub mod dialect;
mod ending;
mod event;
mod head;
mod parts;
pub mod rows;
mod usage;

use terret_core::raw::Raw;

use super::wire::{Auth, Wire};

/// The wire.
pub static WIRE: Wire = Wire {
    protocol: codec::PROTOCOL,
    codec: codec::NAME,
    path: "/chat/completions",
    auth: Auth::Bearer,
    headers: |_| Vec::new(),
    row: |name, model| Raw::from_value(&dialect::Dialect::built_in(name, model)?).ok(),
    rows: &rows::NAMES,
    typed: |columns| Raw::from_value(&serde_json::from_str::<dialect::Dialect>(columns)?),
    columns: || schemars::schema_for!(dialect::Dialect),
    reserved: &head::RESERVED,
    output_tokens: None,
    decoder: |secret| Box::new(decode::Decoder::new(secret)),
};
