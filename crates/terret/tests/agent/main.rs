//! Agents in a program: real driver, real log, scripted model.
#![allow(clippy::unwrap_used, missing_docs)]

mod apart;
mod attempts;
mod between;
mod cancels;
mod consent;
mod containment;
mod crash;
mod failures;
mod faults;
mod forks;
mod hard;
mod head;
mod headers;
mod hooks;
mod lifecycle;
mod order;
mod parts;
mod rebuild;
mod retry;
mod seams;
mod served;
mod subscribe;
mod support;
mod surface;
mod turns;
