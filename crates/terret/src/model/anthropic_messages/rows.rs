//! The table of servers that speak messages, and that of the models that differ.

use std::borrow::ToOwned;

use super::dialect::{Dialect, Images, Thinking};

/// Names of all rows.
pub const NAMES: [&str; 4] = ["anthropic", "deepseek", "generic", "llamacpp"];

/// What stands for every column a stored row does not have. It never changes: rows of old logs rest on it.
pub(super) static CAREFUL: Dialect = Dialect {
    name: String::new(),
    version: String::new(),
    thinking: Thinking::None,
    effort: false,
    unsigned_thinking: false,
    structured_output: false,
    cache_control: false,
    images: Images::Placeholder,
    refused: Vec::new(),
};

/// The row of this name, as it is for this model; `None` for a name without a row.
pub(super) fn row(name: &str, model: &str) -> Option<Dialect> {
    let base = Dialect {
        name: name.to_owned(),
        // What servers know that speak the protocol without being its owner's.
        version: "2023-06-01".to_owned(),
        thinking: Thinking::Budget,
        ..CAREFUL.clone()
    };
    let marked = Dialect { cache_control: true, images: Images::Send, ..base.clone() };
    Some(match name {
        "anthropic" => {
            let refused = ["temperature", "top_k", "top_p"].map(ToOwned::to_owned).to_vec();
            of_model(Dialect { version: "2026-10-21".to_owned(), refused, ..marked }, model)
        }
        "generic" if model.contains("claude-") => of_model(marked, model),
        "generic" => marked,
        // Counts no budget, caches by itself, and takes no pictures here.
        "deepseek" => Dialect { effort: true, ..base },
        // Signs nothing, and caches what it saw last.
        "llamacpp" => Dialect { unsigned_thinking: true, ..base },
        _ => return None,
    })
}

/// The row with what is known of the model put over it: a router's `vendor/model` counts by its last part, the longest
/// known prefix wins.
fn of_model(row: Dialect, model: &str) -> Dialect {
    let name = model.rsplit('/').next().unwrap_or(model);
    let known = MODELS.iter().filter(|(prefix, ..)| name.starts_with(prefix));
    let newest = ("", Thinking::Adaptive, true, &[][..]);
    let (_, thinking, takes_config, refuses) =
        *known.max_by_key(|(prefix, ..)| prefix.len()).unwrap_or(&newest);
    let refused = row.refused.into_iter().chain(refuses.iter().map(|word| (*word).to_owned())).collect();
    Dialect { thinking, effort: takes_config, structured_output: takes_config, refused, ..row }
}

const ALWAYS: &str = "reasoning_effort=none";
const UNFORCED: [&str; 3] = [ALWAYS, "tool_choice=any", "tool_choice=required"];

/// Prefix of the name, how it thinks, whether it takes `output_config`, what it refuses beside. A model nobody knows is
/// taken for a new one.
const MODELS: [(&str, Thinking, bool, &[&str]); 11] = [
    ("claude-sonnet-5-5", Thinking::Adaptive, true, &UNFORCED),
    ("claude-opus-5-5", Thinking::Adaptive, true, &UNFORCED),
    ("claude-fable-5", Thinking::Adaptive, true, &[ALWAYS]),
    ("claude-fable-5-1", Thinking::Adaptive, true, &UNFORCED),
    ("claude-opus-4", Thinking::Budget, false, &[]),
    ("claude-opus-4-6", Thinking::Adaptive, true, &[]),
    ("claude-opus-4-7", Thinking::Adaptive, true, &[]),
    ("claude-opus-4-8", Thinking::Adaptive, true, &[]),
    ("claude-sonnet-4", Thinking::Budget, false, &[]),
    ("claude-sonnet-4-6", Thinking::Adaptive, true, &[]),
    ("claude-haiku-4", Thinking::Budget, false, &[]),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{NAMES, row};
    use crate::model::anthropic_messages::dialect::{Dialect, Thinking};
    use terret_core::raw::Raw;

    #[test]
    fn every_row_survives_the_header() {
        for name in NAMES {
            let row = row(name, "m").unwrap();
            assert_eq!(Dialect::from_raw(&Raw::from_value(&row).unwrap()).unwrap(), row);
        }
        assert_eq!(row("klingon", "m"), None);
        let short = Dialect::from_raw(&Raw::parse(r#"{"effort":true,"later":1}"#).unwrap()).unwrap();
        assert_eq!(short, Dialect { effort: true, ..Dialect::default() });
    }

    #[test]
    fn the_longest_known_prefix_of_a_model_wins() {
        let of = |name: &str, model: &str| {
            let row = row(name, model).unwrap();
            (row.thinking, row.effort, row.refused.join(" "))
        };
        let plain = "temperature top_k top_p";
        let none = "temperature top_k top_p reasoning_effort=none";
        let forced = format!("{none} tool_choice=any tool_choice=required");
        for (model, thinking, effort, refused) in [
            ("claude-opus-4-1-20250805", Thinking::Budget, false, plain),
            ("claude-opus-4-6", Thinking::Adaptive, true, plain),
            ("claude-haiku-4-5", Thinking::Budget, false, plain),
            ("claude-haiku-5-5", Thinking::Adaptive, true, plain),
            ("claude-opus-5", Thinking::Adaptive, true, plain),
            ("claude-sonnet-5-5", Thinking::Adaptive, true, &forced),
            ("claude-fable-5", Thinking::Adaptive, true, none),
            ("claude-fable-5-1", Thinking::Adaptive, true, &forced),
            ("claude-z", Thinking::Adaptive, true, plain),
        ] {
            assert_eq!(of("anthropic", model), (thinking, effort, refused.to_owned()), "{model}");
        }
        assert_eq!(of("generic", "anthropic/claude-sonnet-5"), (Thinking::Adaptive, true, String::new()));
        assert_eq!(of("generic", "MiniMax-M3"), (Thinking::Budget, false, String::new()));
    }
}
