//! OpenAI's chat completions and the many servers that speak it.

mod calls;
mod decode;
mod details;
mod ending;
mod event;
mod response;
mod surrogate;
mod usage;

pub use decode::{Decoder, End};
pub use response::{Progress, Response};
