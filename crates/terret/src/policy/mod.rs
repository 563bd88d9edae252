//! Policies: ordinary plugins, through the seams only.

mod budget;
mod repeat;
mod retry;
mod schema;

pub use budget::Budget;
pub use repeat::Repeat;
pub use retry::{Mode, Retry};
pub use schema::Structured;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, code};
use terret_core::fact::Cause;

use crate::hook::{PreStep, Verdict};

/// Cancels the turn from its pre-step: posts the cancel and waits for it. Mail is read before answers, so it
/// comes first.
fn cancel(question: &PreStep, cause: Cause) -> BoxFuture<'static, Result<Verdict, Failure>> {
    let agent = question.agent.clone();
    async move {
        match agent.cancel(cause).await {
            Ok(()) => std::future::pending().await,
            Err(e) => Err(Failure::new(code::HOOK, e.to_string())),
        }
    }
    .boxed()
}
