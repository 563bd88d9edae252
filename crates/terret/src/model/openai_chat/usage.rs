//! Token counts of a chat response, sorted into disjoint classes.

use serde_json::Value;
use terret_core::chunk::Usage;
use terret_core::raw::Raw;

/// Reads a `usage` object; `None` if it is none.
pub(super) fn read(raw: &str) -> Option<Usage> {
    let value: Value = serde_json::from_str(raw).ok()?;
    value.as_object()?;
    let prompt = count(&value, &["prompt_tokens"]).unwrap_or(0);
    let completion = count(&value, &["completion_tokens"]).unwrap_or(0);
    let cache_read = count(&value, &["prompt_tokens_details", "cached_tokens"])
        .or_else(|| count(&value, &["prompt_cache_hit_tokens"]))
        .or_else(|| count(&value, &["cached_tokens"]));
    let cache_write = count(&value, &["prompt_tokens_details", "cache_write_tokens"]);
    let reasoning = count(&value, &["completion_tokens_details", "reasoning_tokens"]);
    let thought = reasoning.unwrap_or(0);
    // xAI leaves reasoning out of `completion_tokens`; the total gives it away.
    let apart = thought > 0
        && count(&value, &["total_tokens"])
            == prompt.checked_add(completion).and_then(|sum| sum.checked_add(thought));
    Some(Usage {
        input_tokens: prompt.saturating_sub(cache_read.unwrap_or(0)).saturating_sub(cache_write.unwrap_or(0)),
        cache_read_tokens: cache_read,
        cache_write_tokens: cache_write,
        output_tokens: if apart { completion.saturating_add(thought) } else { completion },
        reasoning_tokens: reasoning,
        raw: Raw::parse(raw).ok(),
    })
}

fn count(value: &Value, path: &[&str]) -> Option<u64> {
    let found = path.iter().try_fold(value, |value, key| value.get(key))?;
    found.as_u64().or_else(|| found.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::read;

    #[test]
    fn reasoning_counted_apart_is_added() {
        let xai = r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,
            "completion_tokens_details":{"reasoning_tokens":7}}"#;
        assert_eq!(read(xai).unwrap().output_tokens, 12);
        let openai = xai.replace("22", "15");
        assert_eq!(read(&openai).unwrap().output_tokens, 5);
    }

    #[test]
    fn odd_numbers_do_no_harm() {
        let usage = read(r#"{"prompt_tokens":3.0,"completion_tokens":null,"cached_tokens":9}"#).unwrap();
        assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.output_tokens), (0, Some(9), 0));
        assert_eq!(read("null"), None);
        assert_eq!(read("[]"), None);
    }
}
