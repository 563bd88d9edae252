//! Policies: ordinary plugins, through the seams only.

mod budget;
mod repeat;
mod retry;

pub use budget::Budget;
pub use repeat::Repeat;
pub use retry::Retry;
