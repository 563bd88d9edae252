//! The tools every agent may have: a shell, and looking at and changing files.

mod capture;
mod edit;
mod files;
mod glob;
mod grep;
mod process;
mod read;
mod shell;
mod splice;
mod walk;
mod write;

use std::sync::Arc;

use terret_core::fact::Outcome;

use super::{Call, Done, Started, Tool, arguments, paths};

pub use edit::Edit;
pub use glob::Glob;
pub use grep::Grep;
pub use read::Read;
pub use shell::Shell;
pub use write::Write;

/// The tools every agent has, in the order the model sees them.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Shell), Arc::new(Read), Arc::new(Write), Arc::new(Edit), Arc::new(Glob), Arc::new(Grep)]
}

/// The answer of a tool that stopped because it was asked to.
fn stopped(call: &Call) -> Done {
    Done::error(&call.name, "aborted", "[stopped before it was done]").with_outcome(Outcome::Aborted)
}
