//! What a model's stream says, one piece at a time, in the words of no provider.

mod failure;

use serde::{Deserialize, Serialize};

pub use failure::{Failure, code};

use crate::message::{Block, BlockKind};
use crate::raw::Raw;

/// One piece of a model's stream. Heartbeats (comments, pings) are not chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case", try_from = "ChunkWire")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub enum Chunk {
    /// The response has begun; at most one.
    ResponseStart {
        /// The provider's id of the response.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_id: Option<String>,
        /// The model that says it answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A block opens. Indexes are dense, in the order first seen.
    BlockStart {
        /// Its index.
        index: u32,
        /// Its kind.
        block_type: BlockKind,
        /// The provider's call id, where it is known already.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool's name, where it is known already.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// More text.
    TextDelta {
        /// Block it belongs to.
        index: u32,
        /// What it adds.
        text: String,
    },
    /// More of a refusal.
    RefusalDelta {
        /// Block it belongs to.
        index: u32,
        /// What it adds.
        text: String,
    },
    /// More reasoning.
    ReasoningDelta {
        /// Block it belongs to.
        index: u32,
        /// What it adds.
        text: String,
        /// Whether it is a summary or the raw thought; absent where the wire does not say.
        #[serde(skip_serializing_if = "Option::is_none")]
        channel: Option<Channel>,
    },
    /// More of a call. `id` and `name` stand on the first delta at which they are known.
    ToolCallDelta {
        /// Block it belongs to.
        index: u32,
        /// What it adds to the raw argument string.
        arguments_delta: String,
        /// The provider's call id.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool's name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Opaque data that belongs to a block (a signature, citations, an item).
    ProviderDelta {
        /// Block it belongs to.
        index: u32,
        /// The data; the last one of a block wins.
        data: Raw,
    },
    /// A block is complete. With `block`, that is the authoritative form; deltas after it are ignored.
    BlockEnd {
        /// Which block.
        index: u32,
        /// The whole block, where the wire repeats it. Without opaque data of its own it has what a `ProviderDelta`
        /// said before.
        #[serde(skip_serializing_if = "Option::is_none")]
        block: Option<Block>,
    },
    /// Tokens counted by the provider; at most one, before the finish.
    Usage {
        /// The counts.
        usage: Usage,
    },
    /// Something odd that did not stop the stream.
    Warning {
        /// Stable name, for example `missing-done`.
        code: String,
        /// What was seen.
        detail: String,
    },
    /// The stream is whole; exactly one, last.
    Finish {
        /// What kind of end.
        reason: FinishKind,
        /// The wire's own word for it.
        raw: String,
    },
}

impl Chunk {
    /// Bytes of text and data it carries.
    pub fn size(&self) -> usize {
        match self {
            Chunk::TextDelta { text, .. }
            | Chunk::RefusalDelta { text, .. }
            | Chunk::ReasoningDelta { text, .. } => text.len(),
            Chunk::ToolCallDelta { arguments_delta, .. } => arguments_delta.len(),
            Chunk::ProviderDelta { data, .. } => data.get().len(),
            Chunk::BlockEnd { block: Some(Block::Provider { wire }), .. } => wire.get().len(),
            Chunk::BlockEnd {
                block:
                    Some(
                        Block::Text { text, .. }
                        | Block::Refusal { text, .. }
                        | Block::Reasoning { text, .. },
                    ),
                ..
            } => text.len(),
            Chunk::BlockEnd { block: Some(Block::ToolCall { arguments, .. }), .. } => arguments.len(),
            Chunk::ResponseStart { .. }
            | Chunk::BlockStart { .. }
            | Chunk::BlockEnd { .. }
            | Chunk::Usage { .. }
            | Chunk::Warning { .. }
            | Chunk::Finish { .. } => 0,
        }
    }
}

/// Which reasoning a delta carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// A summary made for the reader.
    Summary,
    /// The thought itself.
    Raw,
}

/// How a whole stream ended, in our words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FinishKind {
    /// The model is done.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The output limit cut it: its calls are never dispatched.
    MaxTokens,
    /// The context window cut it.
    ContextWindow,
    /// The provider pauses; ask again with the message appended.
    Pause,
    /// The model declined.
    Refusal,
    /// A filter cut it.
    ContentFilter,
    /// Anything else; `raw` says what.
    Other,
}

