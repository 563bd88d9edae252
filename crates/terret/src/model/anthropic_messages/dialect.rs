//! How servers and models differ in what they take on this wire: columns.
//!
//! The effective row is written into the request header, so a body can be rebuilt without the tables.

use serde::{Deserialize, Serialize};
use terret_core::raw::Raw;

use super::rows;
pub use crate::model::openai_chat::dialect::Images;

/// What a server takes in a request. A field absent from a stored row has its careful default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dialect {
    /// Name of the row.
    pub name: String,
    /// The header `anthropic-version`.
    pub version: String,
    /// How the parameter `reasoning_effort` is sent.
    pub thinking: Thinking,
    /// Whether the effort goes out as `output_config.effort`, too.
    pub effort: bool,
    /// Whether thinking goes back without a signature, too, to the model that had it.
    pub unsigned_thinking: bool,
    /// Whether `output_config.format` holds an answer to a JSON Schema.
    pub structured_output: bool,
    /// Whether the places are marked at which the prompt is cached.
    pub cache_control: bool,
    /// What becomes of pictures in messages.
    pub images: Images,
    /// Parameters it refuses, or takes and does not heed: they are refused before anything is sent. `name=word` is that
    /// word of a parameter alone.
    pub refused: Vec<String>,
}

/// How the parameter `reasoning_effort` is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Not as `thinking`.
    None,
    /// As `thinking: {type: "adaptive"}`; `none` turns it off.
    Adaptive,
    /// As `thinking: {type: "enabled", budget_tokens}`; `none` turns it off.
    Budget,
}

impl Dialect {
    /// The row of this name, as it is for this model; `None` for a name without a row.
    pub fn built_in(name: &str, model: &str) -> Option<Self> {
        rows::row(name, model)
    }

    /// Reads the row of a request header.
    pub fn from_raw(raw: &Raw) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw.get())
    }
}

impl Default for Dialect {
    fn default() -> Self {
        rows::CAREFUL.clone()
    }
}
