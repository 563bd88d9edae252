//! A call with the proof that it is synced.

use terret::core::fact::ToolCall;
use terret::store::Durable;
use terret::tool::{Call, Started, Tool};

pub async fn start(tool: &dyn Tool, proof: Durable<ToolCall>, call: Call) {
    tool.run(Started::new(proof, call)).await;
}

fn main() {}
