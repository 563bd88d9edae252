//! Bodies of `anthropic-messages@1`. This file, `head.rs`, `history.rs` and `blocks.rs` decide bytes that stored
//! sessions are proven against: what they write for a given header and messages never changes. A better body is a new
//! codec.

use terret_core::chunk::Failure;
use terret_core::fact::Header;

use super::dialect::Dialect;
use super::head::head;
use super::history::MessagesBody;
use crate::model::json::Json;
use crate::model::{Body, Codec, row_of};

/// The codec.
pub struct AnthropicMessages;

/// Its name and version.
pub const NAME: &str = "anthropic-messages@1";

/// The protocol, as opaque data names it.
pub const PROTOCOL: &str = "anthropic-messages";

impl Codec for AnthropicMessages {
    fn name(&self) -> &'static str {
        NAME
    }

    fn begin(&self, header: &Header) -> Result<Box<dyn Body>, Failure> {
        let dialect: Dialect = row_of(header, NAME)?;
        let mut front = Json::default();
        head(&mut front, header, &dialect);
        Ok(Box::new(MessagesBody::new(&front, dialect, (header.provider.clone(), header.model.clone()))))
    }
}
