//! Forks: at every event of a log with everything in it, of living and of dead sessions, and of those that are none.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use terret::agent::{Agent, Status};
use terret::core::fact::{CallMode, Cause, Fact, HeaderReason, Rel, Removal};
use terret::core::id::{Seq, SessionId};
use terret::core::input::Record;
use terret::core::line::{Event, Parent, SessionHeader, Tip};
use terret::error::Error;
use terret::inspect;
use terret::store::{Condition, FileStore, Fork, Listed, MemoryStore, Scan, Store, fork};

use crate::support::{Notes, builder, endings, events, nap, types};

const SCRIPT: &str = r#"
say let me
call nap {"note": "a", "ms": 20}
call nap {"note": "b", "ms": 10}
---
fail SERVER once
call nap {"note": "c"}
---
say done
---
say it takes
wait 60000
say for ever
---
call nap {"note": "slow", "ms": 60000}
---
say again
---
say and again
"#;

fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|b| *b == b'\n').collect()
}

/// A session with parallel calls, a retry, a turn cancelled in its stream, one cancelled in a call, and messages
/// that wait.
async fn eventful(store: impl Store + 'static) -> Agent {
    let tool = nap(&Notes::default(), CallMode::Parallel);
    let agent = builder(SCRIPT).store(store).tool(tool).create(Some(id("parent"))).await.unwrap();
    agent.prompt("go").await.unwrap();
    for cause in [Cause::User { text: None }, Cause::Disposed] {
        let in_a_call = cause == Cause::Disposed;
        let receipt = agent.followup(agent.user("go on")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        agent.steer(agent.user("one thing more")).await.unwrap();
        agent.cancel(cause).await.unwrap();
        if in_a_call {
            // The tool is still given time to stop: this wakes what comes after the cancel.
            agent.followup(agent.user("and then")).await.unwrap();
        }
        receipt.settled().await.unwrap();
        agent.when_idle().await.unwrap();
    }
    agent.inject(agent.user("by the way")).await.unwrap();
    agent
}

/// What holds of every fork, whatever it was made of.
fn assert_fork(parent: &[u8], child: &[u8], boundary: Seq) -> Vec<Event> {
    let (before, after) = (lines(parent), lines(child));
    let taken = boundary as usize + 2;
    assert_eq!(before[1..taken], after[1..taken], "its lines as they stand");
    let mut scan = Scan::new(Cursor::new(child), Path::new("child")).unwrap();
    let report = inspect::verify_scan(&mut scan).unwrap();
    assert!(report.holds() && report.open_turn.is_none(), "at {boundary}: {report:?}");
    let header = scan.header();
    assert_eq!(header.parent, Some(Parent { id: id("parent"), seq: Some(boundary), h: head(parent, taken) }));
    let all = events(child.to_vec());
    let own = &all[taken - 1..];
    assert!(matches!(own[0].fact, Fact::WriterOpened(_)), "at {boundary}: {own:?}");
    assert!(matches!(own.last().unwrap().fact, Fact::WriterIdle(_)), "at {boundary}: {own:?}");
    assert_eq!(scan.synced(), Some(own.last().unwrap().seq - 1), "all of it was synced");
    own.to_vec()
}

/// The chain's value behind so many lines.
fn head(log: &[u8], taken: usize) -> terret::core::id::Digest {
    let mut tip = Tip::default();
    for line in &lines(log)[1..taken] {
        tip.check(&line[..line.len() - 1]).unwrap();
    }
    tip.head()
}

#[tokio::test(start_paused = true)]
async fn at_every_event_the_child_is_closed_without_running_anything_and_goes_on() {
    let store = MemoryStore::default();
    eventful(store.clone()).await.shutdown().await.unwrap();
    let parent = store.bytes("parent").unwrap();
    let all = events(parent.clone());
    let names = types(&all);
    let told = all.iter().map(|e| e.fact.type_name()).collect::<Vec<_>>();
    assert!(told.windows(2).any(|two| two == ["turn/cancel", "inbox/added"]), "a wake behind a cancel");
    for needed in ["request/retry", "turn/cancel", "assistant/message", "tool/result"] {
        assert!(names.contains(&needed), "{needed}");
    }
    let forks = all.iter().map(|event| event.seq);
    for boundary in forks {
        let (name, notes) = (format!("at-{boundary}"), Notes::default());
        let tool = nap(&notes, CallMode::Parallel);
        let agent = builder("say on my own").store(store.clone()).tool(tool);
        let agent = agent.fork("parent", Some(boundary), Some(id(&name))).await.unwrap();
        let own = assert_fork(&parent, &store.bytes(&name).unwrap(), boundary);
        assert_eq!(agent.status(), Status::Idle, "at {boundary}");
        assert!(agent.look().await.unwrap().pending.is_empty(), "at {boundary}");
        let closers = types(&own);
        assert!(closers.iter().all(|name| !name.starts_with("tool/call")), "at {boundary}: {closers:?}");

        let outcome = agent.prompt("and you?").await.unwrap();
        let turns = all[..=boundary as usize].iter().filter(|e| matches!(e.fact, Fact::TurnStart(_))).count();
        assert_eq!((outcome.ending.word(), outcome.turn as usize), ("completed", turns + 1), "at {boundary}");
        agent.shutdown().await.unwrap();
        assert_eq!(*notes.lock().unwrap(), Vec::<String>::new(), "at {boundary}: no tool ran");
        let told = events(store.bytes(&name).unwrap());
        let reasons = |told: &[Event]| {
            let headers = told.iter().filter_map(|e| match &e.fact {
                Fact::RequestHeader(header) => Some(header.reason),
                _ => None,
            });
            headers.collect::<Vec<_>>()
        };
        let (before, own) = told.split_at(boundary as usize + 1);
        let first = if reasons(before).is_empty() { HeaderReason::Initial } else { HeaderReason::Resume };
        assert_eq!(reasons(own), [first], "at {boundary}");
    }
    assert_eq!(store.bytes("parent").unwrap(), parent, "the parent is as it was");
}

#[tokio::test(start_paused = true)]
async fn files_fork_like_memory_and_the_child_needs_no_parent() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let store = FileStore::new(dir.path().join("sessions"));
    eventful(store.clone()).await.shutdown().await.unwrap();
    let parent = std::fs::read(store.log_path("parent")).unwrap();
    let last = events(parent.clone()).len() as Seq - 1;
    for boundary in 0..=last {
        let name = format!("at-{boundary}");
        let plan = Fork { boundary: Some(boundary), id: id(&name), now: 1, plugins: vec![] };
        fork(|| store.read("parent"), &store, plan).unwrap();
        assert_fork(&parent, &std::fs::read(store.log_path(&name)).unwrap(), boundary);
        let listed = Listed::of(&store.log_path(&name));
        assert!(matches!(listed.condition, Condition::Idle), "nobody holds it: {listed:?}");
    }
    assert_eq!(std::fs::read(store.log_path("parent")).unwrap(), parent);
    std::fs::remove_dir_all(store.sessions().join("parent")).unwrap();
    assert!(inspect::verify(&store.log_path("at-30")).unwrap().holds());
    let agent = builder("say alone").store(store.clone()).resume(&format!("at-{last}")).await.unwrap();
    assert_eq!(agent.prompt("still there?").await.unwrap().text, "alone");
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_forked_at_its_end_gives_its_events_and_a_writer() {
    let store = MemoryStore::default();
    let agent = builder("say hello").cwd("/w").store(store.clone()).create(Some(id("parent"))).await.unwrap();
    agent.prompt("hi").await.unwrap();
    let parent = store.bytes("parent").unwrap();
    let last = events(parent.clone()).len() as Seq - 1;
    let child = builder("say x").store(store.clone()).fork("parent", None, None).await.unwrap();
    let own = assert_fork(&parent, &store.bytes(child.id().as_str()).unwrap(), last);
    assert_eq!(types(&own), ["writer/opened", "writer/idle"]);
    assert_eq!((child.header().cwd.as_str(), child.header().origin.is_none()), ("/w", true));
    assert_ne!(child.id(), agent.id());
}

#[tokio::test(start_paused = true)]
async fn a_session_without_events_gives_a_child_with_none_but_its_own() {
    let store = MemoryStore::default();
    let agent = builder("say hello").store(store.clone()).create(Some(id("parent"))).await.unwrap();
    let child = builder("say hello").store(store.clone()).fork("parent", None, Some(id("c"))).await.unwrap();
    let parent = Parent { id: id("parent"), seq: None, h: Tip::default().head() };
    assert_eq!(child.header().parent, Some(parent));
    assert_eq!(types(&events(store.bytes("c").unwrap())), ["writer/opened", "writer/idle"]);
    let outcome = child.prompt("hi").await.unwrap();
    assert_eq!((outcome.turn, outcome.text.as_str()), (1, "hello"));
    let mut scan = Scan::new(Cursor::new(store.bytes("c").unwrap()), Path::new("c")).unwrap();
    assert!(inspect::verify_scan(&mut scan).unwrap().holds());
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_noted_behind_the_last_turn_is_a_boundary_too() {
    let store = MemoryStore::default();
    let agent = builder("say hello").store(store.clone()).create(Some(id("parent"))).await.unwrap();
    agent.prompt("hi").await.unwrap();
    let note = |rel| {
        let (kind, data) = ("x/notes/taken".to_owned(), terret::core::raw::Raw::parse("{}").unwrap());
        Record::Plugin(terret::core::fact::PluginEvent { kind, rel, v: 1, data })
    };
    agent.record(note(Rel::View)).await.unwrap();
    agent.shutdown().await.unwrap();
    let parent = store.bytes("parent").unwrap();
    let at = types(&events(parent.clone())).iter().rposition(|name| *name == "x/notes/taken");
    let chunks = events(parent.clone()).len() - types(&events(parent.clone())).len();
    let at = (at.unwrap() + chunks) as Seq;
    builder("say x").store(store.clone()).fork("parent", Some(at), Some(id("c"))).await.unwrap();
    let own = assert_fork(&parent, &store.bytes("c").unwrap(), at);
    assert_eq!(types(&own), ["writer/opened", "writer/idle"]);

    // What later requests depend on, of a plugin that is not here: up to there and no further.
    let agent = builder("say hello").store(store.clone()).resume("parent").await.unwrap();
    agent.record(note(Rel::Context)).await.unwrap();
    agent.shutdown().await.unwrap();
    let forked = builder("say x").store(store.clone()).fork("parent", None, Some(id("d"))).await;
    assert!(matches!(forked.err().unwrap(), Error::MissingPlugin { plugin, .. } if plugin == "notes"));
    assert!(store.bytes("d").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_boundary_that_is_none_is_refused_and_says_where_the_log_ends() {
    let store = MemoryStore::default();
    let agent = builder("say hello").store(store.clone()).create(Some(id("parent"))).await.unwrap();
    let at = |boundary| builder("say x").store(store.clone()).fork("parent", Some(boundary), Some(id("c")));
    let refused = at(0).await.err().unwrap();
    assert_eq!(refused.to_string(), "session `parent` has no event 0: it has none yet");
    agent.prompt("hi").await.unwrap();
    let last = events(store.bytes("parent").unwrap()).len() as Seq - 1;
    for beyond in [last + 1, u64::MAX] {
        let refused = at(beyond).await.err().unwrap();
        let expected = format!("session `parent` has no event {beyond}: its last one is {last}");
        assert_eq!(refused.to_string(), expected);
    }
    assert!(store.bytes("c").is_none(), "nothing was made");
    at(last).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_not_there_and_an_id_that_is_taken_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (files, memory) = (FileStore::new(dir.path().join("sessions")), MemoryStore::default());
    async fn check(store: impl Store + Clone + 'static) {
        let forked = builder("say x").store(store.clone()).fork("nobody", None, Some(id("c"))).await;
        assert!(matches!(forked.err().unwrap(), Error::NoSession(name) if name == "nobody"));
        let agent = builder("say hello").store(store.clone()).create(Some(id("parent"))).await.unwrap();
        agent.prompt("hi").await.unwrap();
        for taken in ["parent", "c"] {
            if taken == "c" {
                drop(
                    builder("say x").store(store.clone()).fork("parent", None, Some(id("c"))).await.unwrap(),
                );
            }
            let forked = builder("say x").store(store.clone()).fork("parent", None, Some(id(taken))).await;
            assert!(matches!(forked.err().unwrap(), Error::Exists(id) if id.as_str() == taken));
        }
        // An agent that is gone is as good a source as one that lives.
        agent.shutdown().await.unwrap();
        drop(agent);
        builder("say x").store(store).fork("parent", None, None).await.unwrap();
    }
    check(files).await;
    check(memory).await;
}

#[tokio::test(start_paused = true)]
async fn every_ending_of_a_turn_is_a_boundary_with_nothing_to_close() {
    let script = "say hello\n---\nsay cut\nfinish max-tokens\n---\nfail AUTH always\n---\nsay x";
    let store = MemoryStore::default();
    let agent = builder(script).store(store.clone()).create(Some(id("parent"))).await.unwrap();
    for _ in 0..3 {
        agent.prompt("go").await.unwrap();
    }
    agent.shutdown().await.unwrap();
    let first = store.bytes("parent").unwrap();
    let mut seen = endings(&events(first.clone()));
    let second = MemoryStore::default();
    eventful(second.clone()).await.shutdown().await.unwrap();
    for (store, parent) in [(store, first), (second.clone(), second.bytes("parent").unwrap())] {
        for event in events(parent.clone()).iter().filter(|e| matches!(e.fact, Fact::TurnEnd(_))) {
            let name = format!("at-{}", event.seq);
            let agent = builder("say x").store(store.clone());
            agent.fork("parent", Some(event.seq), Some(id(&name))).await.unwrap();
            let own = assert_fork(&parent, &store.bytes(&name).unwrap(), event.seq);
            let closers: Vec<_> = types(&own).into_iter().filter(|name| *name != "inbox/removed").collect();
            assert_eq!(closers, ["writer/opened", "writer/idle"], "at {}", event.seq);
        }
        seen.extend(endings(&events(parent)));
    }
    for word in ["completed", "max-tokens", "error", "aborted"] {
        assert!(seen.contains(&word), "{word}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_stays_with_the_parent_and_is_read_there() {
    let (store, script) = (MemoryStore::default(), "say long\nwait 60000\n---\nsay later\n---\nsay more");
    let agent = builder(script).store(store.clone()).create(Some(id("parent"))).await.unwrap();
    let receipt = agent.followup(agent.user("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    agent.followup(agent.user("one")).await.unwrap();
    agent.inject(agent.user("two")).await.unwrap();
    agent.cancel(Cause::User { text: None }).await.unwrap();
    receipt.settled().await.unwrap();
    let waiting: Vec<_> = agent.look().await.unwrap().pending.into_iter().map(|p| p.id).collect();
    assert_eq!(waiting.len(), 2);
    let child = builder("say x").store(store.clone()).fork("parent", None, Some(id("c"))).await.unwrap();
    let told = events(store.bytes("c").unwrap());
    let removed: Vec<_> = told
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::InboxRemoved(removed) if removed.why == Removal::Fork => Some(removed.msgs.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(removed, std::slice::from_ref(&waiting));
    child.prompt("on").await.unwrap();
    assert!(events(store.bytes("parent").unwrap()).iter().all(|e| !matches!(e.fact, Fact::InboxRemoved(_))));
    agent.release(waiting.clone()).await.unwrap();
    agent.when_idle().await.unwrap();
    let read = |name: &str| {
        let told = events(store.bytes(name).unwrap());
        let all = told.into_iter().filter_map(|e| match e.fact {
            Fact::UserMessage(user) => Some(user.message.id),
            _ => None,
        });
        all.collect::<Vec<_>>()
    };
    assert!(waiting.iter().all(|id| read("parent").contains(id) && !read("c").contains(id)));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_parent_is_forked_before_the_damage_and_a_torn_tail_is_left_behind() {
    let store = MemoryStore::default();
    eventful(store.clone()).await.shutdown().await.unwrap();
    let whole = store.bytes("parent").unwrap();
    let bad: usize = 20;
    let mut damaged = whole.clone();
    let at = lines(&whole)[..bad + 1].concat().len() + 30;
    damaged[at] ^= 1;
    store.put("damaged", damaged.clone());
    let forked = |source: &'static str, boundary, name: &str| {
        builder("say x").store(store.clone()).fork(source, boundary, Some(id(name)))
    };
    for boundary in [None, Some(bad as Seq), Some(bad as Seq + 5)] {
        let refused = forked("damaged", boundary, "c").await.err().unwrap();
        assert!(matches!(refused, Error::Damaged { seq, .. } if seq == bad as Seq), "{refused}");
        assert!(store.bytes("c").is_none());
    }
    forked("damaged", Some(bad as Seq - 1), "c").await.unwrap();
    assert_fork(&whole, &store.bytes("c").unwrap(), bad as Seq - 1);
    assert_eq!(store.bytes("damaged").unwrap(), damaged);

    for cut in [1, 10] {
        // Up to the first acknowledgement nobody was promised anything.
        let keep = lines(&whole)[..3].concat().len();
        let torn = whole[..keep - cut].to_vec();
        store.put("torn", torn.clone());
        let name = format!("t-{cut}");
        forked("torn", None, &name).await.unwrap();
        // The line that lacks its newline alone is whole.
        let taken = if cut == 1 { 1 } else { 0 };
        assert_fork(&whole, &store.bytes(&name).unwrap(), taken);
        assert_eq!(store.bytes("torn").unwrap(), torn);
    }
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_not_the_parents_are_found() {
    let store = MemoryStore::default();
    eventful(store.clone()).await.shutdown().await.unwrap();
    builder("say x").store(store.clone()).fork("parent", Some(12), Some(id("c"))).await.unwrap();
    let child = store.bytes("c").unwrap();
    let found = |log: Vec<u8>| {
        let mut scan = Scan::new(Cursor::new(log), Path::new("c")).unwrap();
        let report = inspect::verify_scan(&mut scan).unwrap();
        assert!(report.bad.is_none());
        report.mismatches.into_iter().map(|m| (m.seq, m.what)).collect::<Vec<_>>()
    };
    assert_eq!(found(child.clone()), []);

    // An edit with every checksum and every link of the chain made anew.
    let told = events(child.clone());
    let mut scan = Scan::new(Cursor::new(child.clone()), Path::new("c")).unwrap();
    let header = scan.header().clone();
    let (mut log, mut tip) = (header.to_line().unwrap(), Tip::default());
    while let Some(Ok(mut event)) = scan.next_event().unwrap() {
        event.time += u64::from(event.seq == 3);
        tip.encode(&mut log, event.time, &event.fact, None).unwrap();
    }
    assert_eq!(events(log.clone()).len(), told.len());
    assert_eq!(found(log), [(12, "chain at the fork".to_owned())]);

    // A header that is not the one it was made with.
    let line = SessionHeader { cwd: "/elsewhere".into(), ..header }.to_line().unwrap();
    let moved = [&line, &lines(&child)[1..].concat()[..]].concat();
    assert_eq!(found(moved), [(13, "header line".to_owned())]);

    // Cut at a line below the fork.
    let cut = lines(&child)[..8].concat();
    assert_eq!(found(cut), [(7, "events taken along from the parent".to_owned())]);
}
