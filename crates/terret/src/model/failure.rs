//! From a provider's words to one of our classes.
//!
//! Text beats status for credit and for overflow, status beats the body's own `type` for everything else:
//! servers put `invalid_request_error` on wrong keys and empty accounts alike.

use terret_core::chunk::{Failure, code};

use super::payload::ErrorWords;
use super::retry_hint::{Headers, delay_ms, should_retry};
use crate::limits::MAX_FAILURE_RAW_BYTES;
use crate::limits::MAX_RETRY_HINT_MS;

/// Whether the same request, sent again, may fare better. Limits and counts are the policy's.
pub fn retryable(code: &str) -> bool {
    matches!(
        code,
        code::RATE_LIMIT
            | code::OVERLOADED
            | code::SERVER
            | code::TIMEOUT
            | code::TRANSPORT
            | code::STREAM_CLOSED
            | code::MALFORMED_RESPONSE
            | code::EMPTY_RESPONSE
    )
}

/// The failure a response with a bad status stands for. `now_unix_s` is needed for dates in headers.
pub fn from_http(
    status: u16,
    headers: Headers<'_>,
    body: &[u8],
    now_unix_s: f64,
    secret: Secret<'_>,
) -> Failure {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let words = ErrorWords::from_body(text);
    let words = words.unwrap_or_else(|| ErrorWords::sentence(page_title(text)));
    let class = overruled(classify(Some(status), &words), should_retry(headers));
    let mut failure = Failure::new(class, http_message(status, text, &words));
    failure.status = Some(status);
    failure.request_id = headers.request_id();
    if retryable(&failure.code) {
        failure.retry_after_ms =
            delay_ms(headers, status, now_unix_s).or_else(|| words.delay_ms()).filter(|ms| *ms > 0);
    }
    if let Some(ms) = failure.retry_after_ms.filter(|ms| *ms > MAX_RETRY_HINT_MS) {
        failure
            .message
            .push_str(&format!("; the server asks to wait {} s before the next request", ms / 1000));
    }
    with_raw(failure, text, secret)
}

/// The class, after the server's own word on trying again: a failure carries no such word to the policies. Where
/// the words of the failure say that the same request cannot fare better, the server's `true` changes nothing.
fn overruled(class: &'static str, again: Option<bool>) -> &'static str {
    match again {
        Some(true) if matches!(class, code::INVALID_REQUEST | code::NOT_FOUND | code::PROVIDER_ERROR) => {
            code::SERVER
        }
        Some(false) if retryable(class) => code::PROVIDER_ERROR,
        Some(_) | None => class,
    }
}

/// The failure an error inside a stream stands for.
pub fn from_words(words: &ErrorWords, raw: &str, secret: Secret<'_>) -> Failure {
    let message = match words.message.as_str() {
        "" => format!("the provider reports an error without a message: {}", cut(raw, 200)),
        message => message.to_owned(),
    };
    let mut failure = Failure::new(classify(None, words), message);
    failure.status = words.status();
    if retryable(&failure.code) {
        failure.retry_after_ms = words.delay_ms();
    }
    with_raw(failure, raw, secret)
}

/// The failure a payload of a stream stands for that is an error.
pub fn in_stream(data: &str, secret: Secret<'_>) -> Failure {
    let value: Option<serde_json::Value> = serde_json::from_str(data).ok();
    let words = value
        .as_ref()
        .and_then(|value| ErrorWords::from_envelope(value).or_else(|| ErrorWords::from_bare(value)));
    let words = words.unwrap_or_else(|| ErrorWords::sentence(cut(data, 200)));
    let mut failure = from_words(&words, data, secret);
    let id = value.as_ref().and_then(|value| value.get("request_id")?.as_str());
    failure.request_id = id.map(str::to_owned);
    failure
}

/// The failure of a payload of a stream that is none of its protocol's.
pub fn malformed(what: String, data: &str, secret: Secret<'_>) -> Failure {
    with_raw(Failure::new(code::MALFORMED_RESPONSE, what), data, secret)
}

/// A failure whose evidence is `raw`: cut to what a log can carry, keys masked.
pub fn with_raw(mut failure: Failure, raw: &str, secret: Secret<'_>) -> Failure {
    failure.message = secret.mask(&failure.message);
    if !raw.is_empty() {
        // Masked before it is cut: half a key is a secret too.
        failure.raw = Some(cut(&secret.mask(raw), MAX_FAILURE_RAW_BYTES).to_owned());
    }
    failure
}

/// The class of what a provider said. `status` is that of the response; a numeric code inside the body stands
/// in for it where there is none.
pub fn classify(status: Option<u16>, words: &ErrorWords) -> &'static str {
    let status = status.filter(|status| *status >= 400).or_else(|| words.status()).unwrap_or(0);
    let message = words.message.to_lowercase();
    let names = [words.code.to_lowercase(), words.kind.to_lowercase()];
    if let Some((_, class)) = EXACT_CODES.iter().find(|(code, _)| *code == names[0]) {
        return class;
    }
    let named = |list: &[&str]| names.iter().any(|name| list.contains(&name.as_str()));
    let says = |list: &[&str]| list.iter().any(|part| message.contains(part));

    let rate = named(RATE_NAMES)
        || names.iter().any(|name| name.starts_with("rate_limit") || name.starts_with("throttling"))
        || says(RATE_WORDS);
    if named(QUOTA_NAMES) || says(QUOTA_WORDS) {
        code::QUOTA
    } else if (named(OVERFLOW_NAMES) || is_overflow(&message))
        && !rate
        && !named(&["string_above_max_length"])
    {
        code::CONTEXT_WINDOW_EXCEEDED
    } else if status == 529 || named(OVERLOADED_NAMES) || says(&["overloaded"]) {
        code::OVERLOADED
    } else if named(FILTER_NAMES) || says(FILTER_WORDS) {
        code::CONTENT_FILTER
    } else if matches!(status, 401 | 407) || named(AUTH_NAMES) || says(AUTH_WORDS) {
        code::AUTH
    } else if status == 403 || named(&["permission_error", "permission_denied", "forbidden"]) {
        code::PERMISSION
    } else if status == 402 {
        code::QUOTA
    } else if status == 404 || named(NOT_FOUND_NAMES) {
        code::NOT_FOUND
    } else if status == 413 || named(&["request_too_large", "payload_too_large"]) {
        code::REQUEST_TOO_LARGE
    } else if status == 429 || rate {
        code::RATE_LIMIT
    } else if matches!(status, 408 | 504 | 524) || named(TIMEOUT_NAMES) {
        code::TIMEOUT
    } else if matches!(status, 409 | 425 | 500 | 502..) || named(SERVER_NAMES) || says(SERVER_WORDS) {
        // 501 is a server that will never do what is asked.
        code::SERVER
    } else if status >= 400 || named(INVALID_NAMES) {
        code::INVALID_REQUEST
    } else {
        code::PROVIDER_ERROR
    }
}

