//! A disk with one log on it: what is written and what is synced are two lengths, and a crash keeps only what is
//! synced for sure.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::Error;
use terret::core::id::Digest;
use terret::core::line::{Event, SessionHeader, Tip};
use terret::limits::RESERVE_BYTES;
use terret::store::{Log, Opened, Process, Scan, Store};

use crate::limits::{FULL_MS, LAST_ROOM_BYTES, MAX_DEAD_SYNCS, MAX_WRITES, SYNC_MS};
use crate::reached::Situation;
use crate::world::{State, World};

/// The disk.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) synced: usize,
    /// Bytes it still takes, and when it has room again; `None`: enough.
    full: Option<(usize, u64)>,
    /// A little room is kept for the closers.
    reserve: bool,
    /// What a failed write or sync leaves beside the log.
    marker: bool,
    /// Counts the boots of the machine.
    boot: u32,
    /// Somebody writes the log.
    pub(crate) locked: bool,
    closed: Option<String>,
    /// A sync is under way.
    pub(crate) syncing: bool,
    /// A sync failed, and the driver is about to give the log up.
    pub(crate) closing: bool,
    repair: Repair,
}

/// What the first append sets right.
#[derive(Clone, Copy, Default, PartialEq)]
enum Repair {
    #[default]
    None,
    Newline,
    Cut(usize),
}

impl Disk {
    /// Bytes of the log, a torn tail not counted.
    pub(crate) fn length(&self) -> usize {
        match self.repair {
            Repair::None => self.bytes.len(),
            Repair::Newline => self.bytes.len() + 1,
            Repair::Cut(keep) => keep,
        }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.closed.is_some()
    }
}

impl State {
    /// What a crash leaves: all that was written, or with the power gone what was synced and any part of the
    /// rest. Gives the length of what is certainly as it was written.
    pub(crate) fn crash_disk(&mut self) -> usize {
        let (written, synced) = (self.disk.bytes.len(), self.disk.synced);
        self.disk.locked = false;
        let power = self.temper.power;
        if !self.dice.permille(power) {
            self.reached.count(Situation::Killed);
            return written;
        }
        self.reached.count(Situation::PowerCut);
        self.disk.boot += 1;
        let keep = synced + self.dice.part(written - synced);
        let whole = self.disk.bytes[..keep].ends_with(b"\n");
        self.disk.bytes.truncate(keep);
        if keep < written {
            self.reached.count(Situation::LostLines);
        }
        if !whole {
            self.reached.count(Situation::TornLine);
        }
        let mut good = keep;
        // Pages may reach the disk in any order: one that did not is zeros.
        if keep > synced && self.dice.below(4) == 0 {
            let from = synced + self.dice.below((keep - synced) as u32) as usize;
            let to = from + 1 + self.dice.below((keep - from) as u32) as usize;
            self.disk.bytes[from..to.min(keep)].fill(0);
            self.reached.count(Situation::StalePages);
            // A line whose newline is another byte is not whole.
            good = from - 1;
        }
        self.tell(|| {
            format!("the power was cut: {written} bytes were written, {synced} synced, {keep} are left")
        });
        self.disk.synced = keep;
        good
    }

    fn process(&self) -> Process {
        Process { pid: self.life, host: "sim".to_owned(), boot: format!("boot-{}", self.disk.boot) }
    }

    /// Whether a write of so many bytes finds no room.
    fn is_full(&mut self, bytes: usize) -> bool {
        let now = self.now_ms();
        if self.disk.full.is_some_and(|(_, until)| now >= until || self.calm) {
            (self.disk.full, self.disk.reserve) = (None, true);
        }
        if self.disk.full.is_none() && self.trouble(self.temper.full) {
            let room = self.dice.within(LAST_ROOM_BYTES.start as u64..LAST_ROOM_BYTES.end as u64) as usize;
            self.disk.full = Some((room, now + self.dice.within(FULL_MS)));
            // Where there is no room for the reserve either, the closers do without.
            self.disk.reserve = self.dice.below(8) > 0;
        }
        let Some((room, until)) = self.disk.full else { return false };
        if bytes <= room {
            self.disk.full = Some((room - bytes, until));
            return false;
        }
        let kept = if std::mem::take(&mut self.disk.reserve) { RESERVE_BYTES as usize } else { 0 };
        self.disk.full = Some((room + kept, until));
        true
    }
}

