//! Bodies of `anthropic-messages@1`. This file, `head.rs`, `history.rs` and `blocks.rs` decide bytes that stored
//! sessions are proven against: what they write for a given header and messages never changes. A better body is a new
//! codec.

use terret_core::chunk::{Failure, code};
use terret_core::fact::Header;

use super::dialect::Dialect;
use super::head::head;
use super::history::MessagesBody;
use crate::model::json::Json;
use crate::model::{Body, Codec};

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
        let dialect = Dialect::from_raw(&header.dialect).map_err(|error| {
            Failure::new(code::INVALID_REQUEST, format!("the header's dialect is not one of {NAME}: {error}"))
        })?;
        let mut front = Json::default();
        head(&mut front, header, &dialect);
        Ok(Box::new(MessagesBody::new(&front, dialect, (header.provider.clone(), header.model.clone()))))
    }
}
