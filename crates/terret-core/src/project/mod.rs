//! Projections: pure read models of the log. They use facts and messages, never the machine's state, so
//! that two readers of one log cannot share a bug.

mod brackets;
mod messages;
mod open_turn;
mod request;
mod spending;
mod turns;

pub use brackets::Brackets;
pub use messages::{Messages, Projected, system_hash};
pub use open_turn::OpenTurn;
pub use request::Request;
pub use spending::{Gap, Spending};
pub use turns::{TurnSummary, Turns};