/// The store.
pub(crate) struct SimStore(pub(crate) World);

const PATH: &str = "sim:log";

impl Store for SimStore {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        let line = header.to_line().map_err(|e| Error::Usage(e.to_string()))?;
        let header_hash = Digest::of(&line[..line.len() - 1]);
        let mut state = self.0.lock();
        (state.disk.synced, state.disk.reserve) = (line.len(), true);
        state.disk.bytes = line;
        state.witness.restart();
        let process = state.process();
        let log = self.log(&mut state);
        Ok(Opened {
            header,
            header_hash,
            tip: Tip::default(),
            epoch: 1,
            cut_bytes: None,
            process,
            index: terret::store::Index::default(),
            log,
        })
    }

    fn open(&self, _id: &str, fold: &mut dyn FnMut(&Event)) -> Result<Opened, Error> {
        let mut state = self.0.lock();
        let path = PathBuf::from(PATH);
        let mut scan = Scan::new(Cursor::new(state.disk.bytes.clone()), &path)?;
        let survived = state.witness.events.len();
        state.witness.restart();
        let bad = loop {
            match scan.next_event()? {
                None => break None,
                Some(Err(bad)) => break Some(bad),
                Some(Ok(event)) => {
                    fold(&event);
                    let (end, now) =
                        (scan.offset() as usize + usize::from(scan.unterminated()), state.now_ms());
                    if let Some(rule) = state.witness.add(event, end, now) {
                        state.fault(rule);
                    }
                }
            }
        };
        let process = state.process();
        let (length, keep) = (state.disk.bytes.len(), scan.offset() as usize);
        let (header_hash, header) = (scan.header_hash(), scan.header().clone());
        let (tip, epoch, unterminated) = (scan.tip().clone(), scan.epoch() + 1, scan.unterminated());
        if let Some(bad) = &bad
            && !scan.is_torn(bad, state.disk.marker, &process.boot)?
        {
            return Err(Error::NotALog { path, why: format!("damaged: {bad:?}") });
        }
        state.disk.repair = match (&bad, unterminated) {
            (Some(_), _) => Repair::Cut(keep),
            (None, true) => Repair::Newline,
            (None, false) => Repair::None,
        };
        if state.witness.events.len() < survived {
            let found = state.witness.events.len();
            state.fault(format!("{survived} lines survived, opening gives {found}"));
        }
        state.witness.tip = tip.clone();
        let cut_bytes = bad.map(|_| (length - keep) as u64);
        state.disk.reserve = true;
        let log = self.log(&mut state);
        Ok(Opened {
            header,
            header_hash,
            tip,
            epoch,
            cut_bytes,
            process,
            index: terret::store::Index::default(),
            log,
        })
    }

    fn dir(&self, _id: &str) -> Option<PathBuf> {
        None
    }
}

impl SimStore {
    fn log(&self, state: &mut State) -> Box<dyn Log> {
        (state.disk.locked, state.disk.closed) = (true, None);
        Box::new(SimLog { world: self.0.clone(), life: state.life, path: PathBuf::from(PATH) })
    }
}

struct SimLog {
    world: World,
    life: u32,
    path: PathBuf,
}

impl SimLog {
    fn poisoned(&self, why: &str) -> Error {
        Error::Poisoned { path: self.path.clone(), why: why.to_owned() }
    }

    fn poison_with(&self, state: &mut State, why: &str) -> Error {
        if !state.dead {
            state.disk.closed.get_or_insert_with(|| why.to_owned());
            state.disk.marker = true;
            state.tell(|| format!("the log is poisoned: {why}"));
        }
        self.poisoned(why)
    }

