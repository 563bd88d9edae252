//! Every known error text in its class, every header hint in its delay.

use std::path::Path;

use serde::Deserialize;
use std::collections::BTreeMap;
use terret::core::chunk::code;
use terret::hook::{FailedAttempt, Plugin, Recovery, Seams, Trace};
use terret::model::failure::{Secret, classify, from_http, retryable};
use terret::model::payload::ErrorWords;
use terret::model::retry_hint::{Headers, go_duration_ms};
use terret::policy::Retry;

fn read<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[derive(Deserialize)]
struct ErrorCase {
    provider: String,
    status: u16,
    code: String,
    message: String,
    class: String,
}

#[test]
fn every_known_error_text_has_its_class() {
    let cases: Vec<ErrorCase> = read("error-strings.json");
    assert!(cases.len() >= 34);
    for case in cases {
        let body = serde_json::json!({"error": {"code": case.code, "message": case.message}}).to_string();
        let words = ErrorWords::from_body(&body).unwrap();
        assert_eq!(classify(Some(case.status), &words), case.class, "{}: {}", case.provider, case.message);
        let body = serde_json::json!({"error": {"type": case.code, "message": case.message}}).to_string();
        let words = ErrorWords::from_body(&body).unwrap();
        assert_eq!(classify(Some(case.status), &words), case.class, "as a type: {}", case.message);
    }
}

#[derive(Deserialize)]
struct RetryCases {
    now_unix: f64,
    cases: Vec<RetryCase>,
    x_ratelimit_reset_durations: BTreeMap<String, Option<f64>>,
}

#[derive(Deserialize)]
struct RetryCase {
    name: String,
    status: u16,
    headers: BTreeMap<String, String>,
    delay_ms: Option<u64>,
    retry: bool,
}

/// What the policy makes of a failure: how long it waits, or that it gives up.
async fn waits(failure: terret::core::chunk::Failure) -> Option<u64> {
    let agent = terret::testing::scripted("say hi").unwrap().create(None).await.unwrap();
    let (_, stop) = tokio::sync::watch::channel(false);
    let agent = agent.handle().clone();
    let failed = FailedAttempt { agent, turn: 1, step: 1, attempt: 1, failure, retried: Vec::new(), stop };
    let mut seams = Seams::default();
    Retry::default().install(&mut seams);
    let give_up = |_| futures_util::FutureExt::boxed(std::future::ready(Ok(Recovery::GiveUp)));
    match seams.request_error.ask(failed, &Trace::default(), give_up).await.unwrap() {
        Recovery::Retry { delay_ms, .. } => Some(delay_ms),
        Recovery::GiveUp => None,
    }
}

#[tokio::test]
async fn every_header_hint_is_understood() {
    let file: RetryCases = read("retry-headers.json");
    assert!(file.cases.len() >= 34);
    for case in file.cases {
        let get = |name: &str| case.headers.get(name).cloned();
        let failure = from_http(case.status, Headers(&get), b"", file.now_unix, Secret(None));
        if retryable(&failure.code) {
            assert_eq!(failure.retry_after_ms, case.delay_ms, "{}", case.name);
        }
        let waited = waits(failure).await;
        assert_eq!(waited.is_some(), case.retry, "{}", case.name);
        if let (Some(waited), Some(asked)) = (waited, case.delay_ms) {
            assert_eq!(waited, asked, "{}", case.name);
        }
    }
    for (text, expected) in file.x_ratelimit_reset_durations {
        assert_eq!(go_duration_ms(&text), expected, "{text}");
    }
}

#[test]
fn the_servers_word_on_trying_again_decides_where_ours_is_a_guess() {
    let class = |status, word: &'static str, body: &str| {
        let get = move |name: &str| (name == "x-should-retry").then(|| word.to_owned());
        from_http(status, Headers(&get), body.as_bytes(), 0.0, Secret(None)).code
    };
    assert_eq!(class(429, "false", ""), code::PROVIDER_ERROR);
    assert_eq!(class(429, "true", ""), code::RATE_LIMIT);
    assert_eq!(class(429, "perhaps", ""), code::RATE_LIMIT);
    assert_eq!(class(404, "true", ""), code::SERVER);
    assert_eq!(class(401, "true", ""), code::AUTH, "the same key is no better the next time");
    let overflow = r#"{"error":{"message":"prompt is too long","code":""}}"#;
    assert_eq!(class(400, "true", overflow), code::CONTEXT_WINDOW_EXCEEDED, "asking less is what helps");
}

