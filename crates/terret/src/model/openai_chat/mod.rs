//! OpenAI's chat completions and the many servers that speak it.

pub mod adapter;
mod calls;
pub mod codec;
mod decode;
mod details;
pub mod dialect;
mod ending;
mod event;
mod history;
mod json;
mod response;
mod stream;
mod surrogate;
mod usage;

pub use decode::{Decoder, End};
pub use response::{Progress, Response};
