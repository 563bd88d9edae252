//! Blocks of messages as this wire has them, each one JSON object.

use serde_json::Value as Parsed;
use terret_core::chunk::Failure;
use terret_core::message::{Attachment, Block, Message, ProviderData, Source};
use terret_core::raw::Raw;

use super::codec::PROTOCOL;
use super::dialect::{Dialect, Images};
use super::fields::Fields;
use crate::limits::MAX_MESSAGES_NAME_BYTES;
use crate::model::Blobs;
use crate::model::attachment::{base64, placeholder};
use crate::model::compact::compact;
use crate::model::json::{Json, Value};

/// A block of text; `None` for one without a word, which servers refuse.
pub(super) fn text(text: &str) -> Option<Json> {
    (!text.trim().is_empty()).then(|| {
        let mut json = Json::default();
        json.object(&[("type", Value::Text("text")), ("text", Value::Text(text))]);
        json
    })
}

/// What a user's message or a tool's result says and shows. What belongs elsewhere is passed over.
pub(super) fn said(block: &Block, dialect: &Dialect, blobs: Blobs<'_>) -> Result<Option<Json>, Failure> {
    Ok(match block {
        Block::Text { text: words, .. } | Block::Refusal { text: words, .. } => text(words),
        Block::Json { value } => text(&compact(value.get())),
        Block::Image { attachment } => match dialect.images {
            Images::Send => picture(attachment, blobs)?.or_else(|| text(&placeholder("image", attachment))),
            Images::Placeholder => text(&placeholder("image", attachment)),
        },
        Block::File { attachment } => text(&placeholder("file", attachment)),
        Block::Reasoning { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Provider { .. } => None,
    })
}

fn picture(attachment: &Attachment, blobs: Blobs<'_>) -> Result<Option<Json>, Failure> {
    Ok(base64(attachment, blobs)?.map(|data| {
        let mut source = Json::default();
        source.object(&[
            ("type", Value::Text("base64")),
            ("media_type", Value::Text(&attachment.media_type)),
            ("data", Value::Text(&data)),
        ]);
        let mut json = Json::default();
        json.object(&[("type", Value::Text("image")), ("source", Value::Json(&source))]);
        json
    }))
}

/// The answer to a call.
pub(super) fn tool_result(id: &str, content: &[Json], is_error: bool) -> Json {
    let mut list = Json::default();
    list.push("[");
    for (at, block) in content.iter().enumerate() {
        list.push(if at == 0 { "" } else { "," });
        list.append(block);
    }
    list.push("]");
    let mut fields = vec![("type", Value::Text("tool_result")), ("tool_use_id", Value::Text(id))];
    if is_error {
        fields.push(("is_error", Value::Raw("true")));
    }
    fields.push(("content", Value::Json(&list)));
    let mut json = Json::default();
    json.object(&fields);
    json
}

/// Whose opaque data goes back: what this model said on this wire.
pub(super) struct Own<'a> {
    provider: &'a str,
    model: &'a str,
    /// Whether the whole message is its own.
    message: bool,
    unsigned: bool,
}

impl<'a> Own<'a> {
    pub(super) fn of(message: &Message, (provider, model): (&'a str, &'a str), dialect: &Dialect) -> Self {
        let protocol = |wire: &str| wire.split('@').next() == Some(PROTOCOL);
        let whole = match &message.source {
            Source::Model { provider: of, model: said_by, wire, .. } => {
                of == provider && said_by == model && wire.as_deref().is_some_and(protocol)
            }
            Source::User | Source::Plugin { .. } | Source::Tool { .. } => false,
        };
        Own { provider, model, message: whole, unsigned: dialect.unsigned_thinking }
    }

    /// Whether a block says or does anything: thinking alone does not.
    pub(super) fn speaks(&self, block: &Block) -> bool {
        match block {
            Block::Text { text, .. } | Block::Refusal { text, .. } => !text.trim().is_empty(),
            Block::Provider { wire } => self.whole(wire).is_some(),
            Block::Reasoning { .. } | Block::ToolResult { .. } => false,
            Block::ToolCall { .. } | Block::Json { .. } | Block::Image { .. } | Block::File { .. } => true,
        }
    }

