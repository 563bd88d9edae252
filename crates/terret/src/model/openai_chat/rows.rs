//! The table of servers that speak chat completions: what each takes that others do not, and the reverse.
//!
//! A row says only where it differs from the careful one, which holds for a server nobody knows. Some servers differ
//! by model: the second table.

use super::dialect::{
    CallIds, Dialect, EmptyContent, Images, MaxTokensField, ReasoningField, ReasoningReplay,
    StructuredOutput, SystemRole, Thinking,
};

/// Names of all rows.
pub const NAMES: [&str; 14] = [
    "azure",
    "deepseek",
    "gemini",
    "generic",
    "groq",
    "llamacpp",
    "lmstudio",
    "mistral",
    "ollama",
    "openai",
    "openrouter",
    "together",
    "vllm",
    "xai",
];

/// What stands for every column a stored row does not have. It never changes: rows of old logs rest on it.
pub(super) static CAREFUL: Dialect = Dialect {
    name: String::new(),
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
    images: Images::Placeholder,
    structured_output: StructuredOutput::None,
    call_ids: CallIds::Any,
    bridge_after_tools: false,
    tools_with_history: false,
    tool_choice_any: false,
    renamed: Vec::new(),
    refused: Vec::new(),
};

/// The row of this name, as it is for this model; `None` for a name without a row.
pub(super) fn row(name: &str, model: &str) -> Option<Dialect> {
    let base = Dialect { name: name.to_owned(), images: Images::Send, ..CAREFUL.clone() };
    let row = match name {
        "generic" => base,
        "openai" | "azure" => Dialect {
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            store: name == "openai",
            parallel_tool_calls: true,
            prompt_cache_key: true,
            structured_output: StructuredOutput::JsonSchema,
            ..base
        },
        "deepseek" => Dialect {
            thinking: Thinking::Deepseek,
            reasoning_replay: ReasoningReplay::AllWithEmpty,
            empty_content: EmptyContent::Empty,
            structured_output: StructuredOutput::JsonObject,
            refused: words(&["seed", "top_k"]),
            ..base
        },
        "openrouter" => Dialect {
            parallel_tool_calls: true,
            thinking: Thinking::Openrouter,
            reasoning_field: ReasoningField::ReasoningDetails,
            reasoning_replay: ReasoningReplay::All,
            structured_output: StructuredOutput::JsonSchema,
            ..base
        },
        "gemini" => Dialect {
            empty_content: EmptyContent::Empty,
            extra_content: true,
            structured_output: StructuredOutput::JsonSchema,
            ..base
        },
        "mistral" => Dialect {
            stream_options: false,
            parallel_tool_calls: true,
            thinking: Thinking::None,
            empty_content: EmptyContent::Empty,
            structured_output: StructuredOutput::JsonSchema,
            call_ids: CallIds::Nine,
            bridge_after_tools: true,
            tool_choice_any: true,
            renamed: words(&["seed=random_seed"]),
            refused: words(&["logit_bias", "logprobs", "top_logprobs"]),
            ..base
        },
        "groq" => Dialect {
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            parallel_tool_calls: true,
            structured_output: StructuredOutput::JsonSchema,
            refused: words(&["logit_bias", "logprobs", "top_logprobs"]),
            ..base
        },
        "together" => {
            Dialect { thinking: Thinking::Switch, structured_output: StructuredOutput::JsonSchema, ..base }
        }
        "xai" => Dialect {
            parallel_tool_calls: true,
            thinking: Thinking::None,
            structured_output: StructuredOutput::JsonSchema,
            ..base
        },
        "ollama" => Dialect {
            reasoning_field: ReasoningField::Reasoning,
            reasoning_replay: ReasoningReplay::All,
            empty_content: EmptyContent::Empty,
            structured_output: StructuredOutput::JsonSchema,
            refused: words(&["logit_bias", "tool_choice"]),
            ..base
        },
        "llamacpp" => Dialect {
            parallel_tool_calls: true,
            thinking: Thinking::Template,
            empty_content: EmptyContent::Empty,
            structured_output: StructuredOutput::JsonSchema,
            ..base
        },
        "lmstudio" => Dialect {
            thinking: Thinking::None,
            empty_content: EmptyContent::Empty,
            structured_output: StructuredOutput::JsonSchema,
            ..base
        },
        "vllm" => {
            Dialect { parallel_tool_calls: true, structured_output: StructuredOutput::JsonSchema, ..base }
        }
        _ => return None,
    };
    Some(by_model(row, model))
}

type Change = fn(Dialect) -> Dialect;

/// Row, beginnings of model names, what is different for those.
const BY_MODEL: [(&str, &[&str], Change); 6] = [
    // The first generation that thought refuses to be shown its thoughts.
    ("deepseek", &["deepseek-reasoner", "deepseek-r1"], |row| Dialect {
        reasoning_replay: ReasoningReplay::None,
        thinking: Thinking::None,
        ..row
    }),
    // The second wants them back where there were some, and takes no empty ones.
    ("deepseek", &["deepseek-v3"], |row| Dialect { reasoning_replay: ReasoningReplay::All, ..row }),
    ("openai", &["o1", "o3", "o4", "gpt-5-", "gpt-6"], without_sampling),
    ("azure", &["o1", "o3", "o4", "gpt-5-", "gpt-6"], without_sampling),
    ("openai", &["o3", "o4"], without_stop),
    ("azure", &["o3", "o4"], without_stop),
];

fn by_model(row: Dialect, model: &str) -> Dialect {
    let known = BY_MODEL.iter().filter(|(name, models, _)| {
        *name == row.name
            && models.iter().any(|start| model.starts_with(start) || model == start.trim_end_matches('-'))
    });
    known.fold(row.clone(), |row, (_, _, change)| change(row))
}

/// Models that reason sample as they see fit.
fn without_sampling(mut row: Dialect) -> Dialect {
    let names = [
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "presence_penalty",
        "temperature",
        "top_logprobs",
        "top_p",
    ];
    row.refused.extend(words(&names));
    row
}

fn without_stop(mut row: Dialect) -> Dialect {
    row.refused.push("stop".to_owned());
    row
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_name_has_a_row_and_no_other() {
        for name in NAMES {
            assert_eq!(row(name, "").unwrap().name, name);
        }
        assert_eq!(row("klingon", ""), None);
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn generations_of_deepseek_take_their_thoughts_differently() {
        let replay = |model: &str| row("deepseek", model).unwrap().reasoning_replay;
        assert_eq!(replay("deepseek-reasoner"), ReasoningReplay::None);
        assert_eq!(replay("deepseek-v3.2"), ReasoningReplay::All);
        assert_eq!(replay("deepseek-v4-pro"), ReasoningReplay::AllWithEmpty);
        assert_eq!(replay("deepseek-flash"), ReasoningReplay::AllWithEmpty);
    }

    #[test]
    fn models_that_reason_refuse_sampling() {
        let refused = |model: &str| row("openai", model).unwrap().refused.join(" ");
        assert!(refused("o3").contains("temperature") && refused("o3").ends_with("stop"));
        assert!(refused("gpt-5").contains("top_p") && refused("gpt-5-mini").contains("top_p"));
        assert_eq!(refused("gpt-5.4") + &refused("gpt-4o"), "");
    }
}
