//! Tools: what a model may ask for, with what it may touch and what running it twice would mean.

use futures_util::future::BoxFuture;
use terret_core::fact::{CallMode, EffectClass, ToolSpec};

pub use crate::call::{Call, Done, Permissions};

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

    /// Does it. Never called twice by itself for one call.
    fn run(&self, call: Call) -> BoxFuture<'static, Done>;
}

/// How to use the tools, for the system text.
pub fn guidance() -> String {
    String::new()
}
