//! For tests and demonstrations: agents whose model plays a script. No key, no network.

use std::sync::Arc;

use terret_core::chunk::Failure;

use crate::Agent;
use crate::agent::Builder;
use crate::model::Providers;
use crate::model::script::ScriptAdapter;

/// Begins an agent whose model plays this script (its format: [`crate::model::script`]). Its log is in memory
/// unless the builder is told otherwise.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = terret::testing::scripted("say hello")?.create(None).await?;
/// assert_eq!(agent.prompt("hi").await?.text, "hello");
/// # Ok(())
/// # }
/// ```
pub fn scripted(script: &str) -> Result<Builder, Failure> {
    let player = ScriptAdapter::new().with("test", script)?;
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    Ok(Agent::builder(Arc::new(models)).routed("script", "test"))
}
