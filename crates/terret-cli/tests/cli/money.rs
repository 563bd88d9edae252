//! Prices, what a run cost, and a budget in dollars.

use std::path::Path;

use serde_json::{Value, json};

use crate::place::{Place, Ran, Running};
use crate::server::{Reply, Server, calls, finish, says, text};

/// A price for a route, as a file has it.
fn priced(place: &Place, route: &str, keys: &str) {
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::write(place.home().join("config.toml"), format!("[models.\"{route}\"]\n{keys}\n")).unwrap();
}

fn object(ran: &Ran) -> Value {
    serde_json::from_slice(&ran.out).unwrap()
}

const TWO_STEPS: &str = "call shell {\"command\": \"true\"}\nusage input=1000 cache_read=500 output=200\n\
    ---\nsay Done.\nusage input=10 cache_write=20 output=30\n";

#[test]
fn a_run_ends_at_its_budget_in_dollars() {
    let place = Place::new();
    let model = place.script(TWO_STEPS);
    let route = model.replacen(':', "/", 1);
    priced(&place, &route, "input = \"3\"\noutput = 15\ncache_read = 0.3");
    // 1,000 × 3 + 500 × 0.3 + 200 × 15 millionths of a dollar, and there is no second step.
    let spent = 0.006_15;
    let ran =
        place.run(&["run", "-m", &model, "--max-cost", "0.00615", "--output-format", "json", "hi"]).exits(7);
    assert!(ran.err.contains("stopped at the budget of $0.00615"), "{}", ran.err);
    assert_eq!(object(&ran)["cost"], json!(spent));
    assert_eq!(
        place.reason(),
        json!({"type": "aborted", "cause": {"type": "budget", "which": "cost", "limit": 6150}})
    );
    let contexts = place.all("request/context");
    assert_eq!(contexts.len(), 1);
    assert_eq!(contexts[0]["prices"], json!({"input": "3", "output": "15", "cache_read": "0.3"}));
    assert_eq!(contexts[0]["table"], "config");
    place.ok(&["verify", "latest"]);
    assert!(place.ok(&["log", "latest", "--type", "request/context"]).text().contains(", $3 in, $15 out"));

    // The price stands in the log already, and is not written again; this run still knows it. A cache without a
    // price of its own is as dear as other input: (10 + 20) × 3 + 30 × 15.
    let ran = place.ok(&["run", "-c", "--max-cost", "$1", "--output-format", "json", "go on"]);
    assert_eq!(object(&ran)["cost"], json!(0.000_54));
    assert_eq!(place.all("request/context").len(), 1);
    // Until it changes.
    let changed = ["run", "-c", "--set", "models.script/demo.input=1", "--set", "max_retries=0"];
    place.ok(&[&changed[..], &["--max-cost", "1", "again"]].concat());
    assert_eq!(place.all("request/context").len(), 1);
    priced(&place, &route, "input = 4\noutput = 15");
    place.ok(&["run", "-c", "and again"]);
    assert_eq!(place.all("request/context")[1]["prices"], json!({"input": "4", "output": "15"}));
}

#[test]
fn a_model_without_a_price_is_not_asked_under_a_budget() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("hello")));
    let refused = place.run(&server.run(&["--max-cost", "5", "hi"])).exits(2);
    let refused = refused.says("`test/model`").says("`input` and `output` of `[models.\"test/model\"]`");
    assert!(refused.err.contains("--set models.test/model.input="), "{}", refused.err);
    assert_eq!((server.requests().len(), place.logs().len()), (0, 0));
    // Half a price is none.
    let input = "models.test/model.input=1.5";
    place
        .run(&server.run(&["--set", input, "--max-cost", "5", "hi"]))
        .exits(2)
        .says("[models.\"test/model\"]");
    let output = "models.\"test/model\".output=2";
    let both = ["--set", input, "--set", output, "--max-cost", "5", "--output-format", "json", "hi"];
    // 100 × 1.5 + 10 × 2
    assert_eq!(object(&place.ok(&server.run(&both)))["cost"], json!(0.000_17));
    // Without a budget nothing is refused, and nothing is made up.
    let free = place.ok(&server.run(&["--output-format", "json", "hi"]));
    assert_eq!(object(&free)["cost"], Value::Null);
    for wrong in ["-1", "much", "0.0000001", "1e3", ""] {
        place.run(&server.run(&["--max-cost", wrong, "hi"])).exits(2).says("six places");
    }
}

/// What a failed attempt cost counts, and a retry is a request like any other.
#[test]
fn failed_attempts_count_and_a_retry_is_not_sent_over_the_budget() {
    let place = Place::new();
    let server = Server::start(|_, _| {
        let usage = finish("stop").pop().unwrap();
        Reply::Cut(vec![text("half "), usage])
    });
    let prices = ["--set", "models.test/model.input=10", "--set", "models.test/model.output=0"];
    // Each attempt costs 100 × 10 millionths.
    let budget = ["--max-cost", "0.002", "--output-format", "json", "hi"];
    let ran = place.run(&server.run(&[&prices[..], &budget].concat())).exits(7);
    // They were cut, so that nobody knows whether that was all: the budget goes by what is known.
    assert_eq!(object(&ran)["cost"], Value::Null);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(place.all("request/failed").len(), 2);
}

