//! Sessions opened again: nothing that was said is lost, nothing is run or told twice.

use terret::core::fact::{CallMode, Fact, Outcome};
use terret::core::input::Recovery;
use terret::core::line::{Event, SessionHeader, Tip};
use terret::core::message::Block;
use terret::inspect;
use terret::store::{FileStore, MemoryStore, Scan};

use super::server::Server;
use super::stored::{self, ID, said};
use crate::support::{Notes, builder, events, nap, types};

const ANSWER: &str = include_str!("018/r2.sse");

/// The log of these events, numbered and checked anew.
fn encoded(header: &SessionHeader, events: &[Event]) -> Vec<u8> {
    let (mut log, mut tip) = (header.to_line().unwrap(), Tip::default());
    for event in events {
        tip.encode(&mut log, event.time, &event.fact, None).unwrap();
    }
    log
}

/// An answer names pieces that do not exist. The history follows the order of the file and needs no reference, so
/// both turns are in it; the checker says which reference is wrong, and nothing else.
#[tokio::test(start_paused = true)]
async fn case_008_a_dangling_reference_costs_no_history_and_is_reported() {
    let store = MemoryStore::default();
    let agent = builder("say ans\n---\nsay ans2").store(store.clone()).create(None).await.unwrap();
    agent.prompt("first").await.unwrap();
    agent.prompt("second").await.unwrap();
    agent.shutdown().await.unwrap();
    let mut told = events(store.bytes(agent.id().as_str()).unwrap());
    let last = told.iter_mut().rev().find_map(|event| match &mut event.fact {
        Fact::AssistantMessage(answer) => Some((event.seq, answer)),
        _ => None,
    });
    let (at, answer) = last.unwrap();
    answer.sources = vec![[9001, 9002]];
    let log = encoded(agent.header(), &told);

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &log).unwrap();
    let report = inspect::verify(file.path()).unwrap();
    let found: Vec<_> = report.mismatches.iter().map(|m| (m.seq, m.what.as_str())).collect();
    assert_eq!(found, [(at, "an answer names sources that do not stand before it")]);
    assert_eq!((report.bad.is_none(), report.proven), (true, 2));

    store.put("again", log);
    let agent = builder("say ans3").store(store.clone()).resume("again").await.unwrap();
    assert_eq!(agent.prompt("third").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    let mut scan = Scan::new(std::io::Cursor::new(store.bytes("again").unwrap()), "again".as_ref()).unwrap();
    let mut told = Vec::new();
    while let Some(event) = scan.next_event().unwrap() {
        told.push(event.unwrap());
    }
    assert_eq!(said(&told), ["first", "second", "third"]);
}

/// Two sessions in one process, and one of them has not finished when the other begins. Every line lands in the
/// file of its own session.
#[tokio::test]
async fn case_009_each_line_lands_in_the_file_of_its_own_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::new(dir.path());
    let late = "call nap {\"note\": \"a\", \"ms\": 200}\n---\nsay done";
    let tool = nap(&Notes::default(), CallMode::Parallel);
    let a = builder(late).store(store.clone()).tool(tool).create(Some("a".parse().unwrap())).await.unwrap();
    let one = a.followup(a.user("one")).await.unwrap();

    let b = builder("say fine").store(store.clone()).create(Some("b".parse().unwrap())).await.unwrap();
    b.prompt("two").await.unwrap();
    let before = std::fs::read(store.log_path("a")).unwrap();
    one.settled().await.unwrap();
    a.shutdown().await.unwrap();
    let after = std::fs::read(store.log_path("a")).unwrap();
    assert!(after.len() > before.len() && after.starts_with(&before), "A went on behind B's turn");

    let tool = nap(&Notes::default(), CallMode::Parallel);
    let a = builder("say three too").store(store.clone()).tool(tool).resume("a").await.unwrap();
    a.prompt("three").await.unwrap();
    a.shutdown().await.unwrap();
    b.shutdown().await.unwrap();
    for (id, texts) in [("a", &["one", "three"][..]), ("b", &["two"])] {
        let log = std::fs::read(store.log_path(id)).unwrap();
        let header = Scan::open(&store.log_path(id)).unwrap().header().clone();
        assert_eq!(header.id.as_str(), id);
        // Reading checks that seqs are contiguous and chained.
        assert_eq!(said(&events(log)), texts);
        assert!(inspect::verify(&store.log_path(id)).unwrap().holds());
    }
}

