//! Reading along: every line from a seq on, once, in order, at the reader's own pace.

use std::time::Duration;

use terret::agent::Subscription;
use terret::limits::READ_ALONG_BYTES;
use terret::store::{FileStore, MemoryStore};

use crate::support::builder;

const SCRIPT: &str = "say one two three\n---\nsay again";

async fn all(mut lines: Subscription) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(bytes) = lines.next().await.unwrap() {
        assert_eq!(bytes.last(), Some(&b'\n'), "whole lines only");
        read.extend(bytes);
    }
    read
}

/// The log from the line of this seq on.
fn tail(log: &[u8], seq: usize) -> Vec<u8> {
    log.split_inclusive(|b| *b == b'\n').skip(seq + 1).flatten().copied().collect()
}

#[tokio::test(start_paused = true)]
async fn from_every_seq_on_each_line_comes_once_whoever_wrote_it_and_whenever() {
    let store = MemoryStore::default();
    let first = builder(SCRIPT).store(store.clone()).create(Some("s".parse().unwrap())).await.unwrap();
    first.prompt("go").await.unwrap();
    first.shutdown().await.unwrap();
    let before = store.bytes("s").unwrap().iter().filter(|b| **b == b'\n').count() - 1;
    // Another writer takes over; readers come before its first line, in the middle of its work, and behind it.
    let second = builder(SCRIPT).store(store.clone()).resume("s").await.unwrap();
    let mut readers = Vec::new();
    let open = async |readers: &mut Vec<_>| {
        for seq in 0..=before + 3 {
            let lines = second.subscribe_from(seq as u64).await.unwrap();
            readers.push((seq, tokio::spawn(all(lines))));
        }
    };
    open(&mut readers).await;
    let receipt = second.followup(second.user("more")).await.unwrap();
    open(&mut readers).await;
    receipt.settled().await.unwrap();
    open(&mut readers).await;
    second.shutdown().await.unwrap();
    drop(second);
    let log = store.bytes("s").unwrap();
    for (seq, reader) in readers {
        let read = reader.await.unwrap();
        assert!(read == tail(&log, seq), "from {seq}: {} bytes, not {}", read.len(), tail(&log, seq).len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_seq_that_is_not_there_yet_is_waited_for() {
    let store = MemoryStore::default();
    let agent = builder(SCRIPT).store(store.clone()).create(Some("s".parse().unwrap())).await.unwrap();
    let reader = tokio::spawn(all(agent.subscribe_from(7).await.unwrap()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    drop(agent);
    assert!(reader.await.unwrap() == tail(&store.bytes("s").unwrap(), 7));
}

#[tokio::test]
async fn a_slow_reader_holds_nobody_up_misses_nothing_and_needs_room_for_one_read() {
    let dir = tempfile::tempdir().unwrap();
    let agent = builder("say ok").store(FileStore::new(dir.path())).create(None).await.unwrap();
    let mut slow = agent.subscribe_from(0).await.unwrap();
    let line = 50 << 10;
    for _ in 0..60 {
        agent.inject(agent.user("x".repeat(line))).await.unwrap();
    }
    assert_eq!(agent.prompt("go").await.unwrap().text, "ok", "nobody waited for the reader");
    let path = agent.look().await.unwrap().log;
    let (mut read, mut largest) = (Vec::new(), 0);
    // Nothing was buffered for it meanwhile: what it gets is as large as one read and the line it began.
    while read.len() < tail(&std::fs::read(&path).unwrap(), 0).len() {
        let next = tokio::time::timeout(Duration::from_secs(10), slow.next()).await;
        let bytes = next.expect("a line is missing").unwrap().unwrap();
        largest = largest.max(bytes.len());
        read.extend(bytes);
    }
    agent.shutdown().await.unwrap();
    drop(agent);
    while let Some(bytes) = slow.next().await.unwrap() {
        read.extend(bytes);
    }
    assert!(read == tail(&std::fs::read(&path).unwrap(), 0));
    let bound = READ_ALONG_BYTES as usize + line + 4096;
    assert!(read.len() > 10 * bound && largest <= bound, "{largest} bytes at once, {bound} allowed");
}
