//! What one message says: lines of text, and pictures between them.

use terret_core::message::Block;

use crate::model::attachment::placeholder;
use crate::model::compact::compact;
use crate::model::json::{Json, Value};

/// Text and pictures in their order.
#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

enum Part {
    /// Lines of text.
    Text(String),
    /// The URL of a picture.
    Picture(String),
}

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the words of a block on a line of their own. What goes elsewhere is passed over.
    pub(super) fn push(&mut self, block: &Block) {
        match block {
            Block::Text { text, .. } | Block::Refusal { text, .. } => self.line(text),
            Block::Json { value } => self.line(&compact(value.get())),
            Block::Image { attachment } | Block::File { attachment } => {
                let what = if matches!(block, Block::Image { .. }) { "image" } else { "file" };
                self.line(&placeholder(what, attachment));
            }
            Block::Reasoning { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Provider { .. } => {}
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => {
                text.push('\n');
                text.push_str(line);
            }
            Some(Part::Picture(_)) | None => self.0.push(Part::Text(line.to_owned())),
        }
    }

    /// Adds all of another.
    pub(super) fn extend(&mut self, more: Parts) {
        for part in more.0 {
            match part {
                Part::Text(text) => self.line(&text),
                Part::Picture(url) => self.show(url),
            }
        }
    }

    pub(super) fn show(&mut self, url: String) {
        self.0.push(Part::Picture(url));
    }

    /// The words alone.
    pub(super) fn text(&self) -> String {
        let texts = self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Picture(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// As `content`: a string where there are only words, since a list of parts makes some models imitate it.
    pub(super) fn content(&self) -> Json {
        let mut json = Json::default();
        if self.0.iter().all(|part| matches!(part, Part::Text(_))) {
            json.value(self.text().as_str());
            return json;
        }
        for (at, part) in self.0.iter().enumerate() {
            json.push(if at == 0 { "[" } else { "," });
            match part {
                Part::Text(text) => {
                    json.object(&[("type", Value::Text("text")), ("text", Value::Text(text))])
                }
                Part::Picture(url) => {
                    let mut image = Json::default();
                    image.object(&[("url", Value::Text(url))]);
                    json.object(&[("type", Value::Text("image_url")), ("image_url", Value::Json(&image))]);
                }
            }
        }
        json.push("]");
        json
    }
}