/// Codes that say it all, whatever the status and the words beside them.
const EXACT_CODES: &[(&str, &str)] = &[
    ("enforced_spend_limit_reached", code::QUOTA),
    ("contract_spend_limit_reached", code::QUOTA),
    ("linked_organization_spend_limit_reached", code::QUOTA),
    ("ramp_limit_exceeded", code::RATE_LIMIT),
    ("organization_on_hold", code::PERMISSION),
    ("request_body_too_large_after_decoding", code::REQUEST_TOO_LARGE),
];
const QUOTA_NAMES: &[&str] =
    &["insufficient_quota", "payment_required", "billing_error", "billing_hard_limit_reached"];
const QUOTA_WORDS: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient credit",
    "insufficient funds",
    "credit balance",
    "out of credits",
    "billing hard limit",
    "billing limit",
    "spend limit",
    "spending limit",
];
const RATE_NAMES: &[&str] = &["resource_exhausted", "too_many_requests"];
const RATE_WORDS: &[&str] = &["rate limit", "rate_limit", "too many requests", "tokens per min", "throttl"];
const OVERFLOW_NAMES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "max_tokens_exceeded",
    "token_limit_exceeded",
    "1261",
    "3051",
];
const OVERFLOW_WORDS: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "exceeds the context window",
    "maximum context length",
    "context window exceeded",
    "context window exceeds limit",
    "exceeds the available context size",
    "greater than the context length",
    "maximum prompt length is",
    "reduce the length of the messages",
    "longer than the model's context length",
    "exceeded model token limit",
    "range of input length should be",
    "input is too long for requested model",
    "exceeds maximum allowed input length",
    "exceed context limit",
];
const OVERLOADED_NAMES: &[&str] = &[
    "overloaded_error",
    "overloaded",
    "provider_overloaded",
    "server_overloaded",
    "insufficient_system_resource",
];
const FILTER_NAMES: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "bio_policy",
    "misalignment_policy_violation",
];
const FILTER_WORDS: &[&str] = &["content management policy", "content exists risk", "content policy"];
const AUTH_NAMES: &[&str] = &["invalid_api_key", "authentication_error", "authentication", "unauthenticated"];
const AUTH_WORDS: &[&str] =
    &["incorrect api key", "invalid api key", "api key not valid", "invalid_api_key", "authentication fails"];
const NOT_FOUND_NAMES: &[&str] = &["not_found", "not_found_error", "notfounderror", "model_not_found"];
const TIMEOUT_NAMES: &[&str] =
    &["timeout", "timeout_error", "request_timeout", "deadline_exceeded", "vector_store_timeout"];
const SERVER_NAMES: &[&str] = &[
    "server",
    "server_error",
    "internal_error",
    "internal_server_error",
    "internalservererror",
    "api_error",
    "provider_unavailable",
    "service_unavailable",
    "service_unavailable_error",
    "unavailable",
    "network_error",
    "slow_down",
];
const SERVER_WORDS: &[&str] = &[
    "the server had an error",
    "internal server error",
    "loading model",
    "bad gateway",
    "service unavailable",
];
const INVALID_NAMES: &[&str] = &[
    "invalid_request_error",
    "invalid_request",
    "invalid_prompt",
    "invalid_argument",
    "invalid_image",
    "data_residency_mismatch",
    "unprocessable",
];

