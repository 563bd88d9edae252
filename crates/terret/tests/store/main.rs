//! Logs on disk: torn, changed, half begun, on a full disk, moved away.
#![allow(clippy::unwrap_used, missing_docs)]

mod begin;
mod conformance;
mod cuts;
mod flips;
mod fork;
mod full;
mod list;
mod repair;
mod support;
mod trash;
