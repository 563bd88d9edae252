#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use terret_core::price::Rate;

use super::{Model, ModelSettings, TEXT, all, find, lines, version};
use crate::limits::DEFAULT_MAX_OUTPUT_TOKENS;
use crate::model::provider::BUILT_IN;
use crate::model::{Models, Providers};

fn rate(text: &str) -> Option<Rate> {
    Some(text.parse().unwrap())
}

/// Input and output price, as text.
fn prices(model: &Model) -> Option<(String, String)> {
    model.prices.as_ref().map(|prices| (prices.rates.input.to_string(), prices.rates.output.to_string()))
}

#[test]
fn every_line_is_a_model_whose_numbers_can_be() {
    assert_eq!(all().count(), lines::all(TEXT).count());
    for model in all() {
        let (window, output) = (model.context_window.unwrap(), model.max_output_tokens.unwrap());
        assert!(window >= output && output > 0 && window <= 20_000_000, "{model:?}");
        assert!(model.images.is_some() && model.reasoning.is_some(), "{model:?}");
        assert!(model.efforts.is_empty() || model.reasoning == Some(true), "{model:?}");
        assert!(model.ends.iter().all(|day| day.len() == 10), "{model:?}");
        assert_eq!(model.table.is_some(), model.prices.is_some());
        let Some(prices) = &model.prices else { continue };
        let most = rate("2000").unwrap();
        let mut above = 0;
        for rates in std::iter::once(&prices.rates).chain(prices.tiers.iter().map(|tier| &tier.rates)) {
            // A router's aliases mix the prices of several servers: reading again may cost more than reading.
            let cached = rates.cache_read.max(rates.cache_write);
            assert!(cached.is_none_or(|price| price <= rates.output.max(rates.input)), "{model:?}");
            assert!(rates.input <= rates.output && rates.output <= most, "{model:?}");
        }
        for tier in &prices.tiers {
            assert!(tier.above > above && tier.rates.input >= prices.rates.input, "{model:?}");
            above = tier.above;
        }
    }
}

#[test]
fn every_provider_that_is_hosted_is_in_it() {
    let listed: BTreeSet<String> = all().map(|model| model.provider).collect();
    for provider in BUILT_IN.iter().filter(|provider| provider.needs_key) {
        assert!(listed.contains(provider.name), "{}", provider.name);
    }
    // A line that is found is the one that was asked for, at both ends and everywhere between.
    for model in all() {
        assert_eq!(find(&model.provider, &model.id).as_ref(), Some(&model));
    }
    assert_eq!(lines::find(TEXT, "", ""), None);
    assert_eq!(lines::find(TEXT, "zzz", "zzz"), None);
    assert_eq!(lines::find("", "openai", "gpt-5"), None);
}

#[test]
fn it_says_what_it_is_made_from() {
    let version = version();
    assert!(version.starts_with("catalogue 20"), "{version}");
    assert!(version.contains("(pi-ai ") && version.contains(", litellm "), "{version}");
}

#[test]
fn a_snapshot_is_the_model_it_is_a_snapshot_of() {
    let listed = find("openai", "gpt-5").unwrap();
    assert_eq!(prices(&listed), Some(("1.25".to_owned(), "10".to_owned())));
    assert_eq!(listed.ends.as_deref(), Some("2026-12-11"));
    assert_eq!(listed.beside.as_ref().unwrap().max_input_tokens, Some(272_000));
    for snapshot in ["gpt-5-2025-08-07", "gpt-5-20250807", "gpt-5@20250807", "gpt-5-latest"] {
        assert_eq!(find("openai", snapshot).as_ref(), Some(&listed), "{snapshot}");
    }
    // One with a line of its own is that one.
    assert_eq!(find("openai", "gpt-4o-2024-05-13").unwrap().id, "gpt-4o-2024-05-13");
}

