//! A tool call as it crosses from the loop to the outside: what tools get, what hooks see.

use std::path::PathBuf;
use std::sync::Arc;

use terret_core::id::CallId;
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
    /// Environment variables that are kept from whatever the tool starts.
    pub hidden_env: Arc<[String]>,
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
pub use terret_core::input::Settled as Done;
