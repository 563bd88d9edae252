//! A tool call as it crosses from the loop to the outside: what tools get, what hooks see.

use std::path::PathBuf;
use std::sync::Arc;

use terret_core::fact::{Outcome, ToolCall};
use terret_core::id::CallId;
use tokio::sync::watch;

use crate::store::Durable;

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

/// A call the log durably knows: what a tool is run with. Made from the proof alone and used up by the run, so
/// that nothing runs unknown to the log and nothing runs twice.
///
/// ```
/// # use terret::{core::fact::ToolCall, store::Durable, tool::{Call, Done, Started, Tool}};
/// async fn start(tool: &dyn Tool, proof: Durable<ToolCall>, call: Call) -> Done {
///     tool.run(Started::new(proof, call)).await
/// }
/// ```
///
/// A call that is not known to be synced does not start:
///
/// ```compile_fail
/// # use terret::{core::fact::ToolCall, store::Durable, tool::{Call, Done, Started, Tool}};
/// async fn start(tool: &dyn Tool, call: Call) -> Done {
///     tool.run(call).await
/// }
/// ```
pub struct Started {
    call: Call,
    proof: Durable<ToolCall>,
}

impl Started {
    /// The call as the log has it, whatever `call` says of tool and arguments; `call` gives the surroundings.
    pub fn new(proof: Durable<ToolCall>, call: Call) -> Self {
        let ToolCall { call: id, name, arguments, key, .. } = proof.fact().clone();
        Started { call: Call { id, name, arguments, key, ..call }, proof }
    }

    /// Session and place in its log that prove the call.
    pub fn proof(&self) -> &Durable<ToolCall> {
        &self.proof
    }

    /// The call alone, for the tool that runs now.
    pub fn into_call(self) -> Call {
        self.call
    }
}

impl std::ops::Deref for Started {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

/// The answer of a call that was cancelled between its fact and its start. What an earlier run of it did, in a process
/// that is gone, nobody knows.
pub(crate) fn never_began(run: u32) -> Done {
    match run {
        1 => Done::notice(Outcome::NotStarted, "The call was stopped before it began."),
        _ => {
            let text = "The call was stopped before it began again. Nobody knows how far it came.";
            Done::notice(Outcome::Unknown, text)
        }
    }
}

/// The answer of a call whose proof is missing or proves something else.
pub(crate) fn unknown_call() -> Done {
    Done::notice(Outcome::NotStarted, "The log does not know this call: it was not started.")
}

/// How a tool answers.
pub use terret_core::input::Settled as Done;
