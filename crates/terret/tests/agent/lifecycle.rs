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
