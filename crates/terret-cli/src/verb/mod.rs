//! One file per verb.

pub(crate) mod doctor;
pub(crate) mod fork;
pub(crate) mod log;
pub(crate) mod models;
pub(crate) mod point;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod verify;
