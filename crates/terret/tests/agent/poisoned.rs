//! A disk that fails under tools that run: they are stopped with everything they started, nothing is acknowledged,
//! and whoever opens the session next says of which calls nobody knows the end.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use terret::agent::Status;
use terret::core::fact::{CallMode, Fact, Outcome, ToolSpec};
use terret::core::input::Recovery;
use terret::inspect;
use terret::store::FileStore;
use terret::testing::{Step, Watched};
use terret::tool::{Done, Shell, Started, Tool, tool};

use crate::support::{builder, events};

const ID: &str = "s";
/// Far beyond what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two commands that are deaf to being asked, each with a child; and a third call that ends.
const SCRIPT: &str = r#"
say working
call shell {"command": "trap '' TERM; sleep 60 & echo $! >a.child; echo a >>ran; echo $$ >a; while :; do sleep 0.1; done"}
call shell {"command": "trap '' TERM; sleep 60 & echo $! >b.child; echo b >>ran; echo $$ >b; while :; do sleep 0.1; done"}
call spoil {}
---
say done
"#;

/// The shell, as if its calls did not get in each other's way.
struct Beside;

impl Tool for Beside {
    fn spec(&self) -> ToolSpec {
        Shell.spec()
    }
    fn mode(&self, _: &str) -> CallMode {
        CallMode::Parallel
    }
    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        Shell.run(started)
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Which steps fail from now on, and how.
type Broken = Arc<Mutex<Option<(fn(Step) -> bool, io::ErrorKind)>>>;

#[tokio::test]
async fn a_write_that_fails_stops_the_tools_that_run() {
    poisoned(|step| step == Step::Append, io::ErrorKind::Other, "a write failed").await;
}

#[tokio::test]
async fn half_a_write_stops_the_tools_that_run() {
    poisoned(|step| step == Step::AppendRest, io::ErrorKind::Other, "a write failed").await;
}

#[tokio::test]
async fn a_sync_that_fails_stops_the_tools_that_run() {
    poisoned(|step| step == Step::Sync, io::ErrorKind::Other, "a sync failed").await;
}

#[tokio::test]
async fn a_disk_that_turns_read_only_stops_the_tools_that_run() {
    poisoned(|_| true, io::ErrorKind::ReadOnlyFilesystem, "read-only").await;
}

async fn poisoned(steps: fn(Step) -> bool, how: io::ErrorKind, said: &str) {
    let dir = tempfile::tempdir().unwrap();
    let broken = Broken::default();
    let watched = {
        let broken = broken.clone();
        Watched::new(move |step| match *broken.lock().unwrap() {
            Some((steps, how)) if steps(step) => Err(how.into()),
            _ => Ok(()),
        })
    };
    let (work, spoiling) = (dir.path().to_owned(), broken.clone());
    let spoil = tool("spoil", "Breaks the disk.", move |_: Nothing| {
        let (work, broken) = (work.clone(), spoiling.clone());
        async move {
            wait_until(|| ["a", "b"].iter().all(|pid| !read(&work, pid).trim().is_empty())).await;
            *broken.lock().unwrap() = Some((steps, how));
            Done::ok("done")
        }
    });
    let store = FileStore::on(Arc::new(watched), dir.path().join("sessions"));
    let agent = builder(SCRIPT).cwd(dir.path()).tool(Beside).tool(spoil.mode(CallMode::Parallel));
    let agent = agent.store(store.clone()).create(Some(ID.parse().unwrap())).await.unwrap();
    let receipt = agent.followup(agent.user("go")).await.unwrap();
    let settled = receipt.settled().await;
    assert!(settled.is_err(), "{settled:?}");
    let idle = agent.when_idle().await.unwrap();
    assert!(idle.broken.as_ref().is_some_and(|why| why.contains(said)), "{idle:?}");
    assert_eq!(agent.status(), Status::Poisoned);
    for pid in ["a", "a.child", "b", "b.child"] {
        let pid = read(dir.path(), pid);
        wait_until(|| !lives(&pid)).await;
    }
    assert!(agent.prompt("more").await.is_err(), "nothing more is taken");
    // Behind this the driver has let go of the session.
    assert!(agent.shutdown().await.is_err(), "a poisoned session ended well");
    let log = std::fs::read(store.log_path(ID)).unwrap();
    assert!(!String::from_utf8_lossy(&log).contains("turn/end"), "an end was written");

    let store = FileStore::new(dir.path().join("sessions"));
    let agent = builder(SCRIPT).cwd(dir.path()).store(store.clone()).resume(ID).await.unwrap();
    agent.recover(Recovery::Close).await.unwrap();
    agent.shutdown().await.unwrap();
    drop(agent);
    assert!(inspect::verify(&store.log_path(ID)).unwrap().holds());
    let log = std::fs::read(store.log_path(ID)).unwrap();
    let results = events(log).into_iter().filter_map(|event| match event.fact {
        Fact::ToolResult(result) => Some((result.call.to_string(), result.outcome)),
        _ => None,
    });
    let unknown: Vec<String> =
        results.filter(|(_, outcome)| *outcome == Outcome::Unknown).map(|(call, _)| call).collect();
    assert!(unknown.starts_with(&["1.1.0".to_owned(), "1.1.1".to_owned()]), "{unknown:?}");
    let mut ran: Vec<String> = read(dir.path(), "ran").lines().map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["a", "b"]);
}

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap_or_default()
}

async fn wait_until(mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited in vain");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process is there and is not merely waiting to be reaped.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
