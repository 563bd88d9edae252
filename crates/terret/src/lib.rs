//! terret: an agent harness whose every request can be proven, replayed and resumed from one append-only
//! file.

pub use terret_core as core;

pub mod limits;
pub mod model;
pub mod tool;
