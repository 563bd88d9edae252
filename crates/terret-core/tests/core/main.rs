//! Tests of the pure core: lines, assembler, machine, projections.
#![allow(clippy::unwrap_used)]

mod assembler;
mod crash;
mod endings;
mod explore;
mod harness;
mod inbox;
mod line;
mod monitor;
mod odd;
mod permute;
mod projections;
mod rules;
mod samples;
mod spending;
mod table;
mod versions;
