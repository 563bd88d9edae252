//! Logs on disk: torn, changed, half begun, on a full disk, moved away.
#![allow(clippy::unwrap_used, missing_docs)]

mod begin;
mod beside;
mod conformance;
mod cuts;
mod flips;
mod fold;
mod follow;
mod fork;
mod full;
mod index;
mod list;
mod remote;
mod repair;
mod salvage;
mod support;
mod trash;
