//! One proof does not start two.

use terret::core::fact::ToolCall;
use terret::store::Durable;
use terret::tool::{Call, Started, Tool};

pub async fn start(tool: &dyn Tool, proof: Durable<ToolCall>, call: Call) {
    let started = Started::new(proof, call);
    tool.run(started).await;
    tool.run(started).await;
}

fn main() {}
