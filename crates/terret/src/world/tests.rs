#![allow(clippy::unwrap_used)]

use terret_core::fact::{EffectClass, Fact, ToolCall, WriterIdle};
use terret_core::id::CallId;
use terret_core::line::{FORMAT, SessionHeader, SessionTag};
use tokio::sync::watch;

use super::*;
use crate::clock::SystemClock;
use crate::core::id::Digest;
use crate::hook::Seams;
use crate::model::Providers;
use crate::model::script::ScriptAdapter;
use crate::store::{Journal, MemoryStore, Store};
use crate::tool::tool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

const CALL: CallId = CallId { turn: 1, step: 1, ordinal: 0 };

fn world(session: &str) -> Arc<World> {
    let touch = tool("touch", "Says that it ran.", |_: Nothing| async { Ok::<_, String>("ran") });
    Arc::new(World {
        session: session.parse().unwrap(),
        cwd: Arc::default(),
        permissions: Permissions::default(),
        surroundings: Arc::new(surroundings),
        identity: None,
        hidden_env: Arc::default(),
        specs: vec![touch.spec()],
        tools: vec![Arc::new(touch)],
        registry: Registry::new(Seams::default(), Vec::new()).unwrap(),
        approver: None,
        grace: Duration::from_secs(1),
        models: Arc::new(Providers::new(Box::new(|_| None))),
        clock: Arc::new(SystemClock),
        idle_timeout: Duration::from_secs(1),
    })
}

fn journal(session: &str) -> Journal {
    let header = SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: session.parse().unwrap(),
        created: 0,
        cwd: ".".into(),
        by: "test".into(),
        parent: None,
        origin: None,
    };
    Journal::new(MemoryStore::default().create(header).unwrap())
}

async fn synced(journal: &mut Journal, fact: &Fact) {
    journal.push(0, fact).unwrap();
    journal.write().unwrap();
    journal.sync().await.unwrap();
}

fn attempt(number: u32, body: &[u8]) -> Fact {
    Fact::RequestAttempt(RequestAttempt {
        turn: 1,
        step: 1,
        attempt: number,
        digest: Digest::of(b"request"),
        wire: Some("script@1".into()),
        wire_digest: Some(Digest::of(body)),
        bytes: Some(body.len() as u64),
    })
}

fn call(run: u32) -> Fact {
    Fact::ToolCall(ToolCall {
        turn: 1,
        step: 1,
        call: CALL,
        run,
        name: "touch".into(),
        arguments: "{}".into(),
        effect: EffectClass::Read,
        key: "key".into(),
    })
}

/// The first reply to a request of this body, asked for as attempt 2.
async fn sent(world: &Arc<World>, proof: Durable<RequestAttempt>, body: &'static str) -> Reply {
    let adapter = ScriptAdapter::new().with("m", "say hi").unwrap();
    let prepared = adapter.prepare(&Proposal { model: "m".into(), ..Proposal::default() }).unwrap();
    let header = Header {
        provider: "script".into(),
        model: "m".into(),
        wire: prepared.wire,
        dialect: prepared.dialect,
        parameters: prepared.parameters,
        defaults: prepared.defaults,
        system: None,
        tools: Vec::new(),
    };
    let (asked, body) = ((1, 1, 2), Bytes::from_static(body.as_bytes()));
    world
        .clone()
        .stream(asked, proof, (Arc::new(header), None), body, Some(Arc::new(adapter)))
        .next()
        .await
        .unwrap()
}

fn refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Answer(Answer::Broken(failure)) if failure.code == code::RECONSTRUCTION)
}

#[tokio::test]
async fn a_request_is_sent_only_with_the_proof_of_this_very_attempt() {
    const BODY: &str = r#"{"messages":[]}"#;
    let (here, mut log, mut other) = (world("here"), journal("here"), journal("elsewhere"));

    synced(&mut log, &attempt(2, BODY.as_bytes())).await;
    let proof = log.request().unwrap();
    assert!(matches!(sent(&here, proof, BODY).await, Reply::Answer(Answer::Chunks(_))), "the twin is sent");

    synced(&mut log, &attempt(2, BODY.as_bytes())).await;
    let proof = log.request().unwrap();
    assert!(refused(&sent(&here, proof, r#"{"messages":[1]}"#).await), "other bytes");

    synced(&mut log, &attempt(1, BODY.as_bytes())).await;
    let older = log.request().unwrap();
    assert!(refused(&sent(&here, older, BODY).await), "an earlier attempt of the same bytes");

    synced(&mut other, &attempt(2, BODY.as_bytes())).await;
    let foreign = other.request().unwrap();
    assert!(refused(&sent(&here, foreign, BODY).await), "the same attempt of another session");
}

async fn ran(world: &Arc<World>, proof: Durable<ToolCall>) -> crate::call::Done {
    let (_stop, stopped) = watch::channel(false);
    match world.clone().run((CALL, 2), proof, stopped).await {
        Reply::Answer(Answer::Settled { settled, .. }) => settled,
        _ => panic!("not settled"),
    }
}

#[tokio::test]
async fn a_call_starts_only_with_the_proof_of_this_very_run() {
    use terret_core::fact::Outcome;
    let (here, mut log, mut other) = (world("here"), journal("here"), journal("elsewhere"));

    synced(&mut log, &call(2)).await;
    assert_eq!(ran(&here, log.call(CALL).unwrap()).await.outcome, Outcome::Ok, "the twin runs");

    synced(&mut log, &call(1)).await;
    let older = ran(&here, log.call(CALL).unwrap()).await;
    assert_eq!(older.outcome, Outcome::NotStarted, "an earlier run");

    synced(&mut other, &call(2)).await;
    let foreign = ran(&here, other.call(CALL).unwrap()).await;
    assert_eq!(foreign.outcome, Outcome::NotStarted, "the same run of another session");
}

#[tokio::test]
async fn a_journal_gives_a_proof_after_the_sync_and_once() {
    let mut log = journal("here");
    log.push(0, &attempt(1, b"")).unwrap();
    log.push(0, &call(1)).unwrap();
    assert!(log.request().is_none() && log.call(CALL).is_none(), "not written");
    log.write().unwrap();
    assert!(log.request().is_none() && log.call(CALL).is_none(), "not synced");
    log.sync().await.unwrap();
    assert_eq!(log.request().unwrap().seq(), 0);
    assert_eq!(log.call(CALL).unwrap().seq(), 1);
    assert!(log.request().is_none() && log.call(CALL).is_none(), "given out");
    synced(&mut log, &Fact::WriterIdle(WriterIdle {})).await;
    assert!(log.request().is_none() && log.call(CALL).is_none(), "still given out");
}
