#![allow(clippy::unwrap_used)]

use super::{Prices, Rate, Tier, Usd};
use crate::chunk::Usage;

fn usage(input: u64, read: u64, write: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        cache_read_tokens: Some(read),
        cache_write_tokens: Some(write),
        output_tokens: output,
        reasoning_tokens: Some(output / 2),
        raw: None,
    }
}

fn prices(json: &str) -> Prices {
    serde_json::from_str(json).unwrap()
}

/// Worked out by hand, class by class.
#[test]
fn each_class_has_its_price() {
    let all = prices(r#"{"input":"5","output":"25","cache_read":"0.5","cache_write":"6.25"}"#);
    // 1,200 × 5 + 50,000 × 0.5 + 3,000 × 6.25 + 700 × 25 = 6,000 + 25,000 + 18,750 + 17,500 millionths
    assert_eq!(all.cost(&usage(1200, 50_000, 3000, 700)).to_string(), "0.06725");
    // Reasoning is output already: half of it being thought changes nothing.
    assert_eq!(all.cost(&usage(0, 0, 0, 2)).to_string(), "0.00005");
    // Without prices of its own a cache costs what other input does: (100 + 10 + 1) × 0.075 + 0
    let plain = prices(r#"{"input":"0.075","output":"0.3"}"#);
    assert_eq!(plain.cost(&usage(100, 10, 1, 0)).to_string(), "0.000008325");
    assert_eq!(
        plain.cost(&Usage { input_tokens: 111, ..Usage::default() }),
        plain.cost(&usage(100, 10, 1, 0))
    );
    // The smallest price there is, of one token: a trillionth.
    let tiny = prices(r#"{"input":"0.000001","output":"0"}"#);
    assert_eq!(tiny.cost(&usage(1, 0, 0, 9)).to_string(), "0.000000000001");
}

#[test]
fn a_tier_prices_the_whole_request() {
    let text = r#"{"input":"2","output":"10","cache_read":"0.2","cache_write":"2.5","tiers":[{"above":272000,"input":"4","output":"15","cache_read":"0.4","cache_write":"5"}]}"#;
    let tiered = prices(text);
    // At the threshold the small price still holds: 200,000 × 2 + 70,000 × 0.2 + 2,000 × 2.5 + 100 × 10
    assert_eq!(tiered.cost(&usage(200_000, 70_000, 2000, 100)).to_string(), "0.42");
    // One token above it everything is dearer: 200,001 × 4 + 70,000 × 0.4 + 2,000 × 5 + 100 × 15
    assert_eq!(tiered.cost(&usage(200_001, 70_000, 2000, 100)).to_string(), "0.839504");
    // Output does not count towards the threshold.
    assert_eq!(tiered.cost(&usage(1, 0, 0, 400_000)).to_string(), "4.000002");
    // Stored as it was read.
    assert_eq!(serde_json::to_string(&tiered).unwrap(), text);
    // The highest tier that is reached holds, in whatever order they stand.
    let rates = |input: &str| prices(&format!(r#"{{"input":"{input}","output":"0"}}"#)).rates;
    let tier = |above, input| Tier { above, rates: rates(input) };
    let steps = Prices { rates: rates("1"), tiers: vec![tier(200, "3"), tier(100, "2")] };
    let cost = |tokens| steps.cost(&usage(tokens, 0, 0, 0)).to_string();
    assert_eq!([cost(100), cost(101), cost(201)], ["0.0001", "0.000202", "0.000603"]);
}

#[test]
fn decimals_are_read_and_written_exactly() {
    for (text, shown) in
        [("1.25", "1.25"), ("0", "0"), ("10", "10"), ("00.500", "0.5"), ("0.000001", "0.000001")]
    {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), shown);
    }
    for text in [
        "",
        ".",
        "1.",
        ".5",
        "-1",
        "+1",
        "1e3",
        "1,5",
        " 1",
        "0.0000001",
        "1.2.3",
        "∞",
        "99999999999999999999",
    ] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
    assert_eq!("0.50".parse::<Usd>().unwrap(), Usd::from_micros(500_000));
    assert_eq!("0.000000000001".parse::<Usd>().unwrap().micros_up(), 1);
    assert_eq!("3".parse::<Usd>().unwrap().micros_up(), 3_000_000);
    // What a log cannot have meant is no price.
    assert!(serde_json::from_str::<Prices>(r#"{"input":1.25,"output":"1"}"#).is_err());
    assert!(serde_json::from_str::<Prices>(r#"{"input":"1.25"}"#).is_err());
}

#[test]
fn amounts_end_at_the_largest_and_never_wrap() {
    let dear = prices(r#"{"input":"18446744073709.551615","output":"18446744073709.551615"}"#);
    let most = dear.cost(&usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX));
    assert_eq!(most, most.plus(Usd::from_micros(u64::MAX)));
    assert_eq!(most.micros_up(), u64::MAX);
}
