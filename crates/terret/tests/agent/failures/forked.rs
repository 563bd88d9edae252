//! Sessions that were forked: two files, two writers, nothing between them.

use std::time::Duration;

use terret::core::fact::{CallMode, Cause, Fact};
use terret::store::{FileStore, Scan};

use super::stored::said;
use crate::support::{Notes, builder, endings, events, nap};

const SCRIPT: &str = "call nap {\"note\": \"a\", \"ms\": 300}\n---\nsay done\n---\nsay y";

/// A parent is forked while its tool runs; both go on at once, the fork is forked again and taken away. The parent's
/// file gets the parent's lines, the child begins with the cut prefix under its own name and says where it comes
/// from, and neither queue nor cancel is shared.
#[tokio::test]
async fn case_089_what_a_fork_does_is_written_in_its_own_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (store, notes, nobody) =
        (FileStore::new(dir.path().join("sessions")), Notes::default(), Notes::default());
    let bytes = |id: &str| std::fs::read(store.log_path(id)).unwrap();
    let agent = |notes: &Notes, script: &str| {
        builder(script).store(store.clone()).tool(nap(notes, CallMode::Parallel))
    };
    let parent = agent(&notes, SCRIPT).create(Some("parent".parse().unwrap())).await.unwrap();
    let working = parent.followup(parent.user("go")).await.unwrap();
    while notes.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let running = bytes("parent");

    let child = agent(&nobody, "say z\n---\nsay x\nwait 60000");
    let child = child.fork("parent", None, Some("child".parse().unwrap())).await.unwrap();
    let cut = child.header().parent.clone().unwrap();
    assert_eq!((cut.id.as_str(), child.id().as_str()), ("parent", "child"));
    assert_eq!(cut.seq, Some(events(running.clone()).last().unwrap().seq), "at the end of what was written");
    let prefix =
        |log: &[u8]| log.split_inclusive(|b| *b == b'\n').skip(1).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert!(prefix(&bytes("child")).starts_with(&prefix(&running)));
    let asked = child.followup(child.user("X")).await.unwrap();
    child.cancel(Cause::User { text: None }).await.unwrap();
    asked.settled().await.unwrap();
    assert_eq!(bytes("parent"), running, "the child's cancel is the child's, and so are its lines");

    working.settled().await.unwrap();
    assert_eq!(*notes.lock().unwrap(), ["+a", "-a"], "the parent's tool came to its end");
    parent.followup(parent.user("Y")).await.unwrap().settled().await.unwrap();
    let grandchild = agent(&nobody, "say w").fork("child", None, Some("grandchild".parse().unwrap()));
    let grandchild = grandchild.await.unwrap();
    grandchild.prompt("W").await.unwrap();
    assert_eq!(grandchild.header().parent.as_ref().map(|parent| parent.id.as_str()), Some("child"));
    child.shutdown().await.unwrap();
    grandchild.shutdown().await.unwrap();
    parent.shutdown().await.unwrap();

    let before = bytes("parent");
    assert!(before.starts_with(&running), "the parent only grew");
    store.remove("child", &dir.path().join("trash")).unwrap();
    assert_eq!(bytes("parent"), before);
    for (id, texts) in [("parent", ["go", "Y"].as_slice()), ("grandchild", &["go", "X", "W"])] {
        let told = events(bytes(id));
        assert_eq!(said(&told), texts, "{id}");
        assert_eq!(told.iter().filter(|e| matches!(e.fact, Fact::ToolResult(_))).count(), 1, "{id}");
        assert!(Scan::open(&store.log_path(id)).unwrap().header().id.as_str() == id);
    }
    assert_eq!(endings(&events(before)), ["completed", "completed"]);
    assert_eq!(endings(&events(bytes("grandchild"))), ["interrupted", "aborted", "completed"]);
    assert!(nobody.lock().unwrap().is_empty(), "no tool ran for a fork");
}
