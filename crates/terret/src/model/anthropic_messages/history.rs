//! The messages of a body, as they grow.

use bytes::Bytes;
use terret_core::chunk::Failure;
use terret_core::id::CallId;
use terret_core::message::{Block, Message, Role};

use super::blocks::{Own, said, text, tool_result};
use super::breakpoints::Breakpoints;
use super::dialect::{Dialect, Images};
use super::head::MARK;
use crate::limits::MAX_MESSAGES_CALL_ID_BYTES;
use crate::model::grown::Grown;
use crate::model::ids::Ids;
use crate::model::json::Json;
use crate::model::{Blobs, Body};

/// A body. The brackets that close it are added on demand, and so is the one that closes its last block: a mark may come
/// before it.
pub(super) struct MessagesBody {
    grown: Grown,
    dialect: Dialect,
    provider: String,
    model: String,
    ids: Ids,
    /// Who says the last message; the next of the same role continues it.
    last: Option<Role>,
    breakpoints: Breakpoints,
    /// Pictures out of failed results, which take text only: they wait for the last result.
    pictures: Vec<Json>,
}

impl Body for MessagesBody {
    fn push(&mut self, message: &Message, blobs: Blobs<'_>) -> Result<(), Failure> {
        match message.role {
            Role::User => self.user(&message.content, blobs),
            Role::Assistant => self.assistant(message, blobs),
        }
    }

    fn push_moved(&mut self, message: &Message, blobs: Blobs<'_>) -> Result<(), Failure> {
        let mut message = message.clone();
        // Newer models bind a thought to all that stood before it, and refuse one that moved.
        message.content.retain(|block| !matches!(block, Block::Reasoning { .. }));
        self.push(&message, blobs)
    }

    fn bytes(&mut self) -> Bytes {
        let end = if self.last.is_some() { "}]}]}" } else { "]}" };
        let written = self.grown.written().len();
        match self.marks()[..] {
            [] => self.grown.lend(end),
            [at] if at == written => self.grown.lend(&format!("{MARK}{end}")),
            ref marks => spliced(self.grown.written(), marks, end),
        }
    }

    fn stable(&self) -> &[u8] {
        let written = self.grown.written();
        match self.breakpoints.first().filter(|_| self.dialect.cache_control) {
            Some(at) => &written[..at],
            None => written,
        }
    }
}

/// A copy with marks in it.
fn spliced(written: &[u8], marks: &[usize], end: &str) -> Bytes {
    let mut whole = Vec::with_capacity(written.len() + marks.len() * MARK.len() + end.len());
    let mut from = 0;
    for at in marks {
        whole.extend_from_slice(&written[from..*at]);
        whole.extend_from_slice(MARK.as_bytes());
        from = *at;
    }
    whole.extend_from_slice(&written[from..]);
    whole.extend_from_slice(end.as_bytes());
    whole.into()
}

/// The first message must be a user's.
const BEFORE: &str = "(continued)";
/// What stands for the result of a call that has none.
const NO_RESULT: &str = "(no result)";
const NO_OUTPUT: &str = "(no output)";
const SEE_BELOW: &str = "(see the image below)";

impl MessagesBody {
    pub(super) fn new(front: &Json, dialect: Dialect, (provider, model): (String, String)) -> Self {
        let legal = |id: &str| {
            let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
            id.len() <= MAX_MESSAGES_CALL_ID_BYTES && id.bytes().all(legal)
        };
        MessagesBody {
            grown: Grown::new(front.as_bytes()),
            dialect,
            provider,
            model,
            ids: Ids::new(legal),
            last: None,
            breakpoints: Breakpoints::default(),
            pictures: Vec::new(),
        }
    }

    fn marks(&self) -> Vec<usize> {
        if self.dialect.cache_control { self.breakpoints.marks() } else { Vec::new() }
    }

