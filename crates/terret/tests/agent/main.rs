//! Agents in a program: real driver, real log, scripted model.
#![allow(clippy::unwrap_used, missing_docs)]

mod apart;
mod consent;
mod crash;
mod faults;
mod hard;
mod head;
mod rebuild;
mod retry;
mod seams;
mod served;
mod subscribe;
mod support;
mod surface;
mod turns;
