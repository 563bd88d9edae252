//! The little we know of models by name: their window, and how much they may say at once.
//!
//! Only families whose numbers are published; a local server knows its own limits best and is not second-guessed.

use crate::limits::DEFAULT_MAX_OUTPUT_TOKENS;

/// Limits of a family of models, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Input and output together.
    pub context_window: u64,
    /// The most it says in one answer.
    pub max_output_tokens: u64,
}

impl Model {
    /// What to ask for where nobody says otherwise.
    pub fn default_output_tokens(self) -> u64 {
        self.max_output_tokens.min(DEFAULT_MAX_OUTPUT_TOKENS)
    }
}

/// Limits by model name; a router's `vendor/model` counts by its last part, the longest known prefix wins.
pub fn find(model: &str) -> Option<Model> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let known = FAMILIES.iter().filter(|(prefix, _, _)| name.starts_with(prefix));
    let (_, context_window, max_output_tokens) = *known.max_by_key(|(prefix, _, _)| prefix.len())?;
    Some(Model { context_window, max_output_tokens })
}

/// Prefix of the name, window, largest output.
const FAMILIES: [(&str, u64, u64); 16] = [
    ("gpt-4o", 128_000, 16_384),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-5", 400_000, 128_000),
    ("gpt-5.4", 1_050_000, 128_000),
    ("gpt-5.5", 1_050_000, 128_000),
    ("gpt-5.6", 1_050_000, 128_000),
    ("gpt-6", 1_050_000, 128_000),
    ("o3", 200_000, 100_000),
    ("o4-mini", 200_000, 100_000),
    ("deepseek-flash", 1_000_000, 384_000),
    ("deepseek-v4", 1_000_000, 384_000),
    ("gemini-2.5", 1_048_576, 65_536),
    ("gemini-3", 1_048_576, 65_536),
    ("claude-", 200_000, 64_000),
    ("kimi-k3", 1_000_000, 64_000),
    ("glm-5", 1_000_000, 131_000),
];

#[cfg(test)]
mod tests {
    use super::{Model, find};

    #[test]
    fn the_longest_prefix_wins_and_routers_are_seen_through() {
        assert_eq!(
            find("gpt-5.6-sol"),
            Some(Model { context_window: 1_050_000, max_output_tokens: 128_000 })
        );
        assert_eq!(find("gpt-5-mini").map(|m| m.context_window), Some(400_000));
        assert_eq!(find("openai/gpt-4o-mini").map(Model::default_output_tokens), Some(16_384));
        assert_eq!(find("qwen3:8b"), None);
    }
}
