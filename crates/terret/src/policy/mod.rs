//! Policies: ordinary plugins, through the seams only.

mod budget;
mod cost;
mod repeat;
mod retry;
mod schema;

pub use budget::Budget;
pub use cost::{Meter, unpriced};
pub use repeat::Repeat;
pub use retry::{Mode, Retry};
pub use schema::Structured;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, code};
use terret_core::fact::Cause;

use crate::mail::Handle;

/// Cancels the turn from inside a question: posts the cancel and waits for it. Mail is read before answers, so it
/// comes first.
fn cancel<'a, T: Send + 'a>(agent: &Handle, cause: Cause) -> BoxFuture<'a, Result<T, Failure>> {
    let agent = agent.clone();
    async move {
        match agent.cancel(cause).await {
            Ok(()) => std::future::pending().await,
            Err(e) => Err(Failure::new(code::HOOK, e.to_string())),
        }
    }
    .boxed()
}
