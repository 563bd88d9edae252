//! Sessions made and found again.

use std::time::Duration;

use terret::agent::Settlement;
use terret::core::fact::{CallMode, Cause, EndReason};
use terret::error::Error;
use terret::policy::Budget;
use terret::store::{FileStore, MemoryStore};

use crate::faults::Faulty;
use crate::support::{Notes, builder, nap};

#[tokio::test(start_paused = true)]
async fn a_session_that_is_nowhere_cannot_be_resumed() {
    let found = builder("say hi").store(MemoryStore::default()).resume("nobody").await.map(|_| ());
    assert!(matches!(found, Err(Error::NoSession(id)) if id == "nobody"));
}

#[tokio::test]
async fn an_id_means_one_session_wherever_it_works() {
    let (dir, id) = (tempfile::tempdir().unwrap(), || Some("one".parse().unwrap()));
    let store = FileStore::new(dir.path());
    let first = builder("say hi").store(store.clone()).cwd("/").create(id()).await.unwrap();
    first.prompt("go").await.unwrap();
    first.shutdown().await.unwrap();
    let before = std::fs::read(store.log_path("one")).unwrap();
    let second = builder("say hi").store(store.clone()).cwd("/tmp").create(id()).await.map(|_| ());
    assert!(matches!(second, Err(Error::Exists(_))));
    assert_eq!(std::fs::read(store.log_path("one")).unwrap(), before);
}

#[tokio::test]
async fn a_copy_under_another_name_is_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::new(dir.path());
    let agent = builder("say hi").store(store.clone()).create(Some("one".parse().unwrap())).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    // A torn tail: even that is left as it is.
    let log = [std::fs::read(store.log_path("one")).unwrap(), b"{\"seq\":".to_vec()].concat();
    std::fs::create_dir(dir.path().join("two")).unwrap();
    std::fs::write(store.log_path("two"), &log).unwrap();
    let found = builder("say hi").store(store.clone()).resume("two").await.map(|_| ());
    let Err(Error::NotALog { why, .. }) = found else { panic!("{found:?}") };
    assert!(why.contains("session `one`"), "{why}");
    assert_eq!(std::fs::read(store.log_path("two")).unwrap(), log);
    assert!(terret::inspect::verify(&store.log_path("one")).unwrap().holds());
}

#[tokio::test(start_paused = true)]
async fn a_turn_nobody_holds_any_more_still_has_its_limits() {
    for (limits, which) in [
        (Budget { wall_time: Some(Duration::from_secs(60)), ..Budget::default() }, "wall-time-ms"),
        (Budget { steps: Some(1), ..Budget::default() }, "steps"),
    ] {
        let (store, notes) = (MemoryStore::default(), Notes::default());
        let ms = if which == "steps" { 10 } else { 3_600_000 };
        let script = format!("call nap {{\"note\": \"a\", \"ms\": {ms}}}\n---\nsay on");
        let tool = nap(&notes, CallMode::Parallel);
        let agent =
            builder(&script).store(store.clone()).tool(tool).plugin(limits).create(None).await.unwrap();
        let (id, receipt) = (agent.id().to_string(), agent.followup(agent.user("go")).await.unwrap());
        drop(agent);
        let Settlement::Ended(outcome) = receipt.settled().await.unwrap() else { panic!("not ended") };
        let EndReason::Aborted { cause: Cause::Budget { which: named, .. } } = outcome.ending else {
            panic!("{:?}", outcome.ending)
        };
        assert_eq!(named, which);
        // And then it lets go of the session.
        tokio::time::sleep(Duration::from_millis(10)).await;
        builder("say again").store(store).resume(&id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn putting_away_what_cannot_be_synced_says_so() {
    let (store, notes) = (Faulty::default(), Notes::default());
    let tool = nap(&notes, CallMode::Parallel);
    let script = "call nap {\"note\": \"a\", \"ms\": 1000}";
    let agent = builder(script).store(store.clone()).tool(tool).create(None).await.unwrap();
    agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.plan.lock().unwrap().fail_next_sync();
    assert!(matches!(agent.shutdown().await, Err(Error::Poisoned { .. })));
}
