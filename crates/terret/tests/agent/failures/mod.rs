//! Failures that other harnesses were reported for, each as a test. The numbers are those of the collection they
//! come from; what must happen is told above each test.
//!
//! Bodies of servers are in `NNN/*.sse`, stored logs in `NNN.facts` (see [`stored::log`]).

mod calls;
mod cancelled;
mod clock;
mod echo;
mod endings;
mod forked;
mod growth;
mod messages;
mod queue;
mod refused;
mod reopened;
mod server;
pub(crate) mod stored;
mod streams;
mod surface;
mod tails;
