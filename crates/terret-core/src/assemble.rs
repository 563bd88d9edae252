//! From a stream's chunks to one message: the same code for live answers, cuts and replay.

use crate::chunk::{Chunk, Finish, Usage};
use crate::limits::MAX_BLOCKS;
use crate::message::{Block, BlockKind, CallKind, ProviderData};
use crate::raw::Raw;

/// The route a stream belongs to; stands in the opaque data it leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Wire protocol, for example `openai-chat`.
    pub protocol: String,
    /// Provider name.
    pub provider: String,
    /// Model name.
    pub model: String,
}

/// Folds chunks into blocks. Linear: a chunk costs what it adds.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    route: Route,
    blocks: Vec<Open>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    response_id: Option<String>,
    model: Option<String>,
    warnings: Vec<String>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Open {
    kind: BlockKind,
    text: String,
    id: String,
    name: String,
    data: Option<Raw>,
    whole: Option<Block>,
    ended: bool,
}

impl Assembler {
    /// An empty fold for a stream on this route.
    pub fn new(route: Route) -> Self {
        Assembler { route, ..Assembler::default() }
    }

    /// Takes one chunk in. A chunk for a block that never opened, or past the block limit, changes nothing.
    pub fn push(&mut self, chunk: &Chunk) {
        self.bytes += chunk.size();
        match chunk {
            Chunk::ResponseStart { response_id, model } => {
                self.response_id = self.response_id.take().or_else(|| response_id.clone());
                self.model = self.model.take().or_else(|| model.clone());
            }
            Chunk::BlockStart { index, block_type, id, name } => {
                if *index as usize == self.blocks.len() && self.blocks.len() < MAX_BLOCKS {
                    self.blocks.push(Open {
                        kind: *block_type,
                        text: String::new(),
                        id: id.clone().unwrap_or_default(),
                        name: name.clone().unwrap_or_default(),
                        data: None,
                        whole: None,
                        ended: false,
                    });
                }
            }
            Chunk::TextDelta { index, text }
            | Chunk::RefusalDelta { index, text }
            | Chunk::ReasoningDelta { index, text, .. } => {
                if let Some(block) = self.open(*index) {
                    block.text.push_str(text);
                }
            }
            Chunk::ToolCallDelta { index, arguments_delta, id, name } => {
                if let Some(block) = self.open(*index) {
                    block.text.push_str(arguments_delta);
                    if let (true, Some(id)) = (block.id.is_empty(), id) {
                        block.id.clone_from(id);
                    }
                    if let (true, Some(name)) = (block.name.is_empty(), name) {
                        block.name.clone_from(name);
                    }
                }
            }
            Chunk::ProviderDelta { index, data } => {
                if let Some(block) = self.open(*index) {
                    block.data = Some(data.clone());
                }
            }
            Chunk::BlockEnd { index, block } => {
                if let Some(open) = self.open(*index) {
                    open.ended = true;
                    open.whole.clone_from(block);
                }
            }
            Chunk::Usage { usage } => self.usage = Some(usage.clone()),
            Chunk::Warning { code, .. } => self.warnings.push(code.clone()),
            Chunk::Finish { reason, raw } => {
                self.finish = Some(Finish { kind: *reason, raw: raw.clone() });
            }
        }
    }

    fn open(&mut self, index: u32) -> Option<&mut Open> {
        self.blocks.get_mut(index as usize).filter(|block| !block.ended)
    }

    /// The blocks of a whole stream, in order. Empty text is left out; empty call arguments become `{}`.
    pub fn content(&self) -> Vec<Block> {
        self.blocks.iter().filter_map(|open| self.block(open)).collect()
    }

    /// What may be kept of a stream that was cut: text with something in it, and reasoning that can be sent
    /// back. Calls go: nobody knows whether they were whole.
    pub fn partial(&self) -> Vec<Block> {
        let keep = |block: &Block| match block {
            Block::Text { text, .. } | Block::Refusal { text, .. } => !text.trim().is_empty(),
            Block::Reasoning { provider, .. } => provider.is_some(),
            Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Json { .. }
            | Block::Image { .. }
            | Block::File { .. }
            | Block::Provider { .. } => false,
        };
        self.content().into_iter().filter(keep).collect()
    }

    /// Bytes of text and data taken in so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tokens counted by the provider so far.
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// The end, once it came.
    pub fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    /// The provider's id of the response.
    pub fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// The model that says it answered.
    pub fn response_model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Codes of the warnings, in order.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn block(&self, open: &Open) -> Option<Block> {
        let provider = open.data.as_ref().map(|data| ProviderData {
            protocol: self.route.protocol.clone(),
            route: self.route.provider.clone(),
            model: self.route.model.clone(),
            data: data.clone(),
        });
        if let Some(whole) = &open.whole {
            return Some(completed(whole.clone(), provider));
        }
        let text = open.text.clone();
        match open.kind {
            BlockKind::Text => (!text.is_empty()).then_some(Block::Text { text, provider }),
            BlockKind::Refusal => (!text.is_empty()).then_some(Block::Refusal { text, provider }),
            BlockKind::Reasoning => {
                (!text.is_empty() || provider.is_some()).then_some(Block::Reasoning { text, provider })
            }
            BlockKind::ToolCall => Some(Block::ToolCall {
                call: None,
                id: open.id.clone(),
                name: open.name.clone(),
                arguments: if text.trim().is_empty() { "{}".to_owned() } else { text },
                kind: CallKind::Json,
                provider,
            }),
            BlockKind::Provider => open.data.clone().map(|wire| Block::Provider { wire }),
            BlockKind::ToolResult | BlockKind::Json | BlockKind::Image | BlockKind::File => None,
        }
    }
}

/// A block the wire repeated: without opaque data of its own it keeps what its deltas brought.
fn completed(mut whole: Block, data: Option<ProviderData>) -> Block {
    match &mut whole {
        Block::ToolCall { arguments, kind, provider, .. } => {
            if *kind == CallKind::Json && arguments.trim().is_empty() {
                "{}".clone_into(arguments);
            }
            *provider = provider.take().or(data);
        }
        Block::Text { provider, .. }
        | Block::Refusal { provider, .. }
        | Block::Reasoning { provider, .. } => {
            *provider = provider.take().or(data);
        }
        Block::ToolResult { .. }
        | Block::Json { .. }
        | Block::Image { .. }
        | Block::File { .. }
        | Block::Provider { .. } => {}
    }
    whole
}
