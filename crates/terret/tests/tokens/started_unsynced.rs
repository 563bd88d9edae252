//! The same with the call alone.

use terret::tool::{Call, Tool};

pub async fn start(tool: &dyn Tool, call: Call) {
    tool.run(call).await;
}

fn main() {}