fn is_overflow(message: &str) -> bool {
    let both = |a: &str, b: &str| message.find(a).is_some_and(|at| message[at..].contains(b));
    OVERFLOW_WORDS.iter().any(|part| message.contains(part))
        || both("input token count", "exceeds the maximum")
        || both("too large for model with", "maximum context length")
}

fn http_message(status: u16, text: &str, words: &ErrorWords) -> String {
    let code = if words.code.is_empty() { &words.kind } else { &words.code };
    let code = if code.is_empty() { String::new() } else { format!(", {code}") };
    match words.message.as_str() {
        _ if (300..400).contains(&status) => {
            format!("the server redirects (HTTP {status}); redirects are not followed: check the base URL")
        }
        _ if status == 407 => {
            "the proxy lets nobody through without a user and a password (HTTP 407)".to_owned()
        }
        "" if text.is_empty() => format!("HTTP {status} with an empty body"),
        "" => format!("HTTP {status}: {}", cut(text, 200)),
        message => format!("{message} (HTTP {status}{code})"),
    }
}

/// The title of an HTML page, which is all a person wants of it.
fn page_title(text: &str) -> String {
    let title = text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map(|(title, _)| title.trim().to_owned()).unwrap_or_default()
}

/// The longest prefix of at most `limit_bytes` that ends between characters.
pub fn cut(text: &str, limit_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(limit_bytes)]
}

/// What must never be written down: the secrets in use, one a line (no header takes a newline), and whatever
/// looks like one.
#[derive(Clone, Copy, Default)]
pub struct Secret<'a>(pub Option<&'a str>);

impl Secret<'_> {
    /// The text without keys.
    pub fn mask(self, text: &str) -> String {
        let mut masked = without_userinfo(text);
        // A short key would match ordinary text; it is a placeholder of a local server.
        for key in self.0.into_iter().flat_map(str::lines).filter(|key| key.len() >= 8) {
            masked = masked.replace(key, "***");
        }
        for (prefix, least) in [("Bearer ", 8), ("bearer ", 8), ("sk-", 16)] {
            masked = mask_after(&masked, prefix, least);
        }
        masked
    }
}

/// The text with `user:password@` and the values of queries taken out of the URLs in it: both carry keys.
pub fn without_userinfo(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '`' | '<' | '>');
        let authority = &tail[..tail.find(ends).unwrap_or(tail.len())];
        shown.push_str(head);
        let tail = &tail[authority.rfind('@').map_or(0, |at| at + 1)..];
        let over = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | ',');
        let url = &tail[..tail.find(over).unwrap_or(tail.len())];
        shown.push_str(&without_values(url));
        rest = &tail[url.len()..];
    }
    shown.push_str(rest);
    shown
}

/// A URL whose query names its parameters and not their values.
fn without_values(url: &str) -> String {
    let Some((front, query)) = url.split_once('?') else { return url.to_owned() };
    let shown = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}=***"),
        None => pair.to_owned(),
    });
    format!("{front}?{}", shown.collect::<Vec<_>>().join("&"))
}

/// Replaces what follows `prefix` if it is a token of at least `least` characters.
fn mask_after(text: &str, prefix: &str, least: usize) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (head, tail) = rest.split_at(at + prefix.len());
        let token =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '+' | '/' | '=');
        let end = tail.find(|c| !token(c)).unwrap_or(tail.len());
        masked.push_str(head);
        masked.push_str(if end >= least { "***" } else { &tail[..end] });
        rest = &tail[end..];
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::{Secret, cut, without_userinfo};

    #[test]
    fn keys_are_masked() {
        let secret = Secret(Some("local-key-0001"));
        assert_eq!(
            secret
                .mask("bad key local-key-0001; Authorization: Bearer abcdefgh123; sk-proj-abcdefghijklmnop"),
            "bad key ***; Authorization: Bearer ***; sk-***"
        );
        assert_eq!(Secret(Some("none")).mask("none of sk-it Bearer x"), "none of sk-it Bearer x");
        let several = Secret(Some("local-key-0001\nheader-value-2"));
        assert_eq!(several.mask("header-value-2 and local-key-0001"), "*** and ***");
    }

    #[test]
    fn urls_are_shown_without_their_user() {
        for (url, shown) in [
            ("http://me:pa@ss@host:1/v1", "http://host:1/v1"),
            (
                "at http://me@a/x@y and https://b?q=c@d, `http://u:p@c`",
                "at http://a/x@y and https://b?q=***, `http://c`",
            ),
            ("ftp://me:secret@", "ftp://"),
            ("me@host ://", "me@host ://"),
        ] {
            assert_eq!(without_userinfo(url), shown);
        }
    }

    #[test]
    fn a_cut_ends_between_characters() {
        assert_eq!(cut("aéb", 2), "a");
        assert_eq!(cut("aéb", 3), "aé");
        assert_eq!(cut("a", 10), "a");
    }
}
