//! The fake world: what everything outside the driver shares.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terret::clock::{Clock, Ids};
use terret::core::id::MsgId;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::consent::Consents;
use crate::dice::{Dice, Temper};
use crate::disk::Disk;
use crate::limits::{CLOCK_BACK_MS, EPOCH_MS};
use crate::reached::{Reached, Situation};
use crate::witness::Witness;

/// A handle to the world.
#[derive(Clone)]
pub(crate) struct World(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    crashed: Notify,
}

/// Everything in it.
pub(crate) struct State {
    pub(crate) dice: Dice,
    pub(crate) temper: Temper,
    pub(crate) disk: Disk,
    pub(crate) witness: Witness,
    pub(crate) reached: Reached,
    /// No more trouble: the last life of a session only proves that it can go on.
    pub(crate) calm: bool,
    /// The process died: what it still does within this poll has no effect.
    pub(crate) dead: bool,
    /// Which process this is, counted from 1.
    pub(crate) life: u32,
    /// Steps of the outside world until the process dies.
    pub(crate) crash_in: Option<u32>,
    /// Somebody asked this process to rest, or looks at it at rest: no turn need start.
    pub(crate) resting: bool,
    /// And its open turn was cancelled for that: from there none starts.
    pub(crate) disposed: bool,
    /// The disk was full in this life: a turn waits for a new wake.
    pub(crate) was_full: bool,
    /// Writes that were tried in this session.
    pub(crate) writes: u32,
    /// Syncs that were asked for since the process died.
    pub(crate) dead_syncs: u32,
    /// Consent that was asked for in this life.
    pub(crate) consents: Consents,
    /// Tools that run.
    pub(crate) running: u32,
    /// The agent, for observers that post mail.
    pub(crate) handle: Option<terret::agent::Handle>,
    /// Messages people sent, acknowledged or not.
    pub(crate) sent: Vec<terret::core::message::Message>,
    /// Messages that somebody asked to take off the queue.
    pub(crate) unwanted: BTreeSet<MsgId>,
    /// Where the first line of this process goes.
    pub(crate) began_at: usize,
    /// Events the log had when this process opened it.
    pub(crate) began: usize,
    /// Promises that were broken.
    pub(crate) broken: Vec<String>,
    /// What happened, if somebody wants to read it.
    story: Option<Vec<String>>,
    /// When this process began, and what time had passed before.
    born: Option<Instant>,
    passed_ms: u64,
    minted: u32,
}

impl World {
    pub(crate) fn new(seed: u64, tell: bool) -> Self {
        let mut dice = Dice::new(seed);
        let temper = Temper::of(&mut dice);
        let mut state = State {
            dice,
            temper,
            disk: Disk::new(seed),
            witness: Witness::default(),
            reached: Reached::default(),
            calm: false,
            dead: false,
            life: 0,
            crash_in: None,
            resting: false,
            disposed: false,
            was_full: false,
            writes: 0,
            dead_syncs: 0,
            consents: Consents::default(),
            running: 0,
            handle: None,
            sent: Vec::new(),
            unwanted: BTreeSet::new(),
            began_at: 0,
            began: 0,
            broken: Vec::new(),
            story: tell.then(Vec::new),
            born: None,
            passed_ms: 0,
            minted: 0,
        };
        let temper = format!("{:?}", state.temper);
        state.tell(|| temper);
        World(Arc::new(Shared { state: Mutex::new(state), crashed: Notify::new() }))
    }

    /// The state. Never held over an await or a planned panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins.
    pub(crate) fn begin(&self, calm: bool) {
        let mut state = self.lock();
        state.life += 1;
        state.born = Some(Instant::now());
        (state.dead, state.calm, state.crash_in) = (false, calm, None);
        (state.resting, state.disposed, state.was_full) = (false, false, false);
        state.disk.begin();
        state.consents = Consents::default();
        let life = state.life;
        state.tell(|| format!("process {life} begins"));
    }

    /// It is gone.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.passed_ms = state.now_ms();
        state.born = None;
    }

    /// One step of the outside world: the process may be planned to die here. Says whether it is dead.
    pub(crate) fn step(&self, what: &str) -> bool {
        let died = self.lock().step(what);
        if died {
            self.0.crashed.notify_one();
        }
        self.lock().dead
    }

    pub(crate) fn die(&self, what: &str) {
        self.lock().die(what);
        self.0.crashed.notify_one();
    }

    /// Resolves when the process dies.
    pub(crate) async fn crashed(&self) {
        while !self.lock().dead {
            self.0.crashed.notified().await;
        }
    }

    pub(crate) fn count(&self, situation: Situation) {
        self.lock().reached.count(situation);
    }

    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        self.lock().tell(what);
    }

    /// A promise is broken.
    pub(crate) fn broken(&self, what: impl Into<String>) {
        self.lock().fault(what);
    }

    pub(crate) fn into_story(self) -> Vec<String> {
        self.lock().story.take().unwrap_or_default()
    }
}

impl State {
    pub(crate) fn now_ms(&self) -> u64 {
        let lived = self.born.map_or(0, |born| born.elapsed().as_millis() as u64);
        self.passed_ms + lived
    }

    fn step(&mut self, what: &str) -> bool {
        let Some(left) = self.crash_in.filter(|_| !self.dead) else { return false };
        self.crash_in = left.checked_sub(1);
        if left == 0 {
            self.die(what);
        }
        left == 0
    }

    pub(crate) fn die(&mut self, what: &str) {
        if !self.dead {
            self.tell(|| format!("*** the process dies: {what}"));
            self.dead = true;
        }
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        let now = self.now_ms();
        if let Some(story) = &mut self.story {
            story.push(format!("{:>9.3}  {}", now as f64 / 1000.0, what()));
        }
    }

    pub(crate) fn fault(&mut self, what: impl Into<String>) {
        if !self.dead {
            let what = what.into();
            self.tell(|| format!("!!! {what}"));
            self.broken.push(what);
        }
    }

    /// Whether trouble of this kind comes now, in permille.
    pub(crate) fn trouble(&mut self, odds: u32) -> bool {
        self.dice.permille(if self.calm { 0 } else { odds })
    }

    pub(crate) fn fresh(&mut self) -> u32 {
        self.minted += 1;
        self.minted
    }
}

impl Clock for World {
    fn epoch_ms(&self) -> u64 {
        let mut state = self.lock();
        let back = if state.trouble(20) { state.dice.within(0..CLOCK_BACK_MS) } else { 0 };
        EPOCH_MS + state.now_ms() - back
    }
}

impl Ids for World {
    fn fresh(&self) -> String {
        format!("sim-{}", self.lock().fresh())
    }
}
