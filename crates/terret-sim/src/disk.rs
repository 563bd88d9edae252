//! The disk of this world: the store that real sessions have, on the simulated file system, and somebody who looks on.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::Error;
use terret::core::line::{Event, SessionHeader};
use terret::store::{FileStore, Index, Log, Opened, Process, Rest, Scan, Store};

use crate::fs::{Calm, Done, Fate, Kind, Loss, Op, SimFs, Verdict};
use crate::limits::{FULL_MS, LAST_ROOM_BYTES, MAX_DEAD_SYNCS, MAX_WRITES, SYNC_MS};
use crate::opening::Opening;
use crate::reached::Situation;
use crate::world::{State, World};

/// The one session.
pub(crate) const SESSION: &str = "sim";
const SESSIONS: &str = "/sessions";
const LOG: &str = "/sessions/sim/log.jsonl";
const UNBORN: &str = "/sessions/sim/log.jsonl.new";
const LOCK: &str = "/sessions/sim/lock";

/// The disk, and what is known of the log on it.
pub(crate) struct Disk {
    /// Nobody's view of it: what is looked at from here never fails.
    pub(crate) outside: SimFs,
    /// Bytes of the log that a sync that came back covers.
    pub(crate) synced: usize,
    /// It is full, until then.
    full_until: Option<u64>,
    /// A write failed in this life.
    pub(crate) write_failed: bool,
    /// The log was given up.
    pub(crate) poisoned: bool,
    /// A sync is under way.
    pub(crate) syncing: bool,
    /// A sync failed, and the driver is about to give the log up.
    pub(crate) closing: bool,
    /// How often the power went.
    cuts: u32,
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Self {
        Disk {
            outside: SimFs::new(seed, std::sync::Arc::new(Calm)),
            synced: 0,
            full_until: None,
            write_failed: false,
            poisoned: false,
            syncing: false,
            closing: false,
            cuts: 0,
        }
    }

    /// A process begins.
    pub(crate) fn begin(&mut self) {
        (self.write_failed, self.poisoned, self.syncing, self.closing) = (false, false, false, false);
    }

    /// The log as everybody sees it.
    pub(crate) fn log<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        self.outside.look(Path::new(LOG), |log| look(log.unwrap_or_default()))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.outside.is_locked(Path::new(LOCK))
    }
}

impl State {
    /// What a crash leaves: all that was written, or with the power gone what was synced and any part of the
    /// rest. Gives the length of what is certainly as it was written.
    pub(crate) fn crash_disk(&mut self) -> usize {
        let power = self.temper.power;
        if !self.dice.permille(power) {
            self.reached.count(Situation::Killed);
            return self.disk.log(<[u8]>::len);
        }
        self.reached.count(Situation::PowerCut);
        let loss = *self.dice.pick(&[Loss::Dropped, Loss::Dropped, Loss::Zeroed, Loss::Stale, Loss::Mixed]);
        let before = self.disk.log(<[u8]>::to_vec);
        let report = self.disk.outside.cut_power(loss);
        let (left, same, torn) = self.disk.log(|log| {
            let same = log.iter().zip(&before).take_while(|(is, was)| is == was).count();
            (log.len(), same, !log.is_empty() && !log.ends_with(b"\n"))
        });
        self.disk.cuts += 1;
        let reached = [
            (left < before.len(), Situation::LostLines),
            (torn, Situation::TornLine),
            (report.taken.zeroed, Situation::ZeroedSectors),
            (report.taken.stale, Situation::StaleSectors),
            (report.taken.given_up, Situation::LostAfterFailedSync),
            (report.names > 0, Situation::LostNames),
            (self.disk.cuts == 2, Situation::PowerCutTwice),
        ];
        reached.iter().filter(|(is, _)| *is).for_each(|(_, situation)| self.reached.count(*situation));
        let (written, synced) = (before.len(), self.disk.synced);
        self.tell(|| {
            format!("the power was cut, {loss:?}: {written} bytes were written, {synced} synced, {left} are left, {same} as they were; {report:?}")
        });
        if same < synced {
            self.broken.push(format!("{synced} bytes were synced, and {same} are left"));
        }
        // What is left is on the disk.
        let lines = self.witness.ends.partition_point(|end| *end <= same);
        let whole = lines.checked_sub(1).map_or(0, |last| self.witness.ends[last]);
        (self.disk.synced, self.disk.full_until) = (synced.max(whole), None);
        // A line whose newline is another byte is not whole.
        if same < left { same.saturating_sub(1) } else { same }
    }

