//! The side index: opening with it and without it comes to the same, whatever happened to it.

use std::sync::Arc;

use terret::agent::Agent;
use terret::core::fact::{Fact, SurfaceReplaced};
use terret::core::id::{Digest, Seq};
use terret::core::input::Record;
use terret::core::line::Event;
use terret::core::message::Message;
use terret::core::project::Request;
use terret::core::state::State;
use terret::error::Error;
use terret::inspect;
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::store::{Condition, FileStore, Store};
use terret::tool::builtin;

use crate::support::{Home, ID, lines};

const SCRIPT: &str = r#"
say looking around
call glob {"pattern": "*"}
call glob {"pattern": "*.rs"}
---
say that was it, in some more words
---
call glob {"pattern": "*"}
---
say done
---
say and on
---
say and on
---
say and on
"#;

/// What opening comes to.
#[derive(Debug, PartialEq)]
struct Opened {
    state: State,
    conversation: Vec<(Seq, Digest)>,
    request: Option<Digest>,
    accepted: Vec<(Seq, Message)>,
    next: Seq,
    head: Digest,
    epoch: u64,
}

/// Opens the session, and says how many events that took.
fn opened(store: &FileStore) -> Result<(Opened, usize), Error> {
    let (mut state, mut request, mut accepted, mut folded) =
        (State::default(), Request::default(), Vec::new(), 0);
    let opened = store.open(ID, &mut |event: &Event| {
        folded += 1;
        state.apply(&event.fact);
        request.fold(event);
        if let Fact::InboxAdded(added) = &event.fact {
            accepted.push((event.seq, added.message.clone()));
        }
    })?;
    let conversation = request.messages().list().iter().map(|p| (p.seq, p.digest)).collect();
    let header = request.header().cloned();
    let request = header.map(|header| request.digest(&header));
    let (next, head, epoch) = (opened.tip.next_seq(), opened.tip.head(), opened.epoch);
    Ok((Opened { state, conversation, request, accepted, next, head, epoch }, folded))
}

fn index(home: &Home) -> std::path::PathBuf {
    home.session().join("index.jsonl")
}

/// The same without an index.
fn anew(home: &Home) -> (Opened, usize) {
    let aside = home.path().join("aside");
    let there = std::fs::rename(index(home), &aside).is_ok();
    let found = opened(&home.store).unwrap();
    if there {
        std::fs::rename(&aside, index(home)).unwrap();
    }
    found
}

fn builder(home: &Home) -> terret::agent::Builder {
    let player = ScriptAdapter::new().with("test", SCRIPT).unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let builder = Agent::builder(Arc::new(models)).model("script:test").unwrap();
    builder.store(home.store.clone()).tools(builtin()).cwd(home.path())
}

/// Two turns, a replaced past, a restart, another one replaced with the first in it, a message that waits.
async fn session(home: &Home) {
    let agent = builder(home).create(Some(ID.parse().unwrap())).await.unwrap();
    for prompt in ["one", "two"] {
        agent.prompt(prompt).await.unwrap();
    }
    replace(&agent, home, 1).await;
    agent.shutdown().await.unwrap();
    let agent = builder(home).resume(ID).await.unwrap();
    agent.prompt("three").await.unwrap();
    replace(&agent, home, 2).await;
    agent.prompt("four").await.unwrap();
    agent.inject(Message::user("later", "for later")).await.unwrap();
    agent.shutdown().await.unwrap();
}

/// Replaces everything but the last messages of the conversation.
async fn replace(agent: &Agent, home: &Home, keep: usize) {
    let mut request = Request::default();
    let mut scan = terret::store::Scan::open(&home.log()).unwrap();
    while let Some(event) = scan.next_event().unwrap() {
        request.fold(&event.unwrap());
    }
    let list = request.messages().list();
    for last in list[..list.len() - keep].iter().rev() {
        let range = [list[0].seq, last.seq];
        let message = Message::user(format!("summary-{}", last.seq).as_str(), "what was before");
        let replaced = SurfaceReplaced { range, message, by: "test".into() };
        if agent.record(Record::Surface(replaced)).await.is_ok() {
            return;
        }
    }
    panic!("nothing could be replaced");
}

#[tokio::test]
async fn at_every_rest_opening_with_the_index_comes_to_what_opening_without_comes_to() {
    let home = Home::new();
    session(&home).await;
    let (log, records) = (home.bytes(), std::fs::read(index(&home)).unwrap());
    assert!(lines(&records).len() >= 4, "a record for every rest");
    let (whole, all) = anew(&home);
    let (with, folded) = opened(&home.store).unwrap();
    assert_eq!(with, whole);
    assert!(folded < all, "{folded} of {all} events were folded");
    // As a crash or a power cut leaves it at any line: the index is behind, just right, or ahead.
    let mut end = 0;
    for line in lines(&log) {
        end += line.len();
        std::fs::write(home.log(), &log[..end]).unwrap();
        let (without, all) = anew(&home);
        let (with, folded) = opened(&home.store).unwrap();
        assert_eq!(with, without, "cut behind {}", String::from_utf8_lossy(line));
        assert!(folded <= all);
        // The list says the same as a look at everything.
        let (listed, examined) = (home.store.list().unwrap(), home.store.examine().unwrap());
        assert_eq!(format!("{listed:?}"), format!("{examined:?}"));
    }
}

