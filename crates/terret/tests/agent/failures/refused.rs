//! Providers that refuse: how long is waited, and what is never asked twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use terret::Agent;
use terret::core::chunk::{Chunk, Failure, FinishKind, code};
use terret::core::fact::Fact;
use terret::core::message::BlockKind;
use terret::core::raw::Raw;
use terret::model::failure::{Secret, from_http};
use terret::model::retry_hint::Headers;
use terret::model::{Adapter, ChunkStream, Outgoing, Prepared, Proposal, Providers};
use terret::policy::Retry;
use terret::store::MemoryStore;
use tokio::time::Instant;

use super::server::{Reply, Server};
use crate::support::events;

/// Refuses twice with a delay in the head of its answer, then answers. Notes when it was asked.
struct Busy(Arc<Mutex<Vec<Instant>>>);

impl Adapter for Busy {
    fn prepare(&self, _: &Proposal) -> Result<Prepared, Failure> {
        Ok(Prepared {
            wire: "script@1".into(),
            dialect: Raw::string(""),
            parameters: Default::default(),
            defaults: Vec::new(),
            context_window: None,
        })
    }

    fn stream(&self, _: Outgoing) -> ChunkStream {
        let mut asked = self.0.lock().unwrap();
        asked.push(Instant::now());
        let answer = if asked.len() < 3 {
            let head = |name: &str| (name == "retry-after").then(|| "3".to_owned());
            Err(from_http(429, Headers(&head), include_bytes!("048/e.json"), 0.0, Secret(None)))
        } else {
            Ok(vec![
                Chunk::BlockStart { index: 0, block_type: BlockKind::Text, id: None, name: None },
                Chunk::TextDelta { index: 0, text: "ok".into() },
                Chunk::Finish { reason: FinishKind::Stop, raw: "stop".into() },
            ])
        };
        futures_util::stream::iter([answer]).boxed()
    }
}

/// Three seconds asked for are three seconds waited, by one layer, and the log says how long and why.
#[tokio::test(start_paused = true)]
async fn case_048_a_delay_that_is_asked_for_is_kept() {
    let (asked, store) = (Arc::<Mutex<Vec<Instant>>>::default(), MemoryStore::default());
    let models = Providers::new(Box::new(|_| None)).with_adapter("busy", Busy(asked.clone()));
    let builder = Agent::builder(Arc::new(models)).model("busy/m").unwrap().plugin(Retry::default());
    let agent = builder.store(store.clone()).create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", "ok"));
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 3);
    for pair in asked.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap >= Duration::from_secs(3) && gap <= Duration::from_millis(4500), "{gap:?}");
    }
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let (mut waits, mut reasons) = (Vec::new(), Vec::new());
    for event in &events {
        match &event.fact {
            Fact::RequestRetry(retry) => waits.push(retry.delay_ms),
            Fact::RequestFailed(failed) => {
                reasons.push((failed.failure.code.as_str(), failed.failure.retry_after_ms));
            }
            _ => {}
        }
    }
    assert!(waits.len() == 2 && waits.iter().all(|ms| *ms >= 3000), "{waits:?}");
    assert_eq!(reasons, [(code::RATE_LIMIT, Some(3000)); 2]);
}

/// A history that is too long is never sent again as it is, however that is said; nor is what a server cannot take
/// for a reason nobody knows. The words of the server are kept.
#[tokio::test]
async fn case_050_what_does_not_fit_is_not_sent_again() {
    let bad = |body: &'static str| {
        ("400 Bad Request", "content-type: application/json\r\n", body, code::CONTEXT_WINDOW_EXCEEDED)
    };
    for (line, headers, body, class) in [
        bad(include_str!("050/a.json")),
        bad(include_str!("050/b.json")),
        bad(include_str!("050/c.json")),
        ("413 Payload Too Large", "", "", code::REQUEST_TOO_LARGE),
        ("400 Bad Request", "", include_str!("050/d.json"), code::INVALID_REQUEST),
    ] {
        let (server, store) =
            (Server::new(vec![Reply::Status(line, headers, body)]).await, MemoryStore::default());
        let agent = server.agent().store(store.clone()).create(None).await.unwrap();
        let outcome = agent.prompt("go").await.unwrap();
        agent.shutdown().await.unwrap();
        assert_eq!(outcome.ending.word(), "error");
        assert_eq!(server.requests().len(), 1, "{body}");
        let events = events(store.bytes(agent.id().as_str()).unwrap());
        let failure = events.iter().find_map(|event| match &event.fact {
            Fact::RequestFailed(failed) => Some(failed.failure.clone()),
            _ => None,
        });
        let failure = failure.unwrap();
        assert_eq!(failure.code, class, "{failure:?}");
        assert_eq!(failure.raw.as_deref().unwrap_or_default(), body);
        assert!(!events.iter().any(|e| matches!(e.fact, Fact::RequestRetry(_))));
    }
}
