//! A full disk. The limit on the size of files stands for it; it holds for a whole process, so each case runs
//! in one of its own.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terret::agent::Agent;
use terret::core::fact::{EndReason, Fact};
use terret::error::Error;
use terret::inspect;
use terret::limits::RESERVE_BYTES;
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::store::{FileStore, Journal, Store};
use terret::testing::{Step, Watched};
use terret::tool::{Done, tool};

use crate::support::{Home, ID, lines, read, whole_log, write_first};

/// Runs an ignored test of this file in a process that gets an error, not a signal, from a full disk.
fn alone(name: &str) {
    let script = r#"trap '' XFSZ; exec "$0" --ignored --exact "$1""#;
    let me = std::env::current_exe().unwrap();
    let out = Command::new("sh").args(["-c", script]).arg(me).arg(format!("full::{name}")).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

/// No file grows beyond this.
fn room(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

fn reserve(home: &Home) -> Option<u64> {
    home.session().join("reserve").metadata().ok().map(|m| m.len())
}

fn again(journal: &mut Journal, fact: &Fact) -> Result<bool, Error> {
    journal.push(2, fact)?;
    journal.write()
}

#[test]
fn a_torn_tail_is_kept_and_cut_once_there_is_room() {
    alone("torn_tail");
}

#[tokio::test]
#[ignore = "runs in a process of its own"]
async fn torn_tail() {
    let log = whole_log().await;
    let home = Home::with(&[&log, b"torn".as_slice()].concat());
    let before = home.files();
    room(Some(0));
    let (mut journal, first) = write_first(home.open().unwrap());
    assert!(matches!(first, Err(Error::Full { .. })), "{first:?}");
    assert_eq!(home.files(), before, "nothing was lost, nothing half done");
    let second = journal.write();
    assert!(matches!(second, Err(Error::Full { .. })), "{second:?}");
    room(None);
    journal.write().unwrap();
    assert_eq!(home.torn(), [b"torn"]);
    assert_eq!(reserve(&home), Some(RESERVE_BYTES));
    journal.sync().await.unwrap();
    assert!(inspect::verify(&home.log()).unwrap().bad.is_none());
}

#[test]
fn a_missing_newline_is_added_once_there_is_room() {
    alone("newline");
}

#[tokio::test]
#[ignore = "runs in a process of its own"]
async fn newline() {
    let log = whole_log().await;
    let home = Home::with(&log[..log.len() - 1]);
    room(Some(log.len() as u64 - 1));
    let (mut journal, first) = write_first(home.open().unwrap());
    assert!(matches!(first, Err(Error::Full { .. })), "{first:?}");
    assert_eq!(home.bytes(), &log[..log.len() - 1]);
    room(None);
    journal.write().unwrap();
    assert_eq!(lines(&home.bytes()).len(), lines(&log).len() + 1);
    assert!(read(home.bytes(), &home.log()).1.is_none());
}

/// However the system says it, and wherever in the line it says it.
#[tokio::test]
async fn each_way_to_say_that_there_is_no_room_is_understood() {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    for (kind, at) in [StorageFull, QuotaExceeded, FileTooLarge]
        .map(|kind| [(kind, Step::Append), (kind, Step::AppendRest)])
        .concat()
    {
        let home = Home::with(&whole_log().await);
        let full = Arc::new(AtomicBool::new(true));
        let asked = full.clone();
        let disk = Watched::new(move |step| match step == at && asked.load(Ordering::Relaxed) {
            true => Err(kind.into()),
            false => Ok(()),
        });
        let store = FileStore::on(Arc::new(disk), home.store.sessions());
        let before = home.bytes();
        let opened = store.open(ID, &mut |_| {}).unwrap();
        let (mut journal, first) = write_first(opened);
        assert!(matches!(first, Err(Error::Full { .. })), "{kind} {at:?}: {first:?}");
        assert_eq!(home.bytes(), before, "{kind} {at:?}: half a line stayed");
        full.store(false, Ordering::Relaxed);
        journal.write().unwrap();
        assert!(inspect::verify(&home.log()).unwrap().bad.is_none(), "{kind} {at:?}");
    }
}

#[test]
fn the_reserve_is_given_up_and_made_again() {
    alone("reserve_again");
}

#[tokio::test]
#[ignore = "runs in a process of its own"]
async fn reserve_again() {
    let home = Home::with(&whole_log().await);
    let opened = home.open().unwrap();
    let fact = Fact::WriterOpened(opened.writer());
    let (mut journal, first) = write_first(opened);
    first.unwrap();
    for round in 0..3 {
        assert_eq!(reserve(&home), Some(RESERVE_BYTES), "round {round}");
        let before = home.bytes();
        room(Some(before.len() as u64 + 10));
        assert!(matches!(again(&mut journal, &fact), Err(Error::Full { .. })), "round {round}");
        assert_eq!((home.bytes(), reserve(&home)), (before, None), "round {round}");
        // Room for the closers and no more: they get all of it.
        room(Some(home.bytes().len() as u64 + 2000));
        journal.write().unwrap();
        assert_eq!(reserve(&home), None, "round {round}");
        room(None);
        again(&mut journal, &fact).unwrap();
    }
    journal.sync().await.unwrap();
    assert!(inspect::verify(&home.log()).unwrap().bad.is_none());
}

#[test]
fn case_006_a_disk_that_fills_up_under_a_turn() {
    alone("fills_up");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// The result of a tool does not fit: a part of its line reaches the disk. That part is taken back, the turn ends
/// with an error that says why, and no tool ran that the log does not know. Once there is room the same process goes
/// on behind whole lines. What a command says about its own disk is a result like any other.
#[tokio::test]
#[ignore = "runs in a process of its own"]
async fn fills_up() {
    let home = Home::new();
    let (log, ran) = (home.log(), Arc::new(AtomicU32::new(0)));
    let count = ran.clone();
    let big = tool("big", "Prints much.", move |_: Nothing| {
        count.fetch_add(1, Ordering::Relaxed);
        // Room for the lines that close a turn, and not for the result.
        room(Some(std::fs::metadata(&log).unwrap().len() + 4000));
        async { Done::ok("x".repeat(100 << 10)) }
    });
    let cp = tool("cp", "Copies.", |_: Nothing| async {
        Done::error("Exit", "EXIT", "No space left on device (os error 28)")
    });
    let script = "call big {}\n---\nsay hello\n---\ncall cp {}\n---\nsay I see\n";
    let player = ScriptAdapter::new().with("test", script).unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let builder = Agent::builder(Arc::new(models)).model("script:test").unwrap().tool(big).tool(cp);
    let agent = builder.store(home.store.clone()).create(Some(ID.parse().unwrap())).await.unwrap();

    let ending = agent.prompt("run the big tool").await.unwrap().ending;
    assert!(matches!(&ending, EndReason::Error { failure } if failure.code == "STORE_FULL"), "{ending:?}");
    let (events, bad) = read(home.bytes(), &home.log());
    assert!(bad.is_none(), "half a line stayed: {bad:?}");
    let types: Vec<_> = events.iter().map(|e| e.fact.type_name()).collect();
    assert!(
        types.ends_with(&["tool/call", "tool/result", "step/end", "turn/end", "writer/idle"]),
        "{types:?}"
    );
    assert_eq!(ran.load(Ordering::Relaxed), 1);

    room(None);
    for (prompt, answer) in [("hello", "hello"), ("copy a file", "I see")] {
        let outcome = agent.prompt(prompt).await.unwrap();
        assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", answer));
    }
    agent.shutdown().await.unwrap();
    assert!(home.bytes().windows(29).any(|w| w == b"No space left on device (os e"));
    assert!(inspect::verify(&home.log()).unwrap().holds());
    home.go_on().unwrap();
}
