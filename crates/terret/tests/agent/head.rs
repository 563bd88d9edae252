//! What is said of a log's end must be true of the file.

use terret::store::{FileStore, MemoryStore};

use crate::support::builder;

#[tokio::test(start_paused = true)]
async fn opening_without_writing_leaves_the_head_as_it_was() {
    let store = MemoryStore::default();
    let agent = builder("say hi").store(store.clone()).create(None).await.unwrap();
    assert_eq!(agent.look().await.unwrap().head, None, "nothing is written yet");
    agent.prompt("go").await.unwrap();
    let head = agent.look().await.unwrap().head;
    agent.shutdown().await.unwrap();
    let again = builder("say hi").store(store).resume(agent.id().as_str()).await.unwrap();
    assert_eq!(again.look().await.unwrap().head, head);
}

#[tokio::test]
async fn a_store_may_be_named_relative_to_where_the_program_runs() {
    // Relative to the process, which a test must not move: a path below the build directory.
    let dir = tempfile::tempdir_in(".").unwrap();
    let name = dir.path().file_name().unwrap().to_owned();
    std::fs::remove_dir(dir.path()).unwrap();
    let agent = builder("say hi").store(FileStore::new(&name)).create(None).await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    std::fs::remove_dir_all(name).unwrap();
}

#[test]
fn a_log_that_is_a_pipe_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = terret::store::Scan::open(&path).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}
