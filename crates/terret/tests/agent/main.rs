//! Agents in a program: real driver, real log, scripted model.
#![allow(clippy::unwrap_used, missing_docs)]

mod crash;
mod failures;
mod faults;
mod hard;
mod head;
mod rebuild;
mod support;
mod turns;
