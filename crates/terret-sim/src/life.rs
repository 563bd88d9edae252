//! A session from its first process to its last: lives, crashes, recoveries, and what must hold in the end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use terret::Error;
use terret::agent::{Agent, Builder, Context, Status};
use terret::core::fact::{Cause, EndReason, Fact};
use terret::core::id::CallId;
use terret::core::input::Recovery;
use terret::core::message::Form;
use terret::policy::{Budget, Repeat, Retry};
use tokio::time::timeout;

use crate::consent::Boss;
use crate::disk::{SESSION, SimStore};
use crate::fs::SimFs;
use crate::hooks::Gremlin;
use crate::limits::{CRASH_WITHIN, HANG_MS, PATIENCE_MS, WINDOW_MS};
use crate::model::SimModels;
use crate::people::People;
use crate::quiet::quietly;
use crate::reached::{Reached, Situation};
use crate::tools;
use crate::world::World;

/// What came of one seed.
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The log as it was when each process was gone, before a power cut took its part.
    pub logs: Vec<Vec<u8>>,
    /// Promises that were broken; none in a good run.
    pub broken: Vec<String>,
    /// What was reached.
    pub reached: Reached,
    /// What happened, line by line, if that was asked for.
    pub story: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64) -> Run {
    go(seed, false)
}

/// Runs one seed and tells what happens.
pub fn tell(seed: u64) -> Run {
    go(seed, true)
}

fn go(seed: u64, tell: bool) -> Run {
    let world = World::new(seed, tell);
    let (logs, panics) = quietly(|| session(&world));
    let mut state = world.lock();
    let mut broken = std::mem::take(&mut state.broken);
    broken.extend(panics.into_iter().map(|what| format!("something panicked: {what}")));
    let reached = state.reached.clone();
    drop(state);
    Run { seed, logs, broken, reached, story: world.into_story() }
}

/// Every process of one session, the last one in a calm world.
fn session(world: &World) -> Vec<Vec<u8>> {
    let lives = {
        let mut state = world.lock();
        1 + state.temper.crashes + state.dice.below(2)
    };
    let mut logs = Vec::new();
    for n in 0..=lives {
        process(world, n == lives);
        let mut state = world.lock();
        logs.push(state.disk.log(<[u8]>::to_vec));
        if n < lives {
            let good = state.crash_disk();
            state.check_survivors(good);
        }
        if !state.broken.is_empty() {
            return logs;
        }
    }
    let mut state = world.lock();
    state.check_told();
    state.check_accounts();
    state.check_proofs();
    logs
}

/// One process: it dies by a crash, or ends.
fn process(world: &World, calm: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else { return world.broken("there is no runtime") };
    runtime.block_on(async {
        world.begin(calm);
        let fs = world.lock().disk.outside.process_begins(Arc::new(world.clone()));
        let lived = select(Box::pin(doom(world)), Box::pin(life(world, calm, &fs))).await;
        if let Either::Left(_) = lived {
            world.tell(|| "the process is gone".to_owned());
        }
        // What is still there goes with it.
        world.lock().dead = true;
        world.lock().handle = None;
        fs.kill();
        world.end();
    });
}

/// Resolves when the process dies, which may be planned for some moment.
async fn doom(world: &World) {
    let at = {
        let mut state = world.lock();
        let planned = !state.calm && state.temper.crashes > 0 && state.dice.below(4) > 0;
        match (planned, state.dice.half()) {
            (false, _) => None,
            (true, true) => {
                state.crash_in = Some(state.dice.below(CRASH_WITHIN));
                None
            }
            (true, false) => Some(state.dice.within(0..2 * WINDOW_MS)),
        }
    };
    if let Some(at) = at {
        tokio::time::sleep(Duration::from_millis(at)).await;
        world.die("at some moment");
    }
    world.crashed().await;
}

async fn life(world: &World, calm: bool, fs: &SimFs) {
    let agent = match open(world, calm, fs).await {
        Ok(agent) => agent,
        // It is begun another time.
        Err(Error::Full { .. }) if world.lock().disk.is_full() => {
            return world.count(Situation::NoRoomToBegin);
        }
        Err(Error::Io { .. }) if world.lock().disk.write_failed => return,
        Err(e) => return world.broken(format!("the session does not open: {e}")),
    };
    {
        let mut state = world.lock();
        state.handle = Some(agent.handle().clone());
        if agent.status() == Status::Suspended {
            state.reached.count(Situation::LeftOpen);
        }
    }
    let mut people = People::new(world, &agent);
    if calm {
        return proves(world, &agent).await;
    }
    if agent.status() == Status::Suspended {
        recover(world, &agent).await;
    }
    let acts = Duration::from_millis(WINDOW_MS + HANG_MS);
    if timeout(acts, people.act()).await.is_err() {
        return hangs(world, &agent, "somebody waits for an answer");
    }
    let end = world.lock().dice.below(6);
    match end {
        // Killed in the middle of it.
        0 => {}
        1 => shut_down(world, &agent, &mut people).await,
        _ => {
            calm_down(world, &agent, &mut people).await;
            match end {
                2 => shut_down(world, &agent, &mut people).await,
                3 => let_go(world, agent, people).await,
                _ => {}
            }
        }
    }
}

