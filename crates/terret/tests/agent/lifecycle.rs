//! Sessions made and found again.

use terret::error::Error;
use terret::store::{FileStore, MemoryStore};

use crate::support::builder;

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
