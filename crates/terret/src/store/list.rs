//! Finding sessions: the list, and what an address means. One damaged file never hides the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terret_core::fact::EndReason;
use terret_core::id::{Seq, SessionId};
use terret_core::line::SessionHeader;
use terret_core::state::State;

use super::begin::never_begun;
use super::fs::{FileSystem, LocalFs};
use super::index::{Known, Summary, skim};
use super::{Address, Bad, FileStore, Scan};
use crate::error::Error;

/// One session in the list.
#[derive(Debug)]
pub struct Listed {
    /// Its directory's name.
    pub id: String,
    /// Its log.
    pub path: PathBuf,
    /// Its header, where it can be read.
    pub header: Option<SessionHeader>,
    /// First words of its first prompt.
    pub title: String,
    /// Events read.
    pub events: u64,
    /// Turns that ended, and how the last one did.
    pub turns: u32,
    /// How the last turn ended.
    pub last: Option<EndReason>,
    /// Epoch milliseconds of its last event.
    pub updated: u64,
    /// Messages that wait.
    pub pending: usize,
    /// What plugins wrote, by plugin.
    pub plugins: BTreeMap<String, PluginEvents>,
    /// What state it is in.
    pub condition: Condition,
}

/// How much of a log is looked at.
#[derive(Clone, Copy)]
enum Look {
    /// What its index does not know.
    Index,
    /// All of it.
    Everything,
}

/// The events one plugin wrote into a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginEvents {
    /// How many.
    pub events: u64,
    /// The first without which later requests would differ.
    pub context: Option<Seq>,
}

/// What state a session is in.
#[derive(Debug)]
pub enum Condition {
    /// It was never begun: a crash came before its first line was there. Its id is free.
    Empty,
    /// Nobody writes it and nothing waits.
    Idle,
    /// Messages wait for a wake.
    Parked,
    /// A process writes it.
    Running {
        /// Which.
        pid: u32,
    },
    /// Its last writer died in a turn.
    Open,
    /// A crash tore its tail; the next writer moves these bytes aside.
    Torn {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// It cannot be written, and says why.
    Damaged(Error),
}

impl FileStore {
    /// All sessions, oldest first. Unreadable ones are listed with the reason. What the index of a session says is
    /// taken from there: the rest of its log is not looked at.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        self.listed(Look::Index)
    }

    /// The same from every byte of every log: damage is met where nobody else looks any more.
    pub fn examine(&self) -> Result<Vec<Listed>, Error> {
        self.listed(Look::Everything)
    }

    fn listed(&self, how: Look) -> Result<Vec<Listed>, Error> {
        let mut names = self.names()?;
        names.sort();
        let look = |id: &String| Listed::on(self.fs(), &self.log_path(id), how);
        let mut listed: Vec<Listed> = names.iter().map(look).collect();
        listed.sort_by_key(|l| (l.header.as_ref().map_or(0, |h| h.created), l.id.clone()));
        Ok(listed)
    }

    /// Names in the directory of sessions; none while it is not there.
    fn names(&self) -> Result<Vec<String>, Error> {
        match self.fs().names(self.sessions()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(Error::io("read", self.sessions())),
        }
    }

    /// The log an address means. `cwd` narrows `latest` to sessions of that directory.
    pub fn find(&self, address: &Address, cwd: Option<&Path>) -> Result<PathBuf, Error> {
        if let Some(path) = address.as_path() {
            return match self.fs().is_file(&path) {
                true => Ok(path),
                false => Err(Error::NoSession(address.session.clone())),
            };
        }
        if address.session == "latest" {
            return self.latest(cwd)?.ok_or_else(|| Error::NoSession("latest".into()));
        }
        let exact = self.log_path(&address.session);
        if address.session.parse::<SessionId>().is_ok() && self.fs().exists(&exact) {
            return Ok(exact);
        }
        let mut fits = self.names().unwrap_or_default();
        fits.retain(|name| name.starts_with(&address.session));
        fits.sort();
        if fits.contains(&address.session) {
            // The whole name of one that was never begun, whatever else begins like it.
            fits = vec![address.session.clone()];
        }
        match fits.len() {
            0 => Err(Error::NoSession(address.session.clone())),
            1 => Ok(self.log_path(&fits[0])),
            _ => {
                let candidates = fits.iter().filter_map(|id| id.parse().ok()).collect();
                Err(Error::Ambiguous { address: address.session.clone(), candidates })
            }
        }
    }

