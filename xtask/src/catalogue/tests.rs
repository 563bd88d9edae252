#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::decimal::decimal;
use super::derive::models;
use super::packages::Sources;
use super::{day, form};

#[test]
fn prices_are_the_decimals_that_were_meant() {
    let at = |text: &str, shift| decimal(&serde_json::from_str::<Value>(text).unwrap(), shift);
    for (text, shift, price) in [
        ("1.25", 0, "1.25"),
        ("0", 0, "0"),
        ("30", 0, "30"),
        ("1.25e-07", 6, "0.125"),
        ("5E-6", 6, "5"),
        ("3.7e-08", 6, "0.037"),
        // Noise of a binary fraction.
        ("2.9999900000000002e-06", 6, "2.99999"),
        ("0.30000000000000004", 0, "0.3"),
    ] {
        assert_eq!(at(text, shift).as_deref(), Some(price), "{text}");
    }
    assert_eq!(at("\"1\"", 0), None);
    assert_eq!(at("-1", 0), None);
    assert_eq!(at("null", 0), None);
}

#[test]
fn days_are_those_of_the_calendar() {
    let known = [(0, "1970-01-01"), (58, "1970-02-28"), (11_016, "2000-02-29"), (20_787, "2026-11-30")];
    assert_eq!(known.map(|(days, _)| day(days)), known.map(|(_, date)| date.to_owned()));
    assert_eq!(day(20_818), "2026-12-31");
}

fn derived(id: &str, cost: Value, other: Value) -> Value {
    let model = json!({
        "type": "chat", "id": id, "contextWindow": 400_000, "maxTokens": 128_000, "input": ["text", "image"],
        "reasoning": true, "cost": cost,
        "thinkingLevelMap": {"off": "none", "low": null, "high": "HIGH", "max": "max"},
    });
    let image = json!({"type": "image", "id": "i"});
    let openai = json!({"some-api": {"chat:a": model, "image:i": image}});
    let overlay = json!({id: other}).as_object().unwrap().clone();
    let mut found = models(&Sources { primary: vec![("openai", openai)], overlay }).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn the_second_package_stands_beside_the_first() {
    let cost = json!({"input": 1.25, "output": 10, "cacheRead": 0.125, "cacheWrite": 0,
        "tiers": [{"inputTokensAbove": 9, "input": 2.5, "output": 15, "cacheRead": 0, "cacheWrite": 3}]});
    let other = json!({"litellm_provider": "openai", "max_input_tokens": 272_000, "max_output_tokens": 128_000,
        "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1.2e-05, "deprecation_date": "2026-12-11"});
    let model = derived("m", cost, other);
    assert_eq!(model["prices"]["cache_read"], "0.125");
    // No price of a cache's own is written as 0 there, and as nothing here.
    assert_eq!(model["prices"].get("cache_write"), None);
    assert_eq!(
        model["prices"]["tiers"],
        json!([{"above": 9, "input": "2.5", "output": "15", "cache_write": "3"}])
    );
    assert_eq!(model["litellm"], json!({"max_input_tokens": 272_000, "output": "12"}));
    assert_eq!(model["ends"], "2026-12-11");
    assert_eq!(model["efforts"], json!(["none", "medium", "high", "max"]));
    // Another provider's model of that name is another model.
    let foreign = json!({"litellm_provider": "somebody", "deprecation_date": "2026-12-11"});
    let cost = json!({"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0});
    assert_eq!(derived("m", cost, foreign).get("ends"), None);
}

#[test]
fn nothing_is_free_on_one_word_alone() {
    let zero = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
    let other = |price: f64| json!({"litellm_provider": "openai", "input_cost_per_token": price, "output_cost_per_token": price});
    assert_eq!(derived("auto", zero.clone(), json!({})).get("prices"), None);
    assert_eq!(derived("auto", zero.clone(), other(1e-6)).get("prices"), None);
    assert_eq!(derived("auto", zero.clone(), other(0.0))["prices"], json!({"input": "0", "output": "0"}));
    assert_eq!(derived("m:free", zero, json!({}))["prices"]["input"], "0");
}

/// Each of these is refused, and the text they are made of is not.
#[test]
fn the_form_is_checked() {
    let cost = json!({"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0});
    let about = form::About { date: "2026-11-30".into(), pi_ai: "1".into(), litellm: "2".into() };
    let (a, b) = (derived("a", cost.clone(), json!({})), derived("b", cost, json!({})));
    let text = form::write(&about, &[a.clone(), b.clone()]).unwrap();
    let licences = "`@earendil-works/pi-ai` and `litellm`";
    assert_eq!(form::check(&text, licences), Ok(2));
    let refused = |text: &str, what: &str| {
        let found = form::check(text, licences).unwrap_err();
        assert!(found.contains(what), "{found}");
    };
    refused(&form::write(&about, &[b, a]).unwrap(), "does not stand before");
    refused(
        &text.replace("\"input\":\"1\",\"output\":\"2\"", "\"output\":\"2\",\"input\":\"1\""),
        "not in its form",
    );
    refused(&text.replace("}}\n]", "}}\n\n]"), "not in its form");
    refused(&text.replace("\"version\":\"2\",", ""), "about.overlay.version");
    refused(&text.replace("MIT\"", "\""), "about.primary.licence");
    refused(&text.replace("2026-11-30", "today"), "date");
    refused(&text.replace("\"images\"", "\"pictures\""), "not a field");
    refused(&text.replace("\"id\":\"b\"", "\"id\":\"b\\\"\""), "plain characters");
    assert!(form::check(&text, "`litellm`").unwrap_err().contains("pi-ai"));
}

/// What is committed is what `--check` takes.
#[test]
fn the_committed_file_is_in_its_form() {
    let read = |path: &str| std::fs::read_to_string(crate::root().join(path)).unwrap();
    assert!(form::check(&read(super::PATH), &read(super::LICENCES)).unwrap() > 100);
}
