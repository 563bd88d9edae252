//! One proof starts one call.

use terret::core::fact::ToolCall;
use terret::store::{Durable, Journal};
use terret::tool::{Call, Started, Tool};

pub async fn start(tool: &dyn Tool, journal: &mut Journal, call: Call) {
    let proof: Option<Durable<ToolCall>> = journal.call(call.id);
    if let Some(proof) = proof {
        tool.run(Started::new(proof, call)).await;
    }
}

fn main() {}