    /// What opening left to do.
    fn begin(state: &mut State) {
        match std::mem::take(&mut state.disk.repair) {
            Repair::None => {}
            Repair::Newline => state.disk.bytes.push(b'\n'),
            Repair::Cut(keep) => {
                state.disk.bytes.truncate(keep);
                state.disk.synced = state.disk.synced.min(keep);
            }
        }
        state.disk.marker = false;
    }
}

impl Log for SimLog {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        let was_dead = self.world.lock().dead;
        let dead = self.world.step("within a write");
        let mut state = self.world.lock();
        if dead {
            if !was_dead {
                state.reached.count(Situation::CrashedInAppend);
                Self::begin(&mut state);
                let part = state.dice.part(lines.len());
                state.write(&lines[..part]);
            }
            return Err(self.poisoned("the process is dead"));
        }
        if state.disk.is_poisoned() {
            state.fault("the driver writes to a poisoned log");
            return Err(self.poisoned("closed"));
        }
        state.writes += 1;
        if state.writes > MAX_WRITES {
            state.fault("the driver writes without end");
            state.die("it would never end");
            return Err(self.poisoned("the process is dead"));
        }
        if state.is_full(lines.len()) {
            let again = state.was_full;
            state.was_full = true;
            state.reached.count(if again { Situation::FullTwice } else { Situation::Full });
            state.tell(|| format!("the disk is full: {} bytes do not fit", lines.len()));
            return Err(Error::Full { path: self.path.clone() });
        }
        Self::begin(&mut state);
        let odds = state.temper.append_fails;
        if state.trouble(odds) {
            state.reached.count(Situation::AppendFailed);
            let part = state.dice.part(lines.len());
            state.write(&lines[..part]);
            return Err(self.poison_with(&mut state, "a write failed"));
        }
        state.write(lines);
        Ok(())
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        let dead = self.world.step("as a sync begins");
        let world = self.world.clone();
        let mut state = self.world.lock();
        let covers = state.disk.bytes.len();
        let (slow, fails) = (state.temper.sync_slow, state.temper.sync_fails);
        let (slow, fails) = (state.trouble(slow), state.trouble(fails));
        let wait = if slow { state.dice.within(SYNC_MS) } else { 0 };
        state.disk.syncing = !dead;
        drop(state);
        let path = self.path.clone();
        let failed = move |why: &str| Error::Poisoned { path, why: why.to_owned() };
        async move {
            if dead {
                let mut state = world.lock();
                state.dead_syncs += 1;
                assert!(state.dead_syncs <= MAX_DEAD_SYNCS, "a dead process syncs without end");
                return Err(failed("the process is dead"));
            }
            if slow {
                world.count(Situation::SlowSync);
                tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
            }
            if world.step("within a sync") {
                world.count(Situation::CrashedInSync);
                return Err(failed("the process is dead"));
            }
            let mut state = world.lock();
            state.disk.syncing = false;
            if fails {
                state.disk.closing = true;
                state.reached.count(Situation::SyncFailed);
                state.disk.marker = true;
                state.tell(|| "a sync fails".to_owned());
                return Err(failed("a sync failed"));
            }
            state.disk.synced = state.disk.synced.max(covers);
            state.tell(|| format!("synced {covers} bytes"));
            Ok(())
        }
        .boxed()
    }

    fn poison(&mut self, why: &str) -> Error {
        let mut state = self.world.lock();
        self.poison_with(&mut state, why)
    }

    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        Ok(Box::new(SimReader { world: self.world.clone(), at: from as usize }))
    }

    fn length(&self) -> u64 {
        self.world.lock().disk.length() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SimLog {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        if state.life == self.life {
            state.disk.locked = false;
        }
    }
}

/// Reads what is there now, up to a torn tail.
struct SimReader {
    world: World,
    at: usize,
}

impl Read for SimReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let state = self.world.lock();
        let end = state.disk.length().min(state.disk.bytes.len());
        let n = (&state.disk.bytes[self.at.min(end)..end]).read(buf)?;
        drop(state);
        self.at += n;
        Ok(n)
    }
}