#[test]
fn a_hosted_model_has_the_price_of_the_catalogue_and_of_its_tier() {
    let place = Place::new();
    let server = Server::start(|n, _| {
        let tokens = [200_000, 300_000][n];
        let mut events = if n == 0 { calls("shell", r#"{"command":"true"}"#) } else { says("Done.") };
        events.last_mut().unwrap()["usage"] = json!({"prompt_tokens": tokens, "completion_tokens": 1000,
            "total_tokens": tokens + 1000, "prompt_tokens_details": {"cached_tokens": tokens - 1000}});
        Reply::Stream(events)
    });
    let words = server.run(&[]);
    let base = words.last().unwrap().split_once('=').unwrap().1;
    let mut command = place.command(&["run", "-m", "openai/gpt-6-sol", "--output-format", "json", "hi"]);
    command.env("OPENAI_BASE_URL", base).env("OPENAI_API_KEY", "k");
    let ran = Running::start(command).end().exits(0);
    let context = place.all("request/context").remove(0);
    let (below, above) = (&context["prices"], &context["prices"]["tiers"][0]);
    assert_eq!(
        (&below["input"], &below["cache_read"], &below["output"]),
        (&json!("2"), &json!("0.2"), &json!("10"))
    );
    assert_eq!((&above["above"], &above["input"]), (&json!(272_000), &json!("4")));
    assert!(context["table"].as_str().unwrap().starts_with("catalogue 20"), "{context}");
    // Worked out from the log alone, with whole numbers: trillionths of a dollar.
    let rate = |rates: &Value, name: &str| {
        let price: f64 = rates[name].as_str().unwrap().parse().unwrap();
        #[allow(clippy::cast_possible_truncation)]
        let rate = (price * 1e6).round() as i64;
        rate
    };
    let cost = |rates: &Value, read: i64| {
        1000 * rate(rates, "input") + read * rate(rates, "cache_read") + 1000 * rate(rates, "output")
    };
    #[allow(clippy::cast_precision_loss)]
    let dollars = (cost(below, 199_000) + cost(above, 299_000)) as f64 / 1e12;
    let said = object(&ran)["cost"].as_f64().unwrap();
    assert!((said - dollars).abs() < 1e-12, "{said} {dollars}");
}

#[test]
fn the_catalogue_is_listed_without_a_network_and_a_key() {
    let place = Place::new();
    let all = place.ok(&["models"]).says("models; catalogue 20").says("litellm");
    for provider in ["anthropic", "deepseek", "gemini", "openai", "openrouter"] {
        assert!(all.text().contains(&format!("\n{provider}/")), "{provider}");
    }
    let of_one = place.ok(&["models", "anthropic"]).text();
    assert!(of_one.lines().skip(1).all(|line| line.starts_with("anthropic/")), "{of_one}");
    assert!(of_one.starts_with("model ") && of_one.lines().count() > 3);
    // No provider is called so: it is looked for in names, and the lines are sorted.
    let found = place.ok(&["models", "GPT-5"]).text();
    let lines: Vec<&str> = found.lines().skip(1).collect();
    assert!(lines.len() > 3 && lines.iter().all(|line| line.contains("gpt-5")), "{found}");
    assert!(lines.is_sorted_by_key(|line| line.split_whitespace().next()), "{found}");
    place.run(&["models", "anthropc"]).exits(2).says("hint: terret models anthropic").says("openrouter");
    assert_eq!(place.logs().len(), 0);

    let json: Vec<Value> = place
        .ok(&["models", "openai", "--json"])
        .text()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let gpt = json.iter().find(|model| model["id"] == "gpt-5").unwrap();
    assert_eq!((&gpt["context_window"], &gpt["prices"]["input"]), (&json!(400_000), &json!("1.25")));
    assert_eq!((&gpt["ends"], &gpt["configured"]), (&json!("2026-12-11"), &json!(false)));
}

#[test]
fn what_is_configured_of_a_model_is_shown_and_marked() {
    let place = Place::new();
    priced(&place, "openai/gpt-4.1", "input = 1.5\ncontext_window = 5000\nimages = false");
    let line = |ran: Ran, name: &str| {
        let text = ran.text();
        text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
    };
    let shown = line(place.ok(&["models", "openai"]), "openai/gpt-4.1 ");
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words[..7], ["openai/gpt-4.1", "*", "5000", "32768", "no", "no", "1.5"], "{shown}");
    // One that is not listed, by a word of the command line.
    let set = ["models", "mine", "--set", "models.mine/own.v2.output=0.25"];
    assert!(line(place.ok(&set), "mine/own.v2 *").contains('-'));
    let doctor = place.ok(&["doctor", "--config"]).text();
    assert!(doctor.contains("models.\"openai/gpt-4.1\".input = 1.5  ("), "{doctor}");
    assert!(doctor.contains("config.toml:2)"), "{doctor}");
}

#[test]
fn a_mistake_in_what_is_said_of_a_model_is_an_error_with_a_place() {
    let place = Place::new();
    let refused = |keys: &str, words: &str| {
        priced(&place, "openai/gpt-4.1", keys);
        place.run(&["models"]).exits(2).says("config.toml:2").says(words);
    };
    refused("inptu = 1", "did you mean `models.\"openai/gpt-4.1\".input`?");
    refused("input = \"dear\"", "takes US dollars per million tokens");
    refused("input = -1", "takes US dollars");
    refused("input = true", "takes US dollars");
    refused("images = 1", "takes true or false");
    refused("context_window = 0.5", "takes a whole number");
    priced(&place, "gpt-4.1", "input = 1");
    place.run(&["models"]).exits(2).says("`PROVIDER/MODEL`");
    assert!(!Path::new(&place.home()).join("sessions").exists());
}
