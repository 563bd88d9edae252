//! The binary as a person, a script and a power cut meet it.

#![allow(clippy::unwrap_used)]

mod chain;
mod contract;
mod damage;
mod kill;
mod place;
mod server;
mod signals;
mod streams;
