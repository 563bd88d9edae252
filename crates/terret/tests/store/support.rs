//! What every test here needs: a real log on disk, other boots of the machine, a writer and readers.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use terret::agent::Agent;
use terret::core::fact::Fact;
use terret::core::id::Seq;
use terret::core::line::{Event, FORMAT, Line, SessionHeader, SessionTag, Tip};
use terret::error::Error;
use terret::inspect;
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::store::{BY, Bad, Condition, FileStore, Journal, Listed, Opened, Scan, Store};

pub(crate) const ID: &str = "s";

/// A store in a directory of its own, in memory where the machine has such a place: syncs cost nothing there.
pub(crate) struct Home {
    dir: TempDir,
    pub(crate) store: FileStore,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = FileStore::new(dir.path().join("sessions"));
        Home { dir, store }
    }

    /// With a session whose log has these bytes.
    pub(crate) fn with(log: &[u8]) -> Self {
        let home = Home::new();
        std::fs::create_dir_all(home.session()).unwrap();
        std::fs::write(home.log(), log).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn session(&self) -> PathBuf {
        self.store.sessions().join(ID)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.store.log_path(ID)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.log()).unwrap()
    }

    /// Names and bytes of everything in the session's directory but the lock.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.session()).unwrap();
        let files = entries.map(|e| e.unwrap().path()).filter(|p| !p.ends_with("lock"));
        let name = |p: &Path| p.file_name().unwrap().to_string_lossy().into_owned();
        files.map(|p| (name(&p), std::fs::read(&p).unwrap())).collect()
    }

    /// The bytes moved aside, by file name.
    pub(crate) fn torn(&self) -> Vec<Vec<u8>> {
        self.files().into_iter().filter(|(name, _)| name.starts_with("torn-")).map(|(_, b)| b).collect()
    }

    pub(crate) fn mark(&self) {
        std::fs::write(self.session().join("poisoned"), "a sync failed").unwrap();
    }

    pub(crate) fn open(&self) -> Result<Opened, Error> {
        self.store.open(ID, &mut |_| {})
    }

    /// A writer comes and writes its first line.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        write_first(self.open()?).1
    }

    pub(crate) fn condition(&self) -> Condition {
        Listed::of(&self.log()).condition
    }
}

/// Writes a writer's first line.
pub(crate) fn write_first(opened: Opened) -> (Journal, Result<(), Error>) {
    let fact = Fact::WriterOpened(opened.writer());
    let mut journal = Journal::new(opened);
    let written = journal.push(1, &fact).and_then(|_| journal.write());
    (journal, written.map(|_| ()))
}

pub(crate) fn header() -> SessionHeader {
    SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: ID.parse().unwrap(),
        created: 1,
        cwd: "/".into(),
        by: BY.into(),
        parent: None,
        origin: None,
    }
}

/// The log of a session of one turn with nothing open, as an agent leaves it.
pub(crate) async fn whole_log() -> Vec<u8> {
    let home = Home::new();
    let player = ScriptAdapter::new().with("test", "say hello\n").unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let builder = Agent::builder(Arc::new(models)).model("script:test").unwrap();
    let agent = builder.store(home.store.clone()).create(Some(ID.parse().unwrap())).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = home.bytes();
    let last = lines(&log).pop().unwrap();
    let last = Line::parse(&last[..last.len() - 1]).unwrap();
    assert_eq!((&*last.kind, last.d), ("writer/idle", Some(last.seq - 1)), "all but the last line is synced");
    log
}

/// The same log, written before the machine went down.
pub(crate) fn of_another_boot(log: &[u8]) -> Vec<u8> {
    let lines = lines(log);
    let (mut out, mut tip) = (lines[0].to_vec(), Tip::default());
    for line in &lines[1..] {
        let line = Line::parse(&line[..line.len() - 1]).unwrap();
        let mut event = line.event().unwrap();
        if let Fact::WriterOpened(opened) = &mut event.fact {
            opened.boot = "another".into();
        }
        tip.encode(&mut out, event.time, &event.fact, line.d).unwrap();
    }
    out
}

/// The lines, newlines included.
pub(crate) fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|b| *b == b'\n').collect()
}

/// What a reader gets: the events, and the first bad line with whether it is torn.
pub(crate) fn read(log: Vec<u8>, path: &Path) -> (Vec<Event>, Option<(Bad, bool)>) {
    let mut scan = Scan::new(Cursor::new(log), path).unwrap();
    let mut events = Vec::new();
    while let Some(next) = scan.next_event().unwrap() {
        match next {
            Ok(event) => events.push(event),
            Err(bad) => {
                let torn = scan.is_torn_tail(&bad).unwrap();
                return (events, Some((bad, torn)));
            }
        }
    }
    (events, None)
}

/// All who look at the log agree that it is torn, and a writer goes on.
pub(crate) fn assert_torn(home: &Home, cut: &[u8], what: &str) {
    let before = home.files();
    let report = inspect::verify(&home.log()).unwrap();
    assert!(report.torn, "{what}: verify: {:?}", report.bad);
    let condition = home.condition();
    assert!(
        matches!(condition, Condition::Torn { bytes, .. } if bytes == cut.len() as u64),
        "{what}: list: {condition:?}"
    );
    assert_eq!(home.files(), before, "{what}: a reader changed something");
    home.go_on().unwrap();
    assert_eq!(home.torn(), [cut], "{what}");
    assert!(inspect::verify(&home.log()).unwrap().bad.is_none(), "{what}: the log is good again");
}

/// All who look at the log agree that it is damaged at `seq`, and nobody changes it.
pub(crate) fn assert_damaged(home: &Home, seq: Seq, what: &str) {
    let before = home.files();
    let report = inspect::verify(&home.log()).unwrap();
    assert!(!report.torn, "{what}: verify takes it for torn");
    assert_eq!(report.bad.map(|bad| bad.seq), Some(seq), "{what}");
    let condition = home.condition();
    assert!(matches!(condition, Condition::Damaged(_)), "{what}: list: {condition:?}");
    let refused = home.go_on();
    assert!(matches!(refused, Err(Error::Damaged { seq: at, .. }) if at == seq), "{what}: {refused:?}");
    assert_eq!(home.files(), before, "{what}: something changed");
}
