//! How the built-in policy asks again.

use terret::core::fact::Fact;
use terret::policy::Retry;
use terret::store::MemoryStore;

use crate::support::{builder, events};

/// The delays before the attempts of one turn, and how the turn ended.
async fn delays(script: &str, retry: Retry) -> (Vec<u64>, &'static str) {
    let store = MemoryStore::default();
    let player = terret::model::script::ScriptAdapter::new().with("test", script).unwrap();
    let models = terret::model::Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let agent =
        terret::Agent::builder(std::sync::Arc::new(models)).model("script:test").unwrap().plugin(retry);
    let agent = agent.store(store.clone()).create(None).await.unwrap();
    let ending = agent.prompt("go").await.unwrap().ending.word();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let of = |e: &terret::core::line::Event| match &e.fact {
        Fact::RequestRetry(retry) => Some(retry.delay_ms),
        _ => None,
    };
    (log.iter().filter_map(of).collect(), ending)
}

#[tokio::test(start_paused = true)]
async fn delays_double_up_to_their_cap_within_a_tenth_either_way() {
    let retry = Retry { max: 4, base_ms: 1_000, cap_ms: 4_000, ..Retry::default() };
    let (delays, ending) = delays("fail SERVER times=4 broken\nsay done", retry).await;
    assert_eq!((delays.len(), ending), (4, "completed"));
    for (delay, around) in delays.iter().zip([1_000, 2_000, 4_000, 4_000]) {
        assert!((around * 9 / 10..=around * 11 / 10).contains(delay), "{delays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_is_asked_for_again() {
    let (delays, ending) = delays("fail EMPTY_RESPONSE\nsay done", Retry::default()).await;
    assert_eq!((delays.len(), ending), (1, "completed"));
}

#[tokio::test(start_paused = true)]
async fn what_would_fail_again_is_not_asked_again() {
    for class in ["AUTH", "QUOTA", "INVALID_REQUEST", "CONTEXT_WINDOW_EXCEEDED", "CONTENT_FILTER"] {
        let (delays, ending) = delays(&format!("fail {class} no\nsay never"), Retry::default()).await;
        assert_eq!((delays.len(), ending), (0, "error"), "{class}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_agent_goes_on_behind_a_failure() {
    let agent = builder("fail AUTH no\nsay hi").create(None).await.unwrap();
    assert_eq!(agent.prompt("one").await.unwrap().ending.word(), "error");
    assert_eq!(agent.prompt("two").await.unwrap().ending.word(), "completed");
}
