//! Tests of the pure core: lines, assembler, machine, projections.
#![allow(clippy::unwrap_used)]

mod line;
mod samples;