    /// What the log has behind what was looked at.
    fn unseen(&self) -> Vec<u8> {
        let from = self.witness.until;
        self.disk.log(|log| log.get(from..).unwrap_or_default().to_vec())
    }

    /// Looks at what reached the log. A torn tail that nobody cut yet is none of it.
    fn catch_up(&mut self, torn: &[u8]) {
        let unseen = self.unseen();
        if torn.is_empty() || unseen != torn {
            self.write(&unseen);
        }
    }

    /// What becomes of an operation of a process that lives.
    fn trouble_with(&mut self, op: &Op<'_>) -> Verdict {
        let now = self.now_ms();
        if self.disk.full_until.is_some_and(|until| now >= until || self.calm) {
            self.disk.full_until = None;
            return Verdict::Room(None);
        }
        let on_log = is_log(op.path);
        match op.kind {
            Kind::Append | Kind::Allocate if !self.disk.is_full() && self.trouble(self.temper.full) => {
                self.disk.full_until = Some(now + self.dice.within(FULL_MS));
                Verdict::Room(Some(self.dice.within(LAST_ROOM_BYTES)))
            }
            Kind::Append if on_log && self.trouble(self.temper.append_fails) => {
                self.reached.count(Situation::AppendFailed);
                self.disk.write_failed = true;
                Verdict::Fail(self.dice.part(op.bytes))
            }
            Kind::Sync if on_log && self.trouble(self.temper.sync_fails) => {
                self.reached.count(Situation::SyncFailed);
                self.disk.closing = true;
                self.tell(|| "a sync fails".to_owned());
                Verdict::Fail(0)
            }
            Kind::Rewrite => {
                self.reached.count(Situation::Rewritten);
                Verdict::Go
            }
            _ => Verdict::Go,
        }
    }

    /// What a process does that dies over this.
    fn last_act(&mut self, op: &Op<'_>) -> Done {
        if op.kind == Kind::Append && is_log(op.path) {
            self.reached.count(Situation::CrashedInAppend);
        } else if op.kind == Kind::Sync {
            self.reached.count(Situation::CrashedInSync);
        } else if self.witness.events.is_empty() {
            self.reached.count(Situation::CrashedInCreation);
        }
        match self.dice.below(4) {
            0 => Done::Nothing,
            1 => Done::All,
            _ if op.kind == Kind::Sync => Done::Part(1),
            _ => Done::Part(self.dice.part(op.bytes)),
        }
    }
}

/// Whether this is the log. Whoever made it has it open under the name it had then.
fn is_log(path: &Path) -> bool {
    path == Path::new(LOG) || path == Path::new(UNBORN)
}

impl Fate for World {
    fn verdict(&self, op: &Op<'_>) -> Verdict {
        if self.lock().dead {
            return Verdict::Die(Done::Nothing);
        }
        if self.step(op.kind.words()) {
            return Verdict::Die(self.lock().last_act(op));
        }
        self.lock().trouble_with(op)
    }

    fn sync_takes(&self) -> Duration {
        let mut state = self.lock();
        let slow = state.temper.sync_slow;
        if !state.trouble(slow) {
            return Duration::ZERO;
        }
        state.reached.count(Situation::SlowSync);
        Duration::from_millis(state.dice.within(SYNC_MS))
    }
}

/// The store of one process.
pub(crate) struct SimStore {
    world: World,
    files: FileStore,
}

impl SimStore {
    pub(crate) fn new(world: &World, fs: SimFs) -> Self {
        SimStore { world: world.clone(), files: FileStore::on(std::sync::Arc::new(fs), SESSIONS) }
    }

    /// Looks at all that happens to this log.
    fn watched(&self, opened: Opened) -> Opened {
        let log = Box::new(Watched { world: self.world.clone(), log: opened.log });
        Opened { log, ..opened }
    }
}