/// Limits run in families. Prices do not.
#[test]
fn a_relative_gives_its_limits_and_no_price() {
    for (provider, model, relative) in [
        ("openai", "gpt-5-pro-turbo-new", "gpt-5-pro"),
        ("openai", "gpt-5-0807", "gpt-5"),
        ("openrouter", "openai/gpt-5-unheard-of", "openai/gpt-5"),
        ("openrouter", "openai/gpt-5:nitro", "openai/gpt-5"),
        ("openrouter", "anthropic/claude-opus-4-8-2", "claude-opus-4-8"),
    ] {
        let found = find(provider, model).unwrap();
        assert_eq!((found.id.as_str(), &found.prices, &found.ends), (relative, &None, &None), "{model}");
        assert!(found.context_window.is_some() && found.max_output_tokens.is_some());
        assert_eq!((found.table, found.beside), (None, None));
    }
    // A vendor's own models under the router's name for them: from the vendor itself they have their price.
    assert!(find("openai", "openai/gpt-5").unwrap().prices.is_some());
    assert!(find("gemini", "models/gemini-2.5-pro").unwrap().prices.is_some());
    // The name has to end where the relative's does.
    for unknown in ["gpt-5x", "gpt-", "", "-", "/", "gpt5", "ümlaut-2025-08-07", "openai/", "somebody/auto"]
    {
        assert_eq!(find("openai", unknown), None, "{unknown}");
    }
    assert_eq!(find("nobody", "gpt-5"), None);
}

fn known(providers: &Providers, provider: &str, model: &str) -> Option<Model> {
    providers.known(provider, model)
}

#[test]
fn a_local_servers_names_are_not_looked_up() {
    let providers = Providers::new(Box::new(|_| None));
    assert!(known(&providers, "openai", "gpt-5").is_some());
    for local in ["ollama", "llamacpp", "vllm", "mine", "script"] {
        assert_eq!(known(&providers, local, "gpt-5"), None, "{local}");
        assert_eq!(known(&providers, local, "openai/gpt-5"), None, "{local}");
    }
}

#[test]
fn what_is_set_stands_over_what_is_listed() {
    let settings = |text: &str| toml::from_str::<ModelSettings>(text).unwrap();
    let over = |provider: &str, model: &str, text: &str| {
        let providers = Providers::new(Box::new(|_| None)).with_model(provider, model, settings(text));
        known(&providers, provider, model).unwrap()
    };
    let listed = find("openai", "gpt-5").unwrap();
    let window = over("openai", "gpt-5", "context_window = 9000\nimages = false");
    assert_eq!(
        window,
        Model { context_window: Some(9000), images: Some(false), ..listed.clone() },
        "all the rest is as it was"
    );
    // One price of two: the other is the catalogue's, and the table says so.
    let cheaper = over("openai", "gpt-5", "input = 1");
    assert_eq!(prices(&cheaper), Some(("1".to_owned(), "10".to_owned())));
    assert_eq!(cheaper.prices.unwrap().rates.cache_read, rate("0.125"));
    assert_eq!(cheaper.table, Some(format!("config over {}", version())));
    // Prices that are set hold for requests of every size.
    assert!(!find("openai", "gpt-6-sol").unwrap().prices.unwrap().tiers.is_empty());
    assert!(over("openai", "gpt-6-sol", "output = '9.5'").prices.unwrap().tiers.is_empty());

    let own = over("script", "demo", "input = 0.1\noutput = '0.30'\ncache_write = 2\nmax_output_tokens = 7");
    assert_eq!(prices(&own), Some(("0.1".to_owned(), "0.3".to_owned())));
    assert_eq!(own.prices.as_ref().unwrap().rates.cache_write, rate("2"));
    assert_eq!((own.table.as_deref(), own.default_output_tokens()), (Some("config"), Some(7)));
    // Half a price is none.
    assert_eq!(over("script", "demo", "input = 1").prices, None);
    assert_eq!(over("script", "demo", "input = 1").table, None);
    for wrong in ["input = -1", "input = 'dear'", "input = 0.0000001", "input = true", "price = 1"] {
        assert!(toml::from_str::<ModelSettings>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_output_limit_is_asked_for_only_where_the_models_own_is_known() {
    assert_eq!(find("openai", "gpt-4o").unwrap().default_output_tokens(), Some(16_384));
    assert_eq!(find("openai", "gpt-5").unwrap().default_output_tokens(), Some(DEFAULT_MAX_OUTPUT_TOKENS));
    assert_eq!(Model::default().default_output_tokens(), None);
    // One that may fill its whole window with an answer still has to read something.
    assert_eq!(find("openai", "gpt-4").unwrap().max_output_tokens, Some(8192));
    assert_eq!(find("openai", "gpt-4").unwrap().default_output_tokens(), Some(4096));
}
