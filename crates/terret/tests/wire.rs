//! Wires: recorded bodies against what they mean, requests against golden bodies, sockets against a server.

#![allow(clippy::unwrap_used)]

#[path = "wire/anthropic.rs"]
mod anthropic;
#[path = "wire/anthropic_rules.rs"]
mod anthropic_rules;
#[path = "wire/ask.rs"]
mod ask;
#[path = "wire/client.rs"]
mod client;
#[path = "wire/errors.rs"]
mod errors;
#[path = "wire/fixtures.rs"]
mod fixtures;
#[path = "wire/random.rs"]
mod random;
#[path = "wire/requests.rs"]
mod requests;
#[path = "wire/responses.rs"]
mod responses;
#[path = "wire/responses_stream.rs"]
mod responses_stream;
#[path = "wire/rules.rs"]
mod rules;
#[path = "wire/script.rs"]
mod script;
#[cfg(feature = "http")]
#[path = "wire/server.rs"]
mod server;
#[cfg(feature = "http")]
#[path = "wire/sockets.rs"]
mod sockets;
