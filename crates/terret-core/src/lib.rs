//! The pure heart of terret: what a log can say, how its lines look, and what a loop owes given a log.
//!
//! No IO, no clock, no randomness, no async. Data flows one way: input → facts → log → state → effects.

pub mod assemble;
pub mod chunk;
pub mod decided;
pub mod digest;
pub mod effect;
pub mod fact;
pub mod id;
pub mod input;
pub mod limits;
pub mod line;
pub mod machine;
pub mod message;
pub mod price;
pub mod project;
pub mod raw;
pub mod state;
