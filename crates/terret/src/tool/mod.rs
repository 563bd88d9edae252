//! Tools: what a model may ask for, with what it may touch and what running it twice would mean.

mod arguments;
#[cfg(feature = "tools")]
mod built_in;
mod function;
mod paths;

use futures_util::future::BoxFuture;
use terret_core::fact::{CallMode, EffectClass, ToolSpec};

pub use crate::call::{Call, Done, Permissions, Started};
pub use arguments::{INVALID_ARGUMENTS, parse_args, parse_text, schema};
#[cfg(feature = "tools")]
pub use built_in::{Edit, Glob, Grep, Read, Shell, Write, builtin};
pub use function::{FunctionTool, IntoDone, tool, tool_with_call};
pub use paths::{absolute, may_change, real_path, shown, write_target};

/// Something a model may ask for.
pub trait Tool: Send + Sync {
    /// What the model sees. The same bytes every time: it is part of the prompt's prefix.
    fn spec(&self) -> ToolSpec;

    /// What running a call twice would mean.
    fn effect(&self) -> EffectClass {
        EffectClass::Unsafe
    }

    /// Whether this call may run beside others. Invalid arguments: exclusive.
    fn mode(&self, _arguments: &str) -> CallMode {
        CallMode::Exclusive
    }

    /// Checks the arguments and the permissions before anything is logged as started. `Err` is what the
    /// model reads instead of a result.
    fn admit(&self, _call: &Call) -> Result<(), Done> {
        Ok(())
    }

    /// Does it. Nobody can ask for it without the proof that the log durably knows the call.
    fn run(&self, started: Started) -> BoxFuture<'static, Done>;
}

/// How to use the tools every agent has, for the system prompt.
pub fn guidance() -> &'static str {
    "Tools:\n\
     - Look before you change: find files with glob, lines with grep, and read a file before you edit it.\n\
     - Use edit for a part of a file and write for a whole one. Copy `old` exactly as read shows it.\n\
     - Use shell to build, to test and for what no other tool does. Nothing of a shell is kept for the next \
     call but what is on disk; commands that wait for input or run for ever end at their time limit.\n\
     - Relative paths start in the working directory. Text in brackets is the tool's note, not content.\n\
     - An error says what to do differently. Do not repeat a call that was refused.\n"
}

#[cfg(test)]
mod tests;