impl Store for SimStore {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        let opened = self.files.create(header)?;
        self.world.lock().witness.restart(opened.log.length() as usize);
        Ok(self.watched(opened))
    }

    fn open(&self, id: &str, fold: &mut dyn FnMut(&Event)) -> Result<Opened, Error> {
        let mut handed = Opening::default();
        let opened = self.files.open(id, &mut |event| {
            handed.fold(event);
            fold(event);
        })?;
        let mut state = self.world.lock();
        let survived = state.witness.events.len();
        let log = state.disk.log(<[u8]>::to_vec);
        let mut scan = Scan::new(&log[..], Path::new(LOG))?;
        state.witness.restart(scan.offset() as usize);
        let mut whole = Opening::default();
        // What is behind the last good line is the store's to judge.
        while let Some(Ok(event)) = scan.next_event()? {
            whole.fold(&event);
            // The last line may lack its newline.
            let (end, now) = (scan.offset() as usize + usize::from(scan.unterminated()), state.now_ms());
            if let Some(rule) = state.witness.add(event, end, now) {
                state.fault(rule);
            }
        }
        if handed.comes_to() != whole.comes_to() {
            let (handed, whole) = (handed.comes_to(), whole.comes_to());
            state.fault(format!("opening comes to {handed:?}, the log to {whole:?}"));
        }
        if handed.events < whole.events {
            state.reached.count(Situation::OpenedByIndex);
        }
        let found = state.witness.events.len();
        if found < survived {
            state.fault(format!("{survived} lines survived, opening gives {found}"));
        }
        state.witness.tip = opened.tip.clone();
        drop(state);
        Ok(self.watched(opened))
    }

    fn dir(&self, _id: &str) -> Option<PathBuf> {
        None
    }

    fn process(&self) -> Process {
        self.files.process()
    }
}

/// The end of the log, looked at.
struct Watched {
    world: World,
    log: Box<dyn Log>,
}

impl Log for Watched {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        let mut state = self.world.lock();
        if state.disk.poisoned {
            state.fault("the driver writes to a poisoned log");
        }
        state.writes += 1;
        if state.writes > MAX_WRITES {
            state.fault("the driver writes without end");
            state.die("it would never end");
        }
        let torn = state.unseen();
        drop(state);
        let done = self.log.append(lines);
        let mut state = self.world.lock();
        state.catch_up(&torn);
        match &done {
            Ok(()) => {}
            Err(Error::Full { .. }) => {
                if !state.disk.is_full() {
                    state.fault("the log is said to be full, and the disk is not");
                }
                let again = std::mem::replace(&mut state.was_full, true);
                state.reached.count(if again { Situation::FullTwice } else { Situation::Full });
                state.tell(|| format!("the disk is full: {} bytes do not fit", lines.len()));
            }
            Err(e) => {
                state.disk.poisoned |= matches!(e, Error::Poisoned { .. }) && !state.dead;
                state.tell(|| format!("a write failed: {e}"));
            }
        }
        done
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        let world = self.world.clone();
        {
            let mut state = world.lock();
            state.dead_syncs += u32::from(state.dead);
            assert!(state.dead_syncs <= MAX_DEAD_SYNCS, "a dead process syncs without end");
            state.disk.syncing = !state.dead;
        }
        // A newline that the first append adds is not there yet.
        let covers = world.lock().disk.log(<[u8]>::len).min(self.log.length() as usize);
        let syncs = self.log.sync();
        async move {
            let done = syncs.await;
            world.lock().sync_ends(covers, done.is_ok());
            done
        }
        .boxed()
    }

    fn rest(&mut self, index: &mut Index, rest: &Rest) {
        self.log.rest(index, rest);
    }

    fn poison(&mut self, why: &str) -> Error {
        let mut state = self.world.lock();
        if !state.dead {
            state.disk.poisoned = true;
            state.tell(|| format!("the log is poisoned: {why}"));
        }
        drop(state);
        self.log.poison(why)
    }

    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        self.log.reader(from)
    }

    fn length(&self) -> u64 {
        self.log.length()
    }

    fn path(&self) -> &Path {
        self.log.path()
    }
}

impl State {
    fn sync_ends(&mut self, covers: usize, done: bool) {
        if self.dead {
            return;
        }
        self.disk.syncing = false;
        self.disk.closing |= !done;
        if !done {
            return;
        }
        self.tell(|| format!("synced {covers} bytes"));
        self.disk.synced = self.disk.synced.max(covers);
        let safe = self.disk.outside.safe_bytes(Path::new(LOG));
        if safe < covers {
            self.fault(format!("a sync of {covers} bytes came back, and {safe} of them are on the disk"));
        }
    }
}