#[test]
fn a_used_up_window_is_the_last_resort() {
    let headers = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1.96s")];
    let get = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let failure = from_http(429, Headers(&get), b"", 0.0, Secret(None));
    assert_eq!(failure.retry_after_ms, Some(1960));
}

#[test]
fn bodies_of_every_shape_make_a_message() {
    let get = |name: &str| (name == "x-request-id").then(|| "req-1".to_owned());
    let failure = |status, body: &str| {
        from_http(status, Headers(&get), body.as_bytes(), 0.0, Secret(Some("key-12345678")))
    };
    assert_eq!(failure(500, "").message, "HTTP 500 with an empty body");
    assert_eq!(failure(502, "<html><title>502 Bad Gateway</title>").message, "502 Bad Gateway (HTTP 502)");
    assert_eq!(failure(500, "boo").message, "HTTP 500: boo");
    let echo = failure(401, r#"{"error":{"message":"wrong key key-12345678","code":"invalid_api_key"}}"#);
    assert_eq!(echo.message, "wrong key *** (HTTP 401, invalid_api_key)");
    assert_eq!(echo.code, code::AUTH);
    assert_eq!(echo.request_id.as_deref(), Some("req-1"));
    assert!(!format!("{echo:?}").contains("12345678"));
    let long = failure(500, &"é".repeat(5_000));
    assert_eq!(long.raw.map(|raw| raw.len()), Some(2048));
    let moved = failure(301, "");
    assert!(moved.message.contains("redirects are not followed"), "{}", moved.message);
}

#[test]
fn the_order_of_the_tests_decides_what_words_alone_cannot() {
    let class = |status, code: &str, message: &str| {
        let body = serde_json::json!({"error": {"code": code, "message": message}}).to_string();
        classify(status, &ErrorWords::from_body(&body).unwrap())
    };
    let limit = "Rate limit reached. Please reduce the length of the messages.";
    assert_eq!(class(Some(429), "", limit), code::RATE_LIMIT, "not an overflow");
    assert_eq!(class(Some(402), "invalid_request_error", ""), code::QUOTA, "status beats the body's word");
    assert_eq!(class(Some(503), "", "The model is overloaded."), code::OVERLOADED);
    assert_eq!(class(Some(400), "", "API key not valid. Please pass a valid API key."), code::AUTH);
    assert_eq!(class(Some(501), "", "no"), code::INVALID_REQUEST);
    assert_eq!(class(None, "503", "no"), code::SERVER, "a numeric code stands in for a status");
    assert_eq!(class(Some(200), "429", "no"), code::RATE_LIMIT);
    assert_eq!(class(None, "", "hm"), code::PROVIDER_ERROR);
}

#[test]
fn anthropics_exact_code_beats_status_type_and_words() {
    let get = |name: &str| (name == "request-id").then(|| "req_1".to_owned());
    for (status, kind, exact, class) in [
        (429, "rate_limit_error", "enforced_spend_limit_reached", code::QUOTA),
        (429, "rate_limit_error", "contract_spend_limit_reached", code::QUOTA),
        (429, "rate_limit_error", "linked_organization_spend_limit_reached", code::QUOTA),
        (429, "rate_limit_error", "ramp_limit_exceeded", code::RATE_LIMIT),
        (400, "invalid_request_error", "organization_on_hold", code::PERMISSION),
        (400, "invalid_request_error", "request_body_too_large_after_decoding", code::REQUEST_TOO_LARGE),
        (429, "rate_limit_error", "something_new", code::RATE_LIMIT),
    ] {
        let error = serde_json::json!({
            "type": kind, "message": "You reached your spend rate.", "details": {"error_code": exact}
        });
        let body = serde_json::json!({"type": "error", "error": error, "request_id": "req_1"}).to_string();
        let failure = from_http(status, Headers(&get), body.as_bytes(), 0.0, Secret(None));
        assert_eq!((failure.code.as_str(), failure.request_id.as_deref()), (class, Some("req_1")), "{exact}");
    }
}