#[tokio::test]
async fn whatever_becomes_of_the_index_only_the_time_changes() {
    let home = Home::new();
    session(&home).await;
    let (whole, all) = anew(&home);
    let records = std::fs::read(index(&home)).unwrap();
    let (mut used, mut spoiled) = (0, 0);
    let mut check = |bytes: &[u8], what: &str| {
        std::fs::write(index(&home), bytes).unwrap();
        let (found, folded) = opened(&home.store).unwrap();
        assert_eq!(found, whole, "{what}");
        *(if folded < all { &mut used } else { &mut spoiled }) += 1;
        let listed = &home.store.list().unwrap()[0];
        assert!(matches!(listed.condition, Condition::Parked), "{what}: {:?}", listed.condition);
    };
    for at in (0..records.len()).step_by(11) {
        check(&records[..at], "cut");
        let mut flipped = records.clone();
        flipped[at] ^= 1 << (at % 8);
        check(&flipped, "flipped");
    }
    let all = lines(&records);
    for at in 0..all.len() {
        let without: Vec<u8> = [&all[..at], &all[at + 1..]].concat().concat();
        check(&without, "a record is missing");
        check(&[&records[..], all[at]].concat(), "a record is repeated");
    }
    check(b"", "empty");
    check(&[0; 4096], "zeros");
    assert!(used > 0 && spoiled > 0, "both happened: {used}, {spoiled}");
}

#[tokio::test]
async fn a_spoiled_index_is_written_over_from_where_it_is_good() {
    let home = Home::new();
    session(&home).await;
    let mut records = std::fs::read(index(&home)).unwrap();
    let last = lines(&records).last().unwrap().len();
    let at = records.len() - last / 2;
    records[at] ^= 1;
    std::fs::write(index(&home), &records).unwrap();
    let agent = builder(&home).resume(ID).await.unwrap();
    agent.prompt("five").await.unwrap();
    agent.shutdown().await.unwrap();
    let (whole, all) = anew(&home);
    let (with, folded) = opened(&home.store).unwrap();
    assert_eq!(with, whole);
    assert!(folded < all, "{folded} of {all}");
    assert!(inspect::verify(&home.log()).unwrap().holds());
}

/// The index of one log lies beside another, whose lines stand in the same places.
#[tokio::test]
async fn the_index_of_another_log_is_not_used() {
    let (one, other) = (Home::new(), Home::new());
    session(&one).await;
    session(&other).await;
    std::fs::copy(index(&other), index(&one)).unwrap();
    // When it was written says nothing here: there is more behind the last rest.
    for tail in ["", "{\"seq\""] {
        std::fs::write(one.log(), [&one.bytes()[..], tail.as_bytes()].concat()).unwrap();
        let (found, folded) = opened(&one.store).unwrap();
        let (whole, all) = anew(&one);
        assert_eq!((found, folded), (whole, all));
    }
}

/// A byte of what the next request says is changed: nobody goes on with that, index or not.
#[tokio::test]
async fn a_changed_line_that_the_next_request_uses_is_met_when_it_is_used() {
    let home = Home::new();
    session(&home).await;
    let log = home.bytes();
    // A turn that a crash left open: the log is longer than the index knows.
    let open = [&log[..], b"{\"seq\""].concat();
    let kind = br#""type":"assistant/message""#;
    let at = log.windows(kind.len()).rposition(|bytes| bytes == kind).unwrap() + kind.len();
    let at = at + log[at..].windows(8).position(|bytes| bytes == br#""text":""#).unwrap();
    let seq = lines(&log[..at]).len() as u64 - 2;
    for mut log in [log, open] {
        log[at + 8] ^= 1;
        std::fs::write(home.log(), &log).unwrap();
        let refused = opened(&home.store).map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, Error::Damaged { seq: found, .. } if found == seq),
            "{refused:?}, not {seq}"
        );
    }
}

/// A byte of a line that nobody needs any more is changed: the log is not as it was left, so all of it is read.
#[tokio::test]
async fn a_log_that_was_changed_since_it_was_left_is_read_from_its_start() {
    let home = Home::new();
    session(&home).await;
    let mut log = home.bytes();
    let kind = br#""type":"assistant/chunk""#;
    let at = log.windows(kind.len()).position(|bytes| bytes == kind).unwrap();
    let seq = lines(&log[..at]).len() as u64 - 2;
    log[at + kind.len() + 4] ^= 1;
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(home.log(), &log).unwrap();
    crate::support::assert_damaged(&home, seq, "a piece of an old answer");
}

#[tokio::test]
async fn after_a_failed_sync_the_log_is_read_from_its_start() {
    let home = Home::new();
    session(&home).await;
    let (_, all) = anew(&home);
    home.mark();
    assert_eq!(opened(&home.store).unwrap().1, all);
}
