//! terret: an agent harness whose every request can be proven, replayed and resumed from one append-only
//! file.
//!
//! Features, both on by default: `http` is the HTTP client that models are asked through (without it a program gives its
//! own to [`model::Providers::with_client`]), `tools` are the built-in tools (without it a program has its own).

pub use terret_core as core;

pub mod agent;
mod call;
pub mod clock;
pub mod config;
mod driver;
pub mod error;
pub mod hook;
pub mod inspect;
pub mod limits;
mod mail;
pub mod model;
pub mod policy;
mod request;
pub mod store;
pub mod testing;
pub mod tool;
mod world;

pub use agent::{Agent, Answer};
pub use error::Error;
pub use model::Models;
