//! Policies: ordinary plugins, through the seams only.

mod budget;
mod retry;

pub use budget::Budget;
pub use retry::Retry;