/// The end of a stream as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finish {
    /// In our words.
    pub kind: FinishKind,
    /// In the wire's.
    pub raw: String,
}

/// Tokens of one response, counted by the provider, in disjoint classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Input tokens that came from no cache.
    pub input_tokens: u64,
    /// Input tokens read from a cache; absent where the wire does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Input tokens written to a cache; absent where the wire does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Output tokens spent on reasoning; absent where the wire does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// The provider's own object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
}

impl Usage {
    /// Input and output, cached or not.
    pub fn total(&self) -> u64 {
        [self.cache_read_tokens.unwrap_or(0), self.cache_write_tokens.unwrap_or(0), self.output_tokens]
            .into_iter()
            .fold(self.input_tokens, u64::saturating_add)
    }

    /// Adds another response's counts; the raw object does not add up and is dropped.
    pub fn add(&mut self, other: &Usage) {
        let plus = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = plus(self.cache_read_tokens, other.cache_read_tokens);
        self.cache_write_tokens = plus(self.cache_write_tokens, other.cache_write_tokens);
        self.reasoning_tokens = plus(self.reasoning_tokens, other.reasoning_tokens);
        self.raw = None;
    }
}

/// The flat reading form of [`Chunk`]: raw JSON cannot pass through serde's buffering of tagged enums.
#[derive(Deserialize)]
struct ChunkWire {
    #[serde(rename = "type")]
    kind: ChunkKind,
    index: Option<u32>,
    text: Option<String>,
    response_id: Option<String>,
    model: Option<String>,
    block_type: Option<BlockKind>,
    id: Option<String>,
    name: Option<String>,
    channel: Option<Channel>,
    arguments_delta: Option<String>,
    data: Option<Raw>,
    block: Option<Block>,
    usage: Option<Usage>,
    code: Option<String>,
    detail: Option<String>,
    reason: Option<FinishKind>,
    raw: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ChunkKind {
    ResponseStart,
    BlockStart,
    TextDelta,
    RefusalDelta,
    ReasoningDelta,
    ToolCallDelta,
    ProviderDelta,
    BlockEnd,
    Usage,
    Warning,
    Finish,
}

impl TryFrom<ChunkWire> for Chunk {
    type Error = String;

    fn try_from(w: ChunkWire) -> Result<Self, String> {
        fn need<T>(kind: ChunkKind, field: &str, value: Option<T>) -> Result<T, String> {
            value.ok_or_else(|| format!("a `{kind:?}` chunk without `{field}`"))
        }
        let kind = w.kind;
        let at = w.index;
        let index = || need(kind, "index", at);
        Ok(match kind {
            ChunkKind::ResponseStart => Chunk::ResponseStart { response_id: w.response_id, model: w.model },
            ChunkKind::BlockStart => Chunk::BlockStart {
                index: index()?,
                block_type: need(kind, "block_type", w.block_type)?,
                id: w.id,
                name: w.name,
            },
            ChunkKind::TextDelta => Chunk::TextDelta { index: index()?, text: need(kind, "text", w.text)? },
            ChunkKind::RefusalDelta => {
                Chunk::RefusalDelta { index: index()?, text: need(kind, "text", w.text)? }
            }
            ChunkKind::ReasoningDelta => Chunk::ReasoningDelta {
                index: index()?,
                text: need(kind, "text", w.text)?,
                channel: w.channel,
            },
            ChunkKind::ToolCallDelta => Chunk::ToolCallDelta {
                index: index()?,
                arguments_delta: need(kind, "arguments_delta", w.arguments_delta)?,
                id: w.id,
                name: w.name,
            },
            ChunkKind::ProviderDelta => {
                Chunk::ProviderDelta { index: index()?, data: need(kind, "data", w.data)? }
            }
            ChunkKind::BlockEnd => Chunk::BlockEnd { index: index()?, block: w.block },
            ChunkKind::Usage => Chunk::Usage { usage: need(kind, "usage", w.usage)? },
            ChunkKind::Warning => {
                Chunk::Warning { code: need(kind, "code", w.code)?, detail: need(kind, "detail", w.detail)? }
            }
            ChunkKind::Finish => {
                Chunk::Finish { reason: need(kind, "reason", w.reason)?, raw: need(kind, "raw", w.raw)? }
            }
        })
    }
}
