//! The binary as a person, a script and a power cut meet it.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod chain;
mod configuration;
mod contract;
mod damage;
mod doctor;
mod fifty_steps;
mod followers;
mod fork;
mod kill;
mod messages;
mod money;
mod place;
mod printing;
mod proxies;
mod pulled;
mod queue;
mod responses;
mod salvage;
mod schema;
mod secrets;
mod server;
mod signals;
mod streams;
mod terminal;
mod trouble;
mod vocabulary;
mod writers;
