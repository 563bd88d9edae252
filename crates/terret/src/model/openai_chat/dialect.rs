//! How servers differ in what they take: rows of data, one per server family.
//!
//! The effective row is written into the request header, so a body can be rebuilt without this table.

use serde::{Deserialize, Serialize};
use terret_core::raw::Raw;

/// What a server takes in a chat request. A field absent from a stored row has its careful default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Dialect {
    /// The row for a server nobody knows.
    pub fn generic() -> Self {
        Dialect {
            name: "generic".to_owned(),
            system_role: SystemRole::System,
            max_tokens_field: MaxTokensField::MaxTokens,
            stream_options: true,
            store: false,
            parallel_tool_calls: false,
            prompt_cache_key: false,
            thinking: Thinking::Effort,
            reasoning_field: ReasoningField::ReasoningContent,
            reasoning_replay: ReasoningReplay::None,
            empty_content: EmptyContent::Null,
            extra_content: false,
        }
    }

    /// A built-in row by name.
    pub fn built_in(name: &str) -> Option<Self> {
        let base = Dialect { name: name.to_owned(), ..Dialect::generic() };
        Some(match name {
            "generic" => base,
            "openai" => Dialect {
                max_tokens_field: MaxTokensField::MaxCompletionTokens,
                store: true,
                parallel_tool_calls: true,
                prompt_cache_key: true,
                ..base
            },
            "deepseek" => Dialect {
                thinking: Thinking::Deepseek,
                reasoning_replay: ReasoningReplay::AllWithEmpty,
                empty_content: EmptyContent::Empty,
                ..base
            },
            "openrouter" => Dialect {
                parallel_tool_calls: true,
                thinking: Thinking::Openrouter,
                reasoning_field: ReasoningField::ReasoningDetails,
                reasoning_replay: ReasoningReplay::All,
                ..base
            },
            "gemini" => Dialect { empty_content: EmptyContent::Empty, extra_content: true, ..base },
            "ollama" => Dialect {
                reasoning_field: ReasoningField::Reasoning,
                reasoning_replay: ReasoningReplay::All,
                empty_content: EmptyContent::Empty,
                ..base
            },
            "llamacpp" => Dialect { parallel_tool_calls: true, empty_content: EmptyContent::Empty, ..base },
            "vllm" => Dialect { parallel_tool_calls: true, ..base },
            _ => return None,
        })
    }

    /// Reads the row of a request header.
    pub fn from_raw(raw: &Raw) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw.get())
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Dialect::generic()
    }
}

macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$vdoc:meta])* $variant:ident ),* $(,)? } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        /// As `reasoning: {effort}`.
        Openrouter,
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
    /// Content of an assistant's message that has calls and no text.
    EmptyContent {
        /// `null`.
        Null,
        /// `""`.
        Empty,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Dialect;
    use terret_core::raw::Raw;

    #[test]
    fn a_row_survives_the_header_and_a_short_row_is_careful() {
        let row = Dialect::built_in("deepseek").unwrap();
        assert_eq!(Dialect::from_raw(&Raw::from_value(&row).unwrap()).unwrap(), row);
        let short = Dialect::from_raw(&Raw::parse(r#"{"store":true,"later_field":1}"#).unwrap()).unwrap();
        assert_eq!(short, Dialect { store: true, ..Dialect::generic() });
    }
}
