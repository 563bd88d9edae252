//! What a user's message or a result is made of: texts and pictures, in order.

use terret_core::chunk::Failure;
use terret_core::message::{Attachment, Block};

use crate::model::Blobs;
use crate::model::attachment::{data_url, placeholder};
use crate::model::compact::compact;
use crate::model::json::{Json, Value};

/// One part.
#[derive(Clone)]
pub(super) enum Part {
    Text(String),
    /// A `data:` URL.
    Image(String),
}

/// The parts, and whether there was anything to make parts of.
#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

impl Parts {
    /// The parts of these blocks. Pictures are sent, or words stand for them.
    pub(super) fn of(blocks: &[Block], send: bool, blobs: Blobs<'_>) -> Result<Self, Failure> {
        let mut parts = Parts::default();
        blocks.iter().try_for_each(|block| parts.push(block, send, blobs))?;
        Ok(parts)
    }

    pub(super) fn push(&mut self, block: &Block, send: bool, blobs: Blobs<'_>) -> Result<(), Failure> {
        let part = match block {
            Block::Text { text, .. } | Block::Refusal { text, .. } => Part::Text(text.clone()),
            Block::Json { value } => Part::Text(compact(value.get()).into_owned()),
            Block::Image { attachment } => image(attachment, send, blobs)?,
            Block::File { attachment } => Part::Text(placeholder("file", attachment)),
            Block::Reasoning { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Provider { .. } => return Ok(()),
        };
        self.0.push(part);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same behind another part.
    pub(super) fn after(&self, first: Part) -> Self {
        Parts(std::iter::once(first).chain(self.0.iter().cloned()).collect())
    }

    /// All of it as one text, each part on lines of its own; `None` if there are pictures in it.
    pub(super) fn text(&self) -> Option<String> {
        let texts: Option<Vec<&str>> = self
            .0
            .iter()
            .map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Image(_) => None,
            })
            .collect();
        texts.map(|texts| texts.join("\n"))
    }

    /// Writes them as a list. Empty texts say nothing, unless there is nothing else.
    pub(super) fn write(&self, json: &mut Json) {
        let silent = |part: &Part| matches!(part, Part::Text(text) if text.is_empty());
        let all_silent = self.0.iter().all(silent);
        let kept = if all_silent { 1 } else { usize::MAX };
        let said = self.0.iter().filter(|part| all_silent || !silent(part)).take(kept);
        json.push("[");
        for (at, part) in said.enumerate() {
            if at > 0 {
                json.push(",");
            }
            match part {
                Part::Text(text) => {
                    json.object(&[("type", Value::Text("input_text")), ("text", Value::Text(text))]);
                }
                Part::Image(url) => json.object(&[
                    ("type", Value::Text("input_image")),
                    ("image_url", Value::Text(url)),
                    ("detail", Value::Text("auto")),
                ]),
            }
        }
        json.push("]");
    }
}

fn image(attachment: &Attachment, send: bool, blobs: Blobs<'_>) -> Result<Part, Failure> {
    let url = if send { data_url(attachment, blobs)? } else { None };
    Ok(url.map_or_else(|| Part::Text(placeholder("image", attachment)), Part::Image))
}
