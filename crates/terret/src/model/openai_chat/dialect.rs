//! How servers differ in what they take: rows of data, one per server family.
//!
//! The effective row is written into the request header, so a body can be rebuilt without this table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terret_core::raw::Raw;

use super::rows;
use crate::limits::MAX_CHAT_CALL_ID_BYTES;
use crate::model::ids::Ids;

/// What a server takes in a chat request. A field absent from a stored row has its careful default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Dialect {
    /// Name of the row.
    pub name: String,
    /// Role of the system text.
    pub system_role: SystemRole,
    /// Name of the field that limits the output.
    pub max_tokens_field: MaxTokensField,
    /// Whether to ask for usage with `stream_options`.
    pub stream_options: bool,
    /// Whether to send `store: false`.
    pub store: bool,
    /// Whether `parallel_tool_calls` is known.
    pub parallel_tool_calls: bool,
    /// Whether `prompt_cache_key` is known.
    pub prompt_cache_key: bool,
    /// How thinking is asked for.
    pub thinking: Thinking,
    /// The field that carries reasoning back.
    pub reasoning_field: ReasoningField,
    /// Which messages carry reasoning back. There is no "this turn only": it would change what was sent
    /// before, and with it the cached prefix.
    pub reasoning_replay: ReasoningReplay,
    /// Content of an assistant's message that has calls and no text.
    pub empty_content: EmptyContent,
    /// Whether opaque data of calls goes back as `extra_content`, with Gemini's stand-in for the calls of
    /// other models.
    pub extra_content: bool,
    /// What becomes of pictures in messages.
    pub images: Images,
    /// How an answer is held to a JSON Schema by the server itself.
    pub structured_output: StructuredOutput,
    /// Which ids of calls it takes.
    pub call_ids: CallIds,
    /// Whether a user's message right behind a tool's needs an assistant's in between.
    pub bridge_after_tools: bool,
    /// Whether `tools` must be there, if only empty, once there were calls.
    pub tools_with_history: bool,
    /// Whether `tool_choice` says `any` where others say `required`.
    pub tool_choice_any: bool,
    /// Parameters under another name, each `ours=theirs`.
    pub renamed: Vec<String>,
    /// Parameters it refuses, or takes and does not heed: they are refused before anything is sent.
    pub refused: Vec<String>,
}

impl Dialect {
    /// The row for a server nobody knows: what all of them take.
    pub fn generic() -> Self {
        rows::row("generic", "").unwrap_or_default()
    }

    /// The row of this name, as it is for this model.
    pub fn built_in(name: &str, model: &str) -> Option<Self> {
        rows::row(name, model)
    }

    /// What a server calls a parameter.
    pub(super) fn name_of<'a>(&'a self, parameter: &'a str) -> &'a str {
        let pairs = self.renamed.iter().filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(ours, _)| *ours == parameter).map_or(parameter, |(_, theirs)| theirs)
    }

    /// The columns the first version of the codec knew; the others as if they were not there.
    pub(super) fn of_the_first(self) -> Self {
        let Dialect { images, structured_output, call_ids, bridge_after_tools, .. } = rows::CAREFUL.clone();
        let (tools_with_history, tool_choice_any) = (false, false);
        Dialect {
            images,
            structured_output,
            call_ids,
            bridge_after_tools,
            tools_with_history,
            tool_choice_any,
            renamed: Vec::new(),
            ..self
        }
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

macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$vdoc:meta])* $variant:ident ),* $(,)? } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $( $(#[$vdoc])* $variant, )* }
    )* };
}

words! {
    /// Role of the system text.
    SystemRole {
        /// `system`, understood everywhere.
        System,
        /// `developer`.
        Developer,
    }
    /// Name of the field that limits the output.
    MaxTokensField {
        /// `max_tokens`, the only one most servers know.
        MaxTokens,
        /// `max_completion_tokens`, the only one OpenAI's reasoning models take.
        MaxCompletionTokens,
    }
    /// How the parameter `reasoning_effort` is sent.
    Thinking {
        /// Not at all.
        None,
        /// As `reasoning_effort`.
        Effort,
        /// As `thinking: {type}` and `reasoning_effort`; `none` turns it off.
        Deepseek,
        /// As `reasoning: {effort}`; `none` turns it off.
        Openrouter,
        /// As `reasoning: {enabled}`: there are no degrees.
        Switch,
        /// As `chat_template_kwargs: {enable_thinking}`: the template of the model decides.
        Template,
    }
    /// The field that carries reasoning back.
    ReasoningField {
        /// `reasoning_content`.
        ReasoningContent,
        /// `reasoning`.
        Reasoning,
        /// `reasoning_details` where there were any, else `reasoning`.
        ReasoningDetails,
    }
    /// Which of the assistant's messages carry their reasoning back.
    ReasoningReplay {
        /// None.
        None,
        /// Those that have some from this very model.
        All,
        /// All, with an empty string where there is none.
        AllWithEmpty,
    }
    /// What becomes of pictures in messages.
    Images {
        /// Words stand in their place.
        Placeholder,
        /// They are sent; those in tool results in a user's message behind the results.
        Send,
    }
    /// How an answer is held to a JSON Schema by the server itself.
    StructuredOutput {
        /// Not at all.
        None,
        /// It is held to be JSON.
        JsonObject,
        /// As `response_format: {type: json_schema}`.
        JsonSchema,
    }
    /// Which ids of calls a server takes.
    CallIds {
        /// Any up to 40 bytes.
        Any,
        /// Nine letters and digits.
        Nine,
    }
    /// Content of an assistant's message that has calls and no text.
    EmptyContent {
        /// `null`.
        Null,
        /// `""`.
        Empty,
    }
}

impl CallIds {
    /// No ids yet, of this kind.
    pub(super) fn rule(self) -> Ids {
        const NINE: usize = 9;
        match self {
            CallIds::Any => Ids::new(|id| id.len() <= MAX_CHAT_CALL_ID_BYTES),
            CallIds::Nine => Ids::of_form(
                |id| id.len() == NINE && id.bytes().all(|b| b.is_ascii_alphanumeric()),
                |digits| digits[..NINE].to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Dialect;
    use terret_core::raw::Raw;

    #[test]
    fn a_row_survives_the_header_and_a_short_row_is_careful() {
        let row = Dialect::built_in("deepseek", "").unwrap();
        assert_eq!(Dialect::from_raw(&Raw::from_value(&row).unwrap()).unwrap(), row);
        let short = Dialect::from_raw(&Raw::parse(r#"{"store":true,"later_field":1}"#).unwrap()).unwrap();
        assert_eq!(short, Dialect { store: true, ..Dialect::default() });
    }
}