/// Opens the log, closes the turn it ends in, and gives it back.
async fn closed(log: Vec<u8>, notes: &Notes) -> Vec<u8> {
    let store = MemoryStore::default();
    store.put(ID, log);
    let tool = nap(notes, CallMode::Parallel);
    let agent = builder("say never").store(store.clone()).tool(tool).resume(ID).await.unwrap();
    agent.recover(Recovery::Close).await.unwrap();
    agent.shutdown().await.unwrap();
    store.bytes(ID).unwrap()
}

/// What a log has more than it had.
fn appended(before: &[u8], after: &[u8]) -> Vec<Event> {
    assert!(after.starts_with(before), "what was there stays");
    events(after.to_vec()).split_off(events(before.to_vec()).len())
}

fn results(told: &[Event]) -> Vec<(String, Outcome, String)> {
    let of = |event: &Event| match &event.fact {
        Fact::ToolResult(r) => match &r.content[..] {
            [Block::Text { text, .. }] => Some((r.call.to_string(), r.outcome, text.clone())),
            other => panic!("{other:?}"),
        },
        _ => None,
    };
    told.iter().filter_map(of).collect()
}

/// Died in a tool. The first opening gives the call its one result, the second has nothing to add, and neither
/// runs anything. The next request answers the call once.
#[tokio::test]
async fn case_010_recovery_answers_an_open_call_once_and_runs_nothing() {
    let notes = Notes::default();
    let log = stored::log(include_str!("010.facts").replace("bash", "nap").as_str());
    let once = closed(log.clone(), &notes).await;
    let added = appended(&log, &once);
    let closers = ["writer/opened", "tool/result", "step/end", "turn/end", "writer/idle"];
    assert_eq!(types(&added), closers);
    let [(call, outcome, text)] = &results(&added)[..] else { panic!("one result") };
    assert_eq!((call.as_str(), *outcome), ("1.1.0", Outcome::Unknown));
    assert!(text.contains("Nobody knows whether it took effect"), "{text}");
    assert_eq!(closed(once.clone(), &notes).await, once, "the second time nothing is added");
    assert!(notes.lock().unwrap().is_empty(), "no tool ran");

    let (server, store) = (Server::playing([ANSWER]).await, MemoryStore::default());
    store.put(ID, once);
    let agent = server.agent().store(store.clone()).resume(ID).await.unwrap();
    agent.prompt("go on").await.unwrap();
    agent.shutdown().await.unwrap();
    let [request] = &server.requests()[..] else { panic!("one request") };
    let answers = request["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool");
    assert_eq!(answers.map(|m| m["tool_call_id"].as_str().unwrap()).collect::<Vec<_>>(), ["call_1"]);
}

/// Two calls, killed when one of them had its result: the pair is completed, the results stand behind the answer in
/// the order of its calls, and the words tell a call that had started from one that never did.
#[tokio::test]
async fn case_012_an_orphaned_call_gets_its_result_and_the_next_request_is_valid() {
    let whole = include_str!("012.facts");
    let started: String = whole.lines().take(whole.lines().count() - 1).map(|l| format!("{l}\n")).collect();
    for (facts, outcome, words) in [
        (whole, Outcome::Unknown, "Nobody knows whether it took effect"),
        (&started, Outcome::NotStarted, "never started"),
    ] {
        let log = stored::log(facts);
        let once = closed(log.clone(), &Notes::default()).await;
        let added = appended(&log, &once);
        let [(call, found, text)] = &results(&added)[..] else { panic!("one result: {added:?}") };
        assert_eq!((call.as_str(), *found), ("1.1.1", outcome));
        assert!(text.contains(words), "{text}");

        let (server, store) = (Server::playing([ANSWER]).await, MemoryStore::default());
        store.put(ID, once);
        let agent = server.agent().store(store.clone()).resume(ID).await.unwrap();
        agent.prompt("and now?").await.unwrap();
        agent.shutdown().await.unwrap();
        let request = &server.requests()[0]["messages"];
        let answer = request.as_array().unwrap().iter().position(|m| m["role"] == "assistant").unwrap();
        assert_eq!(request[answer + 1]["tool_call_id"], "call_a");
        assert_eq!(request[answer + 1]["content"], "A");
        assert_eq!(request[answer + 2]["tool_call_id"], "call_b");
        assert!(request[answer + 2]["content"].as_str().unwrap().contains(words));
    }
}
