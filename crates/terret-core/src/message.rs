//! Messages as the log keeps them and every adapter reads them.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, Digest, MsgId};
use crate::raw::Raw;

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Message {
    /// Unique over the session.
    pub id: MsgId,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
    /// Where it came from.
    pub source: Source,
}

impl Message {
    /// A message a person (or the program that stands for one) sends.
    pub fn user(id: impl Into<MsgId>, text: impl Into<String>) -> Self {
        Message { id: id.into(), role: Role::User, content: vec![Block::text(text)], source: Source::User }
    }

    /// The visible text of all text and refusal blocks, joined.
    pub fn text(&self) -> String {
        let visible = self.content.iter().filter_map(|block| match block {
            Block::Text { text, .. } | Block::Refusal { text, .. } => Some(text.as_str()),
            Block::Reasoning { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Json { .. }
            | Block::Image { .. }
            | Block::File { .. }
            | Block::Provider { .. } => None,
        });
        visible.collect()
    }
}

/// Who speaks. Tool results are user-role messages, as on the wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, a plugin, or a tool.
    User,
    /// The model.
    Assistant,
}

/// Where a message came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Source {
    /// The person or program that drives the agent.
    User,
    /// A plugin, and in what form its text is meant.
    Plugin {
        /// Name of the plugin.
        plugin: String,
        /// How the text is meant.
        form: Form,
    },
    /// A model's answer.
    Model {
        /// Provider of the route.
        provider: String,
        /// Model of the route.
        model: String,
        /// Codec name and version; absent when a plugin served the stream itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wire: Option<String>,
        /// The provider's id of the response; absent when it gave none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_id: Option<String>,
    },
    /// The result of a tool call.
    Tool {
        /// Which call.
        call: CallId,
    },
}

/// How a plugin means the text it adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Rules to follow (a project's `AGENTS.md`).
    Instructions,
    /// A list of things that can be used.
    Catalog,
    /// The state of the world at one moment.
    Snapshot,
    /// Something that happened.
    Notice,
    /// Another agent's words.
    Relay,
    /// Something remembered.
    Recall,
}

/// Opaque data of a provider, replayed only to the protocol and model it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProviderData {
    /// Wire protocol, for example `openai-chat`.
    pub protocol: String,
    /// Provider name of the route.
    pub route: String,
    /// Model of the route.
    pub model: String,
    /// The data itself, never interpreted outside its adapter.
    pub data: Raw,
}

/// Where bytes are kept: content-addressed, beside the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attachment {
    /// blake3 of the bytes; the file name under `blobs/`.
    pub blob: Digest,
    /// MIME type, for example `image/png`.
    pub media_type: String,
    /// Length in bytes.
    pub bytes: u64,
    /// File name, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How a tool call carries its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    /// A JSON object in text.
    #[default]
    Json,
    /// Free text.
    Custom,
}

/// One piece of a message (or of a tool result).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case", try_from = "BlockWire")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Opaque provider data that belongs to it.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<ProviderData>,
    },
    /// The model declines; assistant only.
    Refusal {
        /// Its words.
        text: String,
        /// Opaque provider data.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<ProviderData>,
    },
    /// The model thinks; may be empty when `provider` carries the substance.
    Reasoning {
        /// What is shown of it.
        text: String,
        /// Signature, encrypted content and the like.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<ProviderData>,
    },
    /// The model asks for a tool; assistant only.
    ToolCall {
        /// Our id, minted when the message is committed; absent before.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// The provider's id.
        id: String,
        /// Tool asked for.
        name: String,
        /// The raw argument string, exactly as it came; parsed only at dispatch.
        arguments: String,
        /// How the arguments are meant.
        #[serde(skip_serializing_if = "is_default")]
        kind: CallKind,
        /// Opaque provider data.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<ProviderData>,
    },
    /// What a tool answered; user side.
    ToolResult {
        /// The call it answers.
        call: CallId,
        /// Text, JSON, images, files.
        content: Vec<Block>,
        /// Whether the model should read it as a failure.
        #[serde(skip_serializing_if = "is_default")]
        is_error: bool,
    },
    /// A structured value; inside tool results only. Becomes compact text on every wire.
    Json {
        /// The value.
        value: Raw,
    },
    /// A picture.
    Image {
        /// Where its bytes are.
        #[serde(flatten)]
        attachment: Attachment,
    },
    /// A file.
    File {
        /// Where its bytes are.
        #[serde(flatten)]
        attachment: Attachment,
    },
    /// A block only its own protocol understands, kept whole.
    Provider {
        /// The block as it came.
        wire: Raw,
    },
}

impl Block {
    /// A plain text block.
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text { text: text.into(), provider: None }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The flat reading form of [`Block`]: raw JSON cannot pass through serde's buffering of tagged enums.
#[derive(Deserialize)]
struct BlockWire {
    #[serde(rename = "type")]
    kind: BlockKind,
    text: Option<String>,
    provider: Option<ProviderData>,
    call: Option<CallId>,
    id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    #[serde(default, rename = "kind")]
    call_kind: CallKind,
    content: Option<Vec<Block>>,
    #[serde(default)]
    is_error: bool,
    value: Option<Raw>,
    blob: Option<Digest>,
    media_type: Option<String>,
    bytes: Option<u64>,
    wire: Option<Raw>,
}

/// The kinds of [`Block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// [`Block::Text`].
    Text,
    /// [`Block::Refusal`].
    Refusal,
    /// [`Block::Reasoning`].
    Reasoning,
    /// [`Block::ToolCall`].
    ToolCall,
    /// [`Block::ToolResult`].
    ToolResult,
    /// [`Block::Json`].
    Json,
    /// [`Block::Image`].
    Image,
    /// [`Block::File`].
    File,
    /// [`Block::Provider`].
    Provider,
}

impl TryFrom<BlockWire> for Block {
    type Error = String;

    fn try_from(w: BlockWire) -> Result<Self, String> {
        let kind = w.kind;
        let missing = |field: &str| format!("a `{kind:?}` block without `{field}`");
        let text = || w.text.clone().ok_or_else(|| missing("text"));
        let attachment = || {
            Ok::<_, String>(Attachment {
                blob: w.blob.ok_or_else(|| missing("blob"))?,
                media_type: w.media_type.clone().ok_or_else(|| missing("media_type"))?,
                bytes: w.bytes.ok_or_else(|| missing("bytes"))?,
                name: w.name.clone(),
            })
        };
        Ok(match kind {
            BlockKind::Text => Block::Text { text: text()?, provider: w.provider },
            BlockKind::Refusal => Block::Refusal { text: text()?, provider: w.provider },
            BlockKind::Reasoning => Block::Reasoning { text: text()?, provider: w.provider },
            BlockKind::ToolCall => Block::ToolCall {
                call: w.call,
                id: w.id.ok_or_else(|| missing("id"))?,
                name: w.name.ok_or_else(|| missing("name"))?,
                arguments: w.arguments.ok_or_else(|| missing("arguments"))?,
                kind: w.call_kind,
                provider: w.provider,
            },
            BlockKind::ToolResult => Block::ToolResult {
                call: w.call.ok_or_else(|| missing("call"))?,
                content: w.content.ok_or_else(|| missing("content"))?,
                is_error: w.is_error,
            },
            BlockKind::Json => Block::Json { value: w.value.ok_or_else(|| missing("value"))? },
            BlockKind::Image => Block::Image { attachment: attachment()? },
            BlockKind::File => Block::File { attachment: attachment()? },
            BlockKind::Provider => Block::Provider { wire: w.wire.ok_or_else(|| missing("wire"))? },
        })
    }
}
