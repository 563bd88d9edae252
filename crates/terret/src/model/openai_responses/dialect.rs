//! How servers differ in what they take of the Responses protocol: rows of data, one per server family.
//!
//! The effective row is written into the request header, so a body can be rebuilt without this table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terret_core::raw::Raw;

/// What a server takes in a request. A field absent from a stored row has its careful default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Dialect {
    /// Name of the row.
    pub name: String,
    /// Whether to send `store: false`: nothing of a session is left with the provider.
    pub store: bool,
    /// Whether to ask for encrypted reasoning, which a server that stores nothing needs back.
    pub include_encrypted: bool,
    /// Whether `prompt_cache_key` is known.
    pub prompt_cache_key: bool,
    /// Whether `parallel_tool_calls` is known.
    pub parallel_tool_calls: bool,
    /// How thinking is asked for.
    pub reasoning: Reasoning,
    /// How the shape of the answer is asked for.
    pub structured_output: StructuredOutput,
    /// What becomes of pictures.
    pub images: Images,
    /// Which reasoning items go back.
    pub replay_reasoning: ReplayReasoning,
    /// Whether every message item names its type; the protocol lets it be left out where an item has no id.
    pub typed_messages: bool,
    /// Whether calls in free text are known; else they go back as calls with one argument, `input`.
    pub custom_calls: bool,
    /// Parameters it refuses, or takes and does not heed: they are refused before anything is sent.
    pub refused: Vec<String>,
}

/// Names of all rows.
pub const NAMES: [&str; 7] = ["azure", "deepseek", "generic", "llamacpp", "ollama", "openai", "vllm"];

impl Dialect {
    /// A built-in row by name, as it is for this model.
    pub fn built_in(name: &str, model: &str) -> Option<Self> {
        let base = Dialect { name: name.to_owned(), images: Images::Messages, ..Dialect::default() };
        Some(match name {
            "generic" => base,
            // Azure serves the same models behind the same protocol.
            "azure" | "openai" => of_openai(base, model),
            // Their models refuse a history of calls without the thoughts that led to them, or do better with it.
            "deepseek" | "llamacpp" => Dialect { replay_reasoning: ReplayReasoning::Whole, ..base },
            "ollama" | "vllm" => Dialect {
                structured_output: StructuredOutput::JsonSchema,
                replay_reasoning: ReplayReasoning::Whole,
                ..base
            },
            _ => return None,
        })
    }

    /// Reads the row of a request header.
    pub fn from_raw(raw: &Raw) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw.get())
    }
}

fn of_openai(base: Dialect, model: &str) -> Dialect {
    let is_one_of = |list: &[&str]| {
        list.iter().any(|start| model.starts_with(start) || model == start.trim_end_matches('-'))
    };
    let thinks = !is_one_of(&WITHOUT_REASONING);
    let sampling: &[&str] = if is_one_of(&WITHOUT_SAMPLING) { &SAMPLING } else { &[] };
    Dialect {
        store: true,
        include_encrypted: thinks,
        prompt_cache_key: true,
        parallel_tool_calls: true,
        reasoning: if thinks { Reasoning::EffortAndSummary } else { Reasoning::None },
        structured_output: StructuredOutput::JsonSchema,
        images: Images::Send,
        replay_reasoning: ReplayReasoning::Encrypted,
        typed_messages: false,
        custom_calls: true,
        refused: NO_PARAMETERS.iter().chain(sampling).map(|name| (*name).to_owned()).collect(),
        ..base
    }
}

/// Beginnings of the names of OpenAI's models that do not think: they refuse what is about thinking.
const WITHOUT_REASONING: [&str; 4] = ["chatgpt-", "gpt-3", "gpt-4", "gpt-5-chat"];

/// Of those that think and sample as they see fit.
const WITHOUT_SAMPLING: [&str; 5] = ["gpt-5-", "gpt-6", "o1", "o3", "o4"];

/// What the others let be set.
const SAMPLING: [&str; 3] = ["temperature", "top_logprobs", "top_p"];

/// Parameters of chat completions that this endpoint does not have.
const NO_PARAMETERS: [&str; 6] = ["frequency_penalty", "logit_bias", "n", "presence_penalty", "seed", "stop"];

/// What stands for every column a stored row does not have. It never changes: rows of old logs rest on it.
impl Default for Dialect {
    fn default() -> Self {
        Dialect {
            name: String::new(),
            store: false,
            include_encrypted: false,
            prompt_cache_key: false,
            parallel_tool_calls: false,
            reasoning: Reasoning::Effort,
            structured_output: StructuredOutput::None,
            images: Images::Placeholder,
            replay_reasoning: ReplayReasoning::None,
            typed_messages: true,
            custom_calls: false,
            refused: Vec::new(),
        }
    }
}

/// How the parameter `reasoning_effort` is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// Not at all.
    None,
    /// As `reasoning: {effort}`.
    Effort,
    /// The same, and a summary of the reasoning is asked for.
    EffortAndSummary,
}

/// How the parameter `output_schema` is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// Not at all.
    None,
    /// As `text: {format}` of type `json_schema`.
    JsonSchema,
}

/// What becomes of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Images {
    /// They are sent, in messages and in results.
    Send,
    /// They are sent in messages; in results words stand for them.
    Messages,
    /// Words stand for them.
    Placeholder,
}

/// Which reasoning items go back to the model that wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayReasoning {
    /// None.
    None,
    /// Those with encrypted content: without storage a server knows no other.
    Encrypted,
    /// All.
    Whole,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Dialect, Images, NAMES, Reasoning};
    use terret_core::raw::Raw;

    #[test]
    fn a_row_survives_the_header_and_a_short_row_is_careful() {
        assert!(NAMES.is_sorted());
        for name in NAMES {
            let row = Dialect::built_in(name, "m").unwrap();
            assert_eq!(row.name, name);
            assert_eq!(Dialect::from_raw(&Raw::from_value(&row).unwrap()).unwrap(), row);
        }
        let short = Dialect::from_raw(&Raw::parse(r#"{"store":true,"later_field":1}"#).unwrap()).unwrap();
        assert_eq!(short, Dialect { store: true, ..Dialect::default() });
        assert_eq!(short.images, Images::Placeholder);
        assert_eq!(Dialect::built_in("klingon", "m"), None);
    }

    #[test]
    fn models_that_do_not_think_are_not_asked_for_thoughts() {
        let row = Dialect::built_in("openai", "gpt-4.1").unwrap();
        assert_eq!((row.include_encrypted, row.reasoning), (false, Reasoning::None));
        assert!(Dialect::built_in("azure", "gpt-5.4").unwrap().include_encrypted);
        let refused = |model| Dialect::built_in("openai", model).unwrap().refused.join(" ");
        assert!(refused("o3").ends_with("seed stop temperature top_logprobs top_p"));
        assert!(refused("gpt-5").contains("top_p") && !refused("gpt-5.4").contains("top_p"));
    }
}
