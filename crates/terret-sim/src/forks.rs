//! A long session with everything in it, forked at every event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terret::agent::Agent;
use terret::clock::{Clock, Ids};
use terret::core::fact::{CallMode, Cause, EffectClass};
use terret::core::line::SessionHeader;
use terret::core::message::Message;
use terret::core::project::Request;
use terret::inspect::verify_scan;
use terret::policy::Retry;
use terret::store::{FileStore, Fork, Store, fork};
use terret::testing::scripted;
use terret::tool::{Done, FunctionTool, tool};
use tokio::time::sleep;

use crate::fs::{Calm, SimFs};
use crate::limits::{EPOCH_MS, FORK_EVENTS};

const PARENT: &str = "parent";
const CHILD: &str = "child";
const SESSIONS: &str = "/sessions";
/// What the model plays, over and over: several calls, a retry, a silence that is cut short by whoever waits.
const SCRIPT: &str = "
say let me look at it
call nap {\"ms\": 20}
call nap {\"ms\": 10}
---
fail SERVER times=3
call nap {\"ms\": 0}
---
say done with that
---
say it takes
wait 60000
say for ever
---
call nap {\"ms\": 60000}
---
think about it once more
say and here is the answer
";

/// Counts time from a fixed moment, a millisecond a look; mints ids in order.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicU64>);

impl Clock for Counted {
    fn epoch_ms(&self) -> u64 {
        EPOCH_MS + self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl Ids for Counted {
    fn fresh(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn store(fs: &SimFs) -> FileStore {
    FileStore::on(Arc::new(fs.clone()), SESSIONS)
}

fn disk() -> SimFs {
    SimFs::new(0, Arc::new(Calm))
}

/// A session, and what it projects at each of its events.
pub struct Parent {
    fs: SimFs,
    log: Vec<u8>,
    /// Messages of the next request behind each event.
    messages: Vec<Vec<Arc<Message>>>,
}

impl Parent {
    /// Lives through it: tools, retries, cancels in a stream and in a call, edits of the queue. The same every time.
    pub fn live() -> Result<Parent, String> {
        let fs = disk();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        runtime.block_on(session(store(&fs)))?;
        let log = bytes(&fs, PARENT);
        let (mut request, mut messages) = (Request::default(), Vec::new());
        let mut scan = store(&fs).read(PARENT).map_err(|e| e.to_string())?;
        while let Some(event) = scan.next_event().map_err(|e| e.to_string())? {
            request.fold(&event.map_err(|bad| format!("{bad:?}"))?);
            messages.push(shown(&request));
        }
        Ok(Parent { fs, log, messages })
    }

    /// Its log.
    pub fn log(&self) -> &[u8] {
        &self.log
    }

    /// How many events it has.
    pub fn events(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Forks it at this event. The child opens, can be proven, and says what the parent said there; the parent is
    /// as it was.
    pub fn fork(&self, at: u64) -> Result<(), String> {
        let (source, into) = (store(&self.fs), store(&disk()));
        let id = CHILD.parse().map_err(|e| format!("{e}"))?;
        let plan = Fork { boundary: Some(at), id, now: EPOCH_MS, plugins: Vec::new() };
        let header =
            fork(|| source.read(PARENT), &into, plan).map_err(|e| format!("it cannot be forked: {e}"))?;
        self.check(at, &header, &into)
    }

    fn check(&self, at: u64, header: &SessionHeader, into: &FileStore) -> Result<(), String> {
        let holds = |is: bool, what: &str| if is { Ok(()) } else { Err(what.to_owned()) };
        let of_parent = header.parent.as_ref().is_some_and(|from| from.seq == Some(at));
        holds(of_parent, "it does not name its parent")?;
        let mut scan = into.read(CHILD).map_err(|e| format!("it cannot be read: {e}"))?;
        let report = verify_scan(&mut scan).map_err(|e| format!("it cannot be verified: {e}"))?;
        holds(report.holds(), "it cannot be proven")?;
        let (mut request, mut same, mut own) = (Request::default(), false, 0);
        let mut scan = into.read(CHILD).map_err(|e| format!("it cannot be read: {e}"))?;
        while let Some(Ok(event)) = scan.next_event().map_err(|e| e.to_string())? {
            if event.seq <= at {
                request.fold(&event);
            } else {
                own += 1;
            }
            if event.seq == at {
                same = shown(&request) == self.messages[at as usize];
            }
        }
        let opened = into.open(CHILD, &mut |_| {}).map_err(|e| format!("it does not open: {e}"))?;
        holds(same, "it does not say what its parent says there")?;
        holds(own > 0 && opened.cut_bytes.is_none(), "it has no writer of its own")?;
        holds(bytes(&self.fs, PARENT) == self.log, "its parent was changed")
    }
}

fn shown(request: &Request) -> Vec<Arc<Message>> {
    request.messages().list().iter().map(|projected| projected.message.clone()).collect()
}

fn bytes(fs: &SimFs, id: &str) -> Vec<u8> {
    fs.look(format!("{SESSIONS}/{id}/log.jsonl").as_ref(), |log| log.unwrap_or_default().to_vec())
}

async fn session(store: FileStore) -> Result<(), String> {
    let said = |e: terret::Error| e.to_string();
    let counted = Counted::default();
    let retry = Retry { max: 3, base_ms: 1, ..Retry::default() };
    let builder = scripted(SCRIPT).map_err(|e| e.message)?.store(store.clone()).tool(nap()).plugin(retry);
    let builder = builder.clock(counted.clone()).ids(counted.clone()).cwd("/");
    let id = PARENT.parse().map_err(|e| format!("{e}"))?;
    let agent = builder.create(Some(id)).await.map_err(said)?;
    while agent.look().await.map_err(said)?.head.is_none_or(|(seq, _)| seq < FORK_EVENTS) {
        agent.prompt("go on").await.map_err(said)?;
        for cause in [Cause::User { text: None }, Cause::Parent] {
            cancelled(&agent, cause).await.map_err(said)?;
        }
        agent.prompt("and now?").await.map_err(said)?;
    }
    agent.shutdown().await.map_err(said)
}

/// A turn that is cut short, and what is done to the queue meanwhile.
async fn cancelled(agent: &Agent, cause: Cause) -> Result<(), terret::Error> {
    let turn = agent.followup(agent.user("take your time")).await?;
    sleep(Duration::from_secs(1)).await;
    let (first, second) = (agent.user("wait, first this"), agent.user("and this"));
    let steered = agent.steer(first.clone()).await?;
    let queued = agent.followup(second.clone()).await?;
    // The turn may be over already, and what was sent claimed.
    let edited = agent.edit(second.id, agent.user("no, that")).await.ok();
    let third = agent.user("or that");
    let taken_off = agent.followup(third.clone()).await?;
    let _ = agent.remove(vec![first.id, third.id.clone()]).await;
    let _ = agent.remove(vec![third.id]).await;
    agent.cancel(cause).await?;
    let _ = turn.settled().await;
    agent.when_idle().await?;
    drop((steered, queued, edited, taken_off));
    Ok(())
}

fn nap() -> FunctionTool {
    let nap = |args: BTreeMap<String, u64>| async move {
        sleep(Duration::from_millis(args.get("ms").copied().unwrap_or_default())).await;
        Done::ok("rested")
    };
    tool("nap", "Takes its time.", nap).effect(EffectClass::Read).mode(CallMode::Parallel)
}
