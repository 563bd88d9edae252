//! What the tests of the tools share.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use terret_core::id::CallId;
use terret_core::message::Block;
use tokio::sync::watch;

use crate::tool::{Call, Done, Permissions, Started, Tool};

/// A call that nobody stops.
pub(in crate::tool) fn call(cwd: &Path, name: &str, arguments: &serde_json::Value) -> Call {
    let (sender, stop) = watch::channel(false);
    // The stop sign must stay readable; a closed channel is the usual case at the end of a turn.
    drop(sender);
    Call {
        id: CallId { turn: 1, step: 1, ordinal: 0 },
        name: name.to_owned(),
        arguments: arguments.to_string(),
        key: "test/1.1.0".to_owned(),
        cwd: Arc::new(cwd.to_owned()),
        permissions: Permissions::WorkspaceWrite,
        hidden_env: std::sync::Arc::default(),
        stop,
    }
}

/// The call with its proof.
pub(in crate::tool) fn started(call: Call) -> Started {
    crate::testing::started(call).unwrap()
}

/// Admits and runs, as the driver would.
pub(in crate::tool) async fn run_call(tool: &dyn Tool, call: Call) -> Done {
    match tool.admit(&call) {
        Ok(()) => tool.run(started(call)).await,
        Err(done) => done,
    }
}

pub(in crate::tool) async fn run(tool: &dyn Tool, cwd: &Path, arguments: serde_json::Value) -> Done {
    run_call(tool, call(cwd, &tool.spec().name, &arguments)).await
}

/// The text of an answer.
pub(in crate::tool) fn text(done: &Done) -> &str {
    match done.content.as_slice() {
        [Block::Text { text, .. }] => text,
        other => panic!("not one text block: {other:?}"),
    }
}

/// The error code of an answer.
pub(in crate::tool) fn code(done: &Done) -> &str {
    done.error.as_ref().map_or("", |error| error.code.as_str())
}

/// A FIFO.
pub(in crate::tool) fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}
