//! What a log says its requests cost.

use terret_core::digest::context_digest;
use terret_core::fact::{Fact, RequestContext};
use terret_core::line::Event;
use terret_core::project::{Gap, Spending};

use crate::samples;

fn spent(facts: impl IntoIterator<Item = Fact>) -> Spending {
    let mut spending = Spending::default();
    for (seq, fact) in (0..).zip(facts) {
        spending.fold(&Event { seq, time: 0, fact });
    }
    spending
}

fn context(prices: &str) -> RequestContext {
    let prices = serde_json::from_str(prices).unwrap();
    RequestContext { prices: Some(prices), table: Some("config".into()), ..samples::context() }
}

const PRICES: &str = r#"{"input":"1.25","output":"10","tiers":[{"above":9,"input":"2","output":"11"}]}"#;

/// One fact of each type, behind a price.
fn every_fact() -> Vec<Fact> {
    let priced = |fact| match fact {
        Fact::RequestContext(_) => Fact::RequestContext(context(PRICES)),
        fact => fact,
    };
    samples::every_fact().into_iter().map(priced).collect()
}

/// The facts with something done to each.
fn with(change: impl Fn(&mut Fact)) -> Vec<Fact> {
    let mut facts = every_fact();
    facts.iter_mut().for_each(change);
    facts
}

fn whole(spending: &Spending) -> Option<String> {
    spending.whole().map(|amount| amount.to_string())
}

#[test]
fn answers_and_failures_are_counted_at_the_price_before_them() {
    // The failed attempt 3 × 1.25; the answer, above the threshold of 9 tokens, (9 + 1) × 2 + 2 × 11.
    let all = spent(every_fact());
    assert_eq!((whole(&all), all.gap()), (Some("0.00004575".into()), None));
    // What comes behind another price goes by that: of both only the two tokens of output.
    let later = with(|fact| {
        if let Fact::RequestContext(told) = fact {
            *told = context(r#"{"input":"0","output":"1"}"#);
        }
    });
    assert_eq!(whole(&spent(every_fact().into_iter().chain(later))), Some("0.00004775".into()));
}

#[test]
fn prices_are_read_as_they_were_written() {
    let line = serde_json::to_string(&context(PRICES)).unwrap();
    let text = format!(
        r#"{{"provider":"mock","model":"m","context_window":128000,"prices":{PRICES},"table":"config"}}"#
    );
    assert_eq!(line, text);
    assert_eq!(serde_json::from_str::<RequestContext>(&text).unwrap(), context(PRICES));
    // Another price is another context: it is written again.
    let other = context(r#"{"input":"1","output":"1"}"#);
    assert_ne!(context_digest(&other), context_digest(&context(PRICES)));
}

#[test]
fn what_is_not_known_is_not_taken_for_nothing() {
    let no_price = spent(with(|fact| {
        if let Fact::RequestContext(context) = fact {
            context.prices = None;
        }
    }));
    assert_eq!((whole(&no_price), no_price.gap()), (None, Some(Gap::NoPrice)));
    let uncounted = |interrupted| {
        spent(with(|fact| {
            if let Fact::AssistantMessage(answer) = fact {
                (answer.usage, answer.interrupted) = (None, interrupted);
            }
        }))
    };
    assert_eq!((whole(&uncounted(false)), uncounted(false).gap()), (None, Some(Gap::NoUsage)));
    assert_eq!((whole(&uncounted(true)), uncounted(true).gap()), (None, Some(Gap::Cut)));
    assert_eq!(uncounted(true).at_least().to_string(), "0.00000375");
    // Nobody was asked anything: that is no amount of nothing.
    assert_eq!(whole(&spent([])), None);
}

/// A refusal costs nothing; a stream that breaks off in the middle has cost what nobody says.
#[test]
fn a_failed_attempt_without_counts_is_free_only_if_it_said_nothing() {
    let uncounted = || {
        with(|fact| {
            if let Fact::RequestFailed(failed) = fact {
                failed.usage = None;
            }
        })
    };
    assert_eq!(whole(&spent(uncounted())), Some("0.000042".into()));
    let mut facts = uncounted();
    let chunk = facts.iter().find(|fact| matches!(fact, Fact::AssistantChunk(_))).cloned().unwrap();
    let failed = facts.iter().position(|fact| matches!(fact, Fact::RequestFailed(_))).unwrap();
    facts.insert(failed, chunk);
    assert_eq!((whole(&spent(facts.clone())), spent(facts).gap()), (None, Some(Gap::Cut)));
}

/// A reader that begins in the middle counts what was asked from there on.
#[test]
fn what_an_earlier_writer_asked_counts_for_that_one() {
    let behind = every_fact().into_iter().filter(|fact| !matches!(fact, Fact::RequestContext(_)));
    let mut spending = spent(behind.clone());
    assert_eq!((whole(&spending), spending.gap()), (None, None));
    spending.under(context(PRICES).into());
    behind.for_each(|fact| spending.fold(&Event { seq: 0, time: 0, fact }));
    assert_eq!(whole(&spending), Some("0.00004575".into()));
    assert_eq!(spending.context().unwrap().model, "m");
}

/// Some wires count the question at the start and the answer at the end: what was counted before a cut is not all.
#[test]
fn what_was_counted_before_a_cut_is_the_least_and_not_the_whole() {
    use terret_core::chunk::Chunk;
    let facts = every_fact();
    let find = |name: &str| facts.iter().find(|fact| fact.type_name() == name).unwrap().clone();
    let failed = find("request/failed");
    let Fact::RequestFailed(told) = &failed else { panic!() };
    assert!(told.usage.is_some(), "its tokens so far are known");
    let piece = |chunk: Chunk| {
        let Fact::AssistantChunk(mut piece) = find("assistant/chunk") else { panic!() };
        piece.chunk = chunk;
        Fact::AssistantChunk(piece)
    };
    let text = piece(Chunk::TextDelta { index: 0, text: "x".into() });
    let end = piece(Chunk::Finish { reason: terret_core::chunk::FinishKind::Other, raw: "odd".into() });
    let attempt = |pieces: &[Fact]| {
        let begin = [find("request/context"), find("request/attempt")];
        spent([&begin[..], pieces, std::slice::from_ref(&failed)].concat())
    };
    let refused = attempt(&[]);
    assert_eq!((refused.gap(), whole(&refused).is_some()), (None, true));
    let cut = attempt(std::slice::from_ref(&text));
    assert_eq!((cut.gap(), whole(&cut)), (Some(Gap::Cut), None));
    assert_eq!(cut.at_least(), refused.at_least(), "what is known counts");
    let ended = attempt(&[text, end]);
    assert_eq!(
        (ended.gap(), whole(&ended)),
        (None, whole(&refused)),
        "it said how it ended, and what it cost"
    );
}
