//! OpenAI's Responses protocol, used without storage: every request carries the whole conversation.

pub mod codec;
mod decode;
pub mod dialect;
mod ending;
mod event;
mod items;
mod members;
mod output;
mod parts;
mod usage;

use terret_core::raw::Raw;

use super::wire::{Auth, Wire};

/// The wire.
pub static WIRE: Wire = Wire {
    protocol: codec::PROTOCOL,
    codec: codec::NAME,
    path: "/responses",
    auth: Auth::Bearer,
    headers: |_| Vec::new(),
    row: |name, model| Raw::from_value(&dialect::Dialect::built_in(name, model)?).ok(),
    rows: &dialect::NAMES,
    typed: |columns| Raw::from_value(&serde_json::from_str::<dialect::Dialect>(columns)?),
    columns: || schemars::schema_for!(dialect::Dialect),
    reserved: &codec::RESERVED,
    output_tokens: None,
    decoder: |secret| Box::new(decode::Decoder::new(secret)),
};