    fn data<'d>(&self, provider: Option<&'d ProviderData>) -> Option<&'d Raw> {
        // What it signed is bound to its account, too.
        let own = |data: &&ProviderData| {
            data.protocol == PROTOCOL && data.route == self.provider && data.model == self.model
        };
        provider.filter(own).map(|data| &data.data)
    }

    /// A block of the assistant's text, without what it cites if that is another's.
    pub(super) fn text(&self, words: &str, provider: Option<&ProviderData>) -> Option<Json> {
        let cited = self.data(provider).map(|data| Fields::read(data.get())).unwrap_or_default();
        let Some(cited) = cited.get("citations").filter(|_| !words.trim().is_empty()) else {
            return text(words);
        };
        let mut json = Json::default();
        json.object(&[
            ("type", Value::Text("text")),
            ("text", Value::Text(words)),
            ("citations", Value::Raw(&compact(cited))),
        ]);
        Some(json)
    }

    /// Thinking as it came; `None` if it is another's, or unsigned where signatures are asked for.
    pub(super) fn thinking(&self, words: &str, provider: Option<&ProviderData>) -> Option<Json> {
        let mut json = Json::default();
        let signature = match self.data(provider).map(|data| (data, Fields::read(data.get()))) {
            Some((data, fields)) if fields.text("type") == "redacted_thinking" => {
                json.push(&compact(data.get()));
                return Some(json);
            }
            Some((_, fields)) => fields.get("signature")?.to_owned(),
            None if provider.is_none() && self.message && self.unsigned => "\"\"".to_owned(),
            None => return None,
        };
        json.object(&[
            ("type", Value::Text("thinking")),
            ("thinking", Value::Text(words)),
            ("signature", Value::Raw(&signature)),
        ]);
        Some(json)
    }

    /// A call. The wire wants an object for its arguments and a tool's name of letters.
    pub(super) fn tool_use(
        &self,
        id: &str,
        name: &str,
        arguments: &str,
        provider: Option<&ProviderData>,
    ) -> Json {
        let (name, input) = (legal_name(name), input(arguments));
        let extras = self.data(provider).map(|data| Fields::read(data.get())).unwrap_or_default();
        let mut fields = vec![
            ("type", Value::Text("tool_use")),
            ("id", Value::Text(id)),
            ("name", Value::Text(&name)),
            ("input", Value::Raw(&input)),
        ];
        for extra in ["caller", "toolset_name"] {
            fields.extend(extras.get(extra).map(|raw| (extra, Value::Raw(raw))));
        }
        let mut json = Json::default();
        json.object(&fields);
        json
    }

    /// A block only this wire understands, as it came; `None` if another model had it.
    pub(super) fn whole(&self, wire: &Raw) -> Option<Json> {
        let is_object = wire.get().trim_start().starts_with('{');
        (self.message && is_object).then(|| {
            let mut json = Json::default();
            json.push(&compact(wire.get()));
            json
        })
    }
}

/// Arguments as an object, order and numbers as the model wrote them. What is none is put into one: its text must not
/// spoil every later request.
fn input(arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    // Read to the end: halves of characters and numbers without bounds are refused elsewhere, too.
    match serde_json::from_str::<Parsed>(arguments) {
        Ok(Parsed::Object(_)) => compact(arguments.trim()).into_owned(),
        Ok(_) | Err(_) => format!("{{\"_raw\":{}}}", Raw::string(arguments).get()),
    }
}

/// A name servers take: models invent others.
fn legal_name(name: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().map(|c| if legal(c) { c } else { '_' }).collect();
    match name.len() {
        0 => "unknown".to_owned(),
        len => name[..len.min(MAX_MESSAGES_NAME_BYTES)].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{input, legal_name};

    #[test]
    fn arguments_are_an_object_whatever_came() {
        for (arguments, object) in [
            ("", "{}"),
            (" {\"b\": 1.50, \"a\": [1e3, -0]} ", "{\"b\":1.50,\"a\":[1e3,-0]}"),
            ("{not json", "{\"_raw\":\"{not json\"}"),
            ("[1]", "{\"_raw\":\"[1]\"}"),
            ("{\"a\":\"\\ud83d\"}", "{\"_raw\":\"{\\\"a\\\":\\\"\\\\ud83d\\\"}\"}"),
        ] {
            assert_eq!(input(arguments), object);
            assert!(serde_json::from_str::<serde_json::Value>(object).is_ok());
        }
    }

    #[test]
    fn names_are_letters() {
        assert_eq!(legal_name("functions.read file"), "functions_read_file");
        assert_eq!((legal_name("").as_str(), legal_name(&"é".repeat(200)).len()), ("unknown", 64));
    }
}