async fn open(world: &World, calm: bool, fs: &SimFs) -> Result<Agent, Error> {
    let create = async || {
        let id = SESSION.parse().map_err(|_| Error::NoSession(SESSION.to_owned()))?;
        builder(world, calm, fs).create(Some(id)).await
    };
    let first = world.lock().life == 1;
    let agent = match first {
        true => create().await?,
        false => match builder(world, calm, fs).resume(SESSION).await {
            // A crash took it before anything of it was told.
            Err(Error::NoSession(_) | Error::NotALog { .. }) if !world.lock().dead => {
                world.count(Situation::MadeAgain);
                create().await?
            }
            resumed => resumed?,
        },
    };
    let mut state = world.lock();
    (state.began_at, state.began) = (state.witness.until, state.witness.events.len());
    Ok(agent)
}

fn builder(world: &World, calm: bool, fs: &SimFs) -> Builder {
    let mut state = world.lock();
    let (life, gremlins, policies) = (state.life, state.temper.gremlins, state.temper.policies);
    let (demanded, seed) = (state.dice.half(), u64::from(state.dice.below(1 << 30)));
    let max = state.dice.below(4);
    let retry = Retry { max, base_ms: 50, cap_ms: 5_000, hint_cap_ms: 60_000, seed, ..Retry::default() };
    let budget = Budget {
        cost: None,
        steps: state.dice.half().then(|| 1 + state.dice.below(6)),
        tool_calls: state.dice.half().then(|| u64::from(state.dice.below(10))),
        tokens: state.dice.half().then(|| u64::from(state.dice.below(2_000))),
        wall_time: state.dice.half().then(|| Duration::from_millis(state.dice.within(1..60_000))),
    };
    let somebody = state.dice.below(5) > 0;
    let repeat = Repeat { remind_at: 1 + state.dice.below(3), stop_at: 2 + state.dice.below(4) };
    drop(state);
    let route = |builder: Builder| match demanded || calm {
        true => builder.model("sim/large"),
        false => builder.default_model("sim/large"),
    };
    let look = move |_: &std::path::Path, _| {
        let text = format!("this is process {life}");
        vec![Context { plugin: "place".into(), form: Form::Snapshot, text }]
    };
    let plain = || Agent::builder(Arc::new(SimModels(world.clone())));
    let builder = route(plain()).unwrap_or_else(|_| plain());
    let builder = builder
        .store(SimStore::new(world, fs.clone()))
        .clock(world.clone())
        .ids(world.clone())
        .surroundings(look)
        .cwd("/sim")
        .tools(tools::all(world))
        .plugin(retry);
    let builder = match somebody {
        true => builder.approver(Boss(world.clone())),
        false => builder,
    };
    let builder = match policies && !calm {
        true => builder.plugin(budget).plugin(repeat),
        false => builder,
    };
    (0..gremlins).fold(builder, |builder, number| builder.plugin(Gremlin::new(world, number)))
}

/// Somebody decides about the turn a dead process left open, or does not.
async fn recover(world: &World, agent: &Agent) {
    let recovery = {
        let mut state = world.lock();
        let orphans: Vec<CallId> = state.witness.told.runs.iter().map(|(call, _)| *call).collect();
        match state.dice.below(6) {
            0..=1 => Recovery::Close,
            2..=4 => {
                let keyed = orphans.into_iter().filter(|_| state.dice.half()).collect();
                Recovery::ResumeTurn { keyed }
            }
            _ => return,
        }
    };
    {
        // A planned crash comes here more often than its dice say.
        let mut state = world.lock();
        if state.crash_in.is_some() && state.dice.below(8) == 0 {
            state.crash_in = Some(0);
        }
    }
    world.step("before a recovery");
    if world.lock().dead {
        world.count(Situation::CrashedInRecovery);
    }
    let situation = match &recovery {
        Recovery::Close => Situation::Closed,
        Recovery::ResumeTurn { .. } => Situation::Resumed,
    };
    world.tell(|| format!("recovery: {recovery:?}"));
    if agent.recover(recovery).await.is_ok() {
        world.count(situation);
    }
}

