//! The real driver over a fake world. Time, the model, tools, hooks, the disk, crashes and people all come
//! from one seed: two runs of a seed do the same, byte for byte.
//!
//! What is checked is checked on the log and on what the world saw, never on the driver's state.

mod ask;
mod check;
mod consent;
pub mod crashes;
mod crowd;
mod dice;
mod disk;
pub mod forks;
pub mod fs;
mod hooks;
mod life;
mod limits;
mod model;
mod opening;
mod people;
mod person;
mod quiet;
mod reached;
mod surface;
mod tools;
mod witness;
mod world;

// The rules of the log, as the exploration of the core checks them.
#[allow(dead_code)]
#[path = "../../terret-core/tests/core/monitor.rs"]
mod monitor;
#[allow(dead_code)]
#[path = "../../terret-core/tests/core/rules.rs"]
mod rules;

pub use life::{Run, run, tell};
pub use reached::{Reached, Situation};