    /// Adds a block to the last message, or to a new one if somebody else speaks.
    fn add(&mut self, role: Role, block: &Json) {
        let between = match (self.last, role) {
            (Some(last), role) if last == role => "},",
            (Some(_), Role::User) => "}]},{\"role\":\"user\",\"content\":[",
            (Some(_), Role::Assistant) => "}]},{\"role\":\"assistant\",\"content\":[",
            (None, Role::User) => "{\"role\":\"user\",\"content\":[",
            (None, Role::Assistant) => {
                self.say(text(BEFORE));
                return self.add(role, block);
            }
        };
        if role == Role::User && self.last != Some(Role::User) {
            self.breakpoints.begin();
        }
        self.last = Some(role);
        self.grown.push(between.as_bytes());
        self.grown.push(block.without_end());
        self.breakpoints.add(role, self.grown.written().len());
    }

    fn say(&mut self, block: Option<Json>) {
        if let Some(block) = block {
            self.add(Role::User, &block);
        }
    }

    fn user(&mut self, content: &[Block], blobs: Blobs<'_>) -> Result<(), Failure> {
        for block in content {
            if let Block::ToolResult { call, content, is_error } = block {
                self.result(*call, content, *is_error, blobs)?;
            } else if let Some(block) = said(block, &self.dialect, blobs)? {
                self.answer_the_rest();
                self.add(Role::User, &block);
            }
        }
        Ok(())
    }

    fn result(
        &mut self,
        call: CallId,
        content: &[Block],
        is_error: bool,
        blobs: Blobs<'_>,
    ) -> Result<(), Failure> {
        let mut blocks = Vec::new();
        let mut apart = Vec::new();
        let id = self.ids.answer(call);
        for block in content {
            let picture = matches!(block, Block::Image { .. }) && self.dialect.images == Images::Send;
            let to = if picture && (is_error || id.is_none()) { &mut apart } else { &mut blocks };
            to.extend(said(block, &self.dialect, blobs)?);
        }
        let Some(id) = id else {
            // A server refuses an answer nobody asked for; the words are kept.
            self.answer_the_rest();
            self.say(text(&format!("Result of tool call {call}:")));
            blocks.iter().chain(&apart).for_each(|block| self.add(Role::User, block));
            return Ok(());
        };
        if blocks.is_empty() {
            blocks.extend(text(if apart.is_empty() { NO_OUTPUT } else { SEE_BELOW }));
        }
        self.add(Role::User, &tool_result(&id, &blocks, is_error));
        self.pictures.append(&mut apart);
        if self.ids.all_answered() {
            self.show_pictures();
        }
        Ok(())
    }

    /// Results come before anything else a user's message says: calls that still have none get one now.
    fn answer_the_rest(&mut self) {
        for id in self.ids.unanswered() {
            let nothing: Vec<Json> = text(NO_RESULT).into_iter().collect();
            self.add(Role::User, &tool_result(&id, &nothing, true));
        }
        self.show_pictures();
    }

    fn show_pictures(&mut self) {
        for picture in std::mem::take(&mut self.pictures) {
            self.add(Role::User, &picture);
        }
    }

    /// A message of the assistant. None ends in thinking or in blanks, and one that says nothing is left out.
    fn assistant(&mut self, message: &Message, blobs: Blobs<'_>) -> Result<(), Failure> {
        self.answer_the_rest();
        self.ids.begin_message();
        let (provider, model) = (self.provider.clone(), self.model.clone());
        let own = Own::of(message, (&provider, &model), &self.dialect);
        let Some(end) = message.content.iter().rposition(|block| own.speaks(block)) else {
            return Ok(());
        };
        for (at, block) in message.content[..=end].iter().enumerate() {
            let words = |text: &'_ str| if at == end { text.trim_end().to_owned() } else { text.to_owned() };
            let block = match block {
                Block::Text { text, provider } => own.text(&words(text), provider.as_ref()),
                Block::Refusal { text: refusal, .. } => text(&words(refusal)),
                Block::Reasoning { text, provider } => own.thinking(text, provider.as_ref()),
                Block::ToolCall { call, id, name, arguments, provider, .. } => {
                    let id = self.ids.ask(*call, id);
                    Some(own.tool_use(&id, name, arguments, provider.as_ref()))
                }
                Block::Provider { wire } => own.whole(wire),
                Block::Image { .. } | Block::File { .. } | Block::Json { .. } | Block::ToolResult { .. } => {
                    said(block, &Dialect::default(), blobs)?
                }
            };
            if let Some(block) = block {
                self.add(Role::Assistant, &block);
            }
        }
        Ok(())
    }
}
