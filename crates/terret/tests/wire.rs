//! Wires: recorded bodies against what they mean, requests against golden bodies, sockets against a server.

#![allow(clippy::unwrap_used)]

#[path = "wire/anthropic.rs"]
mod anthropic;
#[path = "wire/anthropic_rules.rs"]
mod anthropic_rules;
#[path = "wire/errors.rs"]
mod errors;
#[path = "wire/fixtures.rs"]
mod fixtures;
#[path = "wire/requests.rs"]
mod requests;
#[path = "wire/rules.rs"]
mod rules;
#[path = "wire/script.rs"]
mod script;
#[path = "wire/server.rs"]
mod server;