    /// The session last written to.
    fn latest(&self, cwd: Option<&Path>) -> Result<Option<PathBuf>, Error> {
        let found = |name: &String| {
            let path = self.log_path(name);
            Some((self.fs().meta(&path).ok()?.modified, path))
        };
        let mut logs: Vec<_> = self.names()?.iter().filter_map(found).collect();
        logs.sort();
        let of_cwd = |path: &PathBuf| match (cwd, Scan::over(self.fs(), path, |file| file)) {
            (Some(cwd), Ok(scan)) => Path::new(&scan.header().cwd) == cwd,
            (None, Ok(_)) => true,
            (_, Err(_)) => false,
        };
        Ok(logs.into_iter().rev().map(|(_, path)| path).find(of_cwd))
    }
}

impl Listed {
    /// The session of this machine whose log is at `path`, from every byte of it. Never fails: what is wrong is its
    /// condition.
    pub fn of(path: &Path) -> Self {
        Listed::on(&(Arc::new(LocalFs::default()) as _), path, Look::Everything)
    }

    fn on(fs: &Arc<dyn FileSystem>, path: &Path, how: Look) -> Self {
        let dir = path.parent().unwrap_or(Path::new(""));
        let mut listed = Listed {
            id: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_owned(),
            header: None,
            title: String::new(),
            events: 0,
            turns: 0,
            last: None,
            updated: 0,
            pending: 0,
            plugins: BTreeMap::new(),
            condition: Condition::Idle,
        };
        if let Err(e) = listed.read(fs, how) {
            listed.condition =
                if never_begun(&**fs, path) { Condition::Empty } else { Condition::Damaged(e) };
        }
        if let Some(pid) = super::lock::holder(&**fs, dir)
            && !matches!(listed.condition, Condition::Damaged(_))
        {
            listed.condition = Condition::Running { pid };
        }
        listed
    }

    fn read(&mut self, fs: &Arc<dyn FileSystem>, how: Look) -> Result<(), Error> {
        if let (Look::Index, Some(mark)) = (how, Known::at_rest(&**fs, &self.path)) {
            self.say(mark.summary);
            self.pending = mark.pending;
            self.condition = if self.pending > 0 { Condition::Parked } else { Condition::Idle };
            self.header = Some(Scan::over(fs, &self.path, |file| file)?.header().clone());
            return Ok(());
        }
        let mut state = State::default();
        let (mut scan, known) = match how {
            Look::Index => skim(fs, &self.path, &mut |event| state.apply(&event.fact))?,
            Look::Everything => (Scan::over(fs, &self.path, |file| file)?, None),
        };
        self.header = Some(scan.header().clone());
        let mut summary = known.map(|known| known.mark().summary.clone()).unwrap_or_default();
        let mut bad: Option<Bad> = None;
        while let Some(next) = scan.next_event()? {
            match next {
                Ok(event) => {
                    summary.fold(event.seq, event.time, &event.fact);
                    state.apply(&event.fact);
                }
                Err(b) => {
                    bad = Some(b);
                    break;
                }
            }
        }
        self.say(summary);
        self.pending = state.inbox().iter().count();
        if let Some(bad) = bad {
            if !scan.is_torn_tail(&bad)? {
                return Err(bad.into_error(&self.path));
            }
            let length = fs.meta(&self.path).map_err(Error::io("read", &self.path))?.length;
            self.condition = Condition::Torn { offset: bad.offset, bytes: length - bad.offset };
        } else if state.turn().is_some() {
            self.condition = Condition::Open;
        } else if self.pending > 0 {
            self.condition = Condition::Parked;
        }
        Ok(())
    }

    fn say(&mut self, summary: Summary) {
        let Summary { title, turns, last, updated, events, plugins } = summary;
        (self.title, self.turns, self.last) = (title, turns, last);
        (self.updated, self.events, self.plugins) = (updated, events, plugins);
    }
}
