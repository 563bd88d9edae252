//! One event of a message stream as it is on the wire.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fields::Fields;

/// An event. What its type does not use is absent; unknown members are passed over.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) message: Option<Start>,
    #[serde(default)]
    pub(super) content_block: Option<Fields>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) usage: Option<Fields>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The message at its start.
#[derive(Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) usage: Option<Fields>,
}

/// What a `content_block_delta` adds. Which member is meant, the type says.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thinking: Option<String>,
    #[serde(default)]
    pub(super) signature: Option<String>,
    #[serde(default)]
    pub(super) partial_json: Option<String>,
    #[serde(default)]
    pub(super) citation: Option<Box<RawValue>>,
}

/// What a `message_delta` says of the message.
#[derive(Deserialize)]
pub(super) struct Ending {
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
    #[serde(default)]
    pub(super) stop_details: Option<StopDetails>,
}

/// Why a model declined.
#[derive(Deserialize)]
pub(super) struct StopDetails {
    #[serde(default)]
    pub(super) category: Option<String>,
    #[serde(default)]
    pub(super) explanation: Option<String>,
}