/// Everything comes to rest: by itself, or because it is cancelled.
async fn calm_down(world: &World, agent: &Agent, people: &mut People) {
    world.tell(|| "everybody waits".to_owned());
    if agent.status() == Status::Suspended {
        let _ = agent.recover(Recovery::Close).await;
    }
    let patience = Duration::from_millis(PATIENCE_MS);
    let mut idle = people.beside(timeout(patience, agent.when_idle())).await;
    if idle.is_err() {
        world.tell(|| "nobody wants to wait any longer".to_owned());
        // Observers may post mail without end: from here on they do not.
        world.lock().calm = true;
        let limit = Duration::from_millis(HANG_MS);
        let _ = people.beside(timeout(limit, agent.cancel(Cause::User { text: None }))).await;
        idle = people.beside(timeout(limit, agent.when_idle())).await;
    }
    match idle {
        Ok(Ok(progress)) => {
            people.idle(progress.status);
            if matches!(progress.status, Status::Idle | Status::Parked) {
                people.beside(tokio::task::yield_now()).await;
                people.check_unresolved();
            }
        }
        Ok(Err(_)) => {}
        Err(_) => hangs(world, agent, "it was cancelled and does not come to rest"),
    }
}

async fn shut_down(world: &World, agent: &Agent, people: &mut People) {
    {
        let mut state = world.lock();
        state.resting = true;
        if state.witness.has_open_turn() {
            state.reached.count(Situation::ShutDown);
        }
    }
    world.tell(|| "shutdown".to_owned());
    let suspended = agent.status() == Status::Suspended;
    let limit = Duration::from_millis(HANG_MS);
    // Somebody does not know yet.
    let late = Duration::from_millis(world.lock().dice.wait_ms());
    people.sends_after(late);
    match people.beside(timeout(limit, agent.shutdown())).await {
        Ok(Ok(())) => gone(world, suspended),
        Ok(Err(_)) => {
            let poisoned = world.lock().disk.poisoned;
            if !poisoned {
                world.broken("a shutdown failed");
            }
        }
        Err(_) => hangs(world, agent, "it was shut down"),
    }
}

/// Nobody holds the agent any more: it ends by itself.
async fn let_go(world: &World, agent: Agent, people: People) {
    world.count(Situation::LetGo);
    world.tell(|| "everybody lets go".to_owned());
    let suspended = agent.status() == Status::Suspended;
    {
        let mut state = world.lock();
        state.resting = true;
        // Whoever lets go does not hold on through a plugin.
        (state.handle, state.calm) = (None, true);
    }
    drop((agent, people));
    for _ in 0..(HANG_MS + PATIENCE_MS) / 100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if !world.lock().disk.is_locked() {
            return gone(world, suspended);
        }
    }
    world.broken("everybody let go of the agent, and it does not end");
}

/// The driver is gone, and nothing crashed: the log is let go of, and no turn is open.
fn gone(world: &World, suspended: bool) {
    let state = world.lock();
    let (locked, poisoned, open) =
        (state.disk.is_locked(), state.disk.poisoned, state.witness.has_open_turn());
    drop(state);
    if locked {
        world.broken("the agent is gone, and its log is still locked");
    }
    if open && !suspended && !poisoned {
        world.broken("the agent is gone, and its turn is open");
    }
}

fn hangs(world: &World, agent: &Agent, what: &str) {
    let poisoned = world.lock().disk.poisoned;
    if !poisoned {
        world.broken(format!("it hangs: {what}; status {:?}", agent.status()));
    }
}

/// After all that happened the session still works: it closes what is open, and answers one more prompt.
async fn proves(world: &World, agent: &Agent) {
    let limit = Duration::from_millis(HANG_MS);
    let proof = async {
        if agent.status() == Status::Suspended {
            agent.recover(Recovery::Close).await?;
        }
        agent.when_idle().await?;
        let outcome = agent.prompt("are you well?").await?;
        if outcome.ending != EndReason::Completed {
            world.broken(format!("the last prompt ended {:?}", outcome.ending));
        }
        agent.when_idle().await?;
        world.lock().resting = true;
        agent.shutdown().await
    };
    match timeout(limit, proof).await {
        Ok(Ok(())) => gone(world, false),
        Ok(Err(e)) => world.broken(format!("the session does not go on: {e}")),
        Err(_) => hangs(world, agent, "the last prompt"),
    }
    let state = world.lock();
    let ended = state.witness.last(|fact| matches!(fact, Fact::TurnEnd(_)));
    drop(state);
    if ended.is_none() {
        world.broken("no turn ended");
    }
}
