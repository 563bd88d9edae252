//! Agents in a program: real driver, real log, scripted model.
#![allow(clippy::unwrap_used, missing_docs)]

mod attempts;
mod cancels;
mod containment;
mod crash;
mod failures;
mod faults;
mod hard;
mod head;
mod headers;
mod hooks;
mod lifecycle;
mod order;
mod rebuild;
mod support;
mod turns;
