//! Token counts of a response, sorted into disjoint classes.

use serde::Deserialize;
use terret_core::chunk::Usage;
use terret_core::raw::Raw;

#[derive(Deserialize)]
struct Counts {
    input_tokens: Option<u64>,
    input_tokens_details: Option<Input>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<Output>,
}

#[derive(Deserialize)]
struct Input {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Output {
    reasoning_tokens: Option<u64>,
}

/// Reads a `usage` object; `None` if it is none. The wire's input counts what the cache gave and took.
pub(super) fn read(raw: &str) -> Option<Usage> {
    let counts: Counts = serde_json::from_str(raw).ok()?;
    let (read, written) = match counts.input_tokens_details {
        Some(input) => (input.cached_tokens, input.cache_write_tokens),
        None => (None, None),
    };
    let cached = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
    Some(Usage {
        input_tokens: counts.input_tokens.unwrap_or(0).saturating_sub(cached),
        cache_read_tokens: read,
        cache_write_tokens: written,
        output_tokens: counts.output_tokens.unwrap_or(0),
        reasoning_tokens: counts.output_tokens_details.and_then(|output| output.reasoning_tokens),
        raw: Raw::parse(raw).ok(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::read;

    #[test]
    fn classes_are_disjoint_and_absent_ones_stay_absent() {
        let usage = read(
            r#"{"input_tokens":10,"input_tokens_details":{"cached_tokens":7,"cache_write_tokens":9},
            "output_tokens":5,"output_tokens_details":null}"#,
        )
        .unwrap();
        assert_eq!(
            (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens),
            (0, Some(7), Some(9))
        );
        assert_eq!((usage.output_tokens, usage.reasoning_tokens), (5, None));
        assert_eq!(read(r#"{"input_tokens":3}"#).unwrap().cache_read_tokens, None);
        assert_eq!(read("[]"), None);
    }
}
