//! OpenAI's chat completions and the many servers that speak it.

mod calls;
pub mod codec;
mod decode;
mod details;
pub mod dialect;
mod ending;
mod event;
mod history;
mod usage;

use terret_core::raw::Raw;

use super::wire::{Auth, Wire};

/// The wire.
pub static WIRE: Wire = Wire {
    protocol: codec::PROTOCOL,
    codec: codec::NAME,
    path: "/chat/completions",
    auth: Auth::Bearer,
    headers: &[],
    row: |name, _| Raw::from_value(&dialect::Dialect::built_in(name)?).ok(),
    reserved: &codec::RESERVED,
    decoder: |secret| Box::new(decode::Decoder::new(secret)),
};
