//! Why a request failed, in our words.

use serde::{Deserialize, Serialize};

/// Why a request failed, classified by the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} [{code}]")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// Stable class, for example `RATE_LIMIT`: see [`code`].
    pub code: String,
    /// What a person should read.
    pub message: String,
    /// HTTP status, where there was a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asks us to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The provider's own words (a body, an event), cut at a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

impl Failure {
    /// A failure with a class and a sentence.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Failure {
            code: code.to_owned(),
            message: message.into(),
            status: None,
            retry_after_ms: None,
            request_id: None,
            raw: None,
        }
    }
}

/// The classes of [`Failure`].
pub mod code {
    /// 429 and its kin.
    pub const RATE_LIMIT: &str = "RATE_LIMIT";
    /// The provider has no room now.
    pub const OVERLOADED: &str = "OVERLOADED";
    /// The provider broke.
    pub const SERVER: &str = "SERVER";
    /// Nothing came for too long.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// The server's certificate is not trusted.
    pub const TLS: &str = "TLS";
    /// The connection could not be made or broke.
    pub const TRANSPORT: &str = "TRANSPORT";
    /// The stream ended before its finish.
    pub const STREAM_CLOSED: &str = "STREAM_CLOSED";
    /// The bytes are not what the wire promises.
    pub const MALFORMED_RESPONSE: &str = "MALFORMED_RESPONSE";
    /// A normal stop with nothing in it.
    pub const EMPTY_RESPONSE: &str = "EMPTY_RESPONSE";
    /// The conversation does not fit the model.
    pub const CONTEXT_WINDOW_EXCEEDED: &str = "CONTEXT_WINDOW_EXCEEDED";
    /// The body is too large.
    pub const REQUEST_TOO_LARGE: &str = "REQUEST_TOO_LARGE";
    /// No credit left.
    pub const QUOTA: &str = "QUOTA";
    /// The key is missing or wrong.
    pub const AUTH: &str = "AUTH";
    /// The key may not do this.
    pub const PERMISSION: &str = "PERMISSION";
    /// No such model or endpoint.
    pub const NOT_FOUND: &str = "NOT_FOUND";
    /// The provider refuses the request as it is.
    pub const INVALID_REQUEST: &str = "INVALID_REQUEST";
    /// A content policy refused it.
    pub const CONTENT_FILTER: &str = "CONTENT_FILTER";
    /// The model declined.
    pub const REFUSAL: &str = "REFUSAL";
    /// A finish we do not know.
    pub const OTHER_FINISH: &str = "OTHER_FINISH";
    /// An in-band error we cannot classify.
    pub const PROVIDER_ERROR: &str = "PROVIDER_ERROR";
    /// Our cancel.
    pub const ABORTED: &str = "ABORTED";
    /// The process died with the request open.
    pub const INTERRUPTED: &str = "INTERRUPTED";
    /// The disk is full.
    pub const STORE_FULL: &str = "STORE_FULL";
    /// What was about to be sent is not what the log says.
    pub const RECONSTRUCTION: &str = "RECONSTRUCTION";
    /// Nobody serves this route.
    pub const NO_ADAPTER: &str = "NO_ADAPTER";
    /// There is a budget for money, and the route has no price.
    pub const NO_PRICE: &str = "NO_PRICE";
    /// A hook, a guard or the assembly of the prompt failed.
    pub const HOOK: &str = "HOOK";
    /// The answer does not satisfy the schema it was asked for, also after it was asked to mend it.
    pub const OUTPUT_SCHEMA: &str = "OUTPUT_SCHEMA";
    /// Anything we did not foresee.
    pub const UNKNOWN: &str = "UNKNOWN";
}
