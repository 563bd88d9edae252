//! Tools: what a model may ask for, with what it may touch and what running it twice would mean.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use terret_core::fact::{CallMode, EffectClass, Outcome, ToolError, ToolSpec};
use terret_core::id::CallId;
use terret_core::message::Block;
use terret_core::raw::Raw;
use tokio::sync::watch;

/// What tools may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permissions {
    /// Look only.
    ReadOnly,
    /// Change files in the working directory; run commands.
    #[default]
    WorkspaceWrite,
    /// Change files anywhere.
    Full,
}

/// One call, as a tool gets it.
#[derive(Clone)]
pub struct Call {
    /// Our id.
    pub id: CallId,
    /// Tool asked for.
    pub name: String,
    /// The raw argument string.
    pub arguments: String,
    /// Key for receivers that can drop a repetition.
    pub key: String,
    /// Working directory of the agent. Tools never use the process's own.
    pub cwd: Arc<PathBuf>,
    /// What the tool may do.
    pub permissions: Permissions,
    /// Turns true when the call is asked to stop; a tool that settles within the grace limit keeps its own
    /// outcome.
    pub stop: watch::Receiver<bool>,
}

impl Call {
    /// Resolves when the call is asked to stop; never, if it is not.
    pub async fn stopped(&mut self) {
        if self.stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How a tool answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// How it ended.
    pub outcome: Outcome,
    /// What the model reads.
    pub content: Vec<Block>,
    /// What programs read.
    pub data: Option<Raw>,
    /// Which error, when it is one.
    pub error: Option<ToolError>,
    /// The turn's work is done.
    pub concludes: bool,
}

impl Done {
    /// Success, with text for the model.
    pub fn ok(text: impl Into<String>) -> Self {
        Done {
            outcome: Outcome::Ok,
            content: vec![Block::text(text)],
            data: None,
            error: None,
            concludes: false,
        }
    }

    /// Failure: who failed, a stable code, and what the model should read and can act on.
    pub fn error(name: &str, code: &str, text: impl Into<String>) -> Self {
        Done {
            outcome: Outcome::Error,
            error: Some(ToolError { name: name.to_owned(), code: code.to_owned() }),
            ..Done::ok(text)
        }
    }

    /// The same with another outcome.
    pub fn with_outcome(self, outcome: Outcome) -> Self {
        Done { outcome, ..self }
    }

    /// The same with a structured part for programs.
    pub fn with_data(self, data: Raw) -> Self {
        Done { data: Some(data), ..self }
    }
}

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
