//! Any bytes as a session's log that a writer opens: refused with nothing changed, or opened, and then the same
//! session for whoever opens it next.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use futures_util::FutureExt;
use tempfile::TempDir;
use terret::agent::Agent;
use terret::core::fact::Fact;
use terret::core::input::Recovery;
use terret::core::line::Event;
use terret::error::Error;
use terret::inspect;
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::store::{FileStore, Journal, Listed, Opened, Process, Scan, Store};

use crate::mend::versions;

const ID: &str = "s";

/// What the fuzzer and the tests run.
pub(crate) fn check(data: &[u8]) {
    for log in versions(data, &Process::this().boot) {
        let home = Home::with(&log);
        if opened(&home, &log) {
            let home = Home::with(&log);
            gone_on_with(&home, &log);
        }
    }
}

/// Opens, writes one line, opens again. Says whether the log was taken.
fn opened(home: &Home, log: &[u8]) -> bool {
    let before = home.files();
    let read = (inspect::verify(&home.log()).is_ok(), Listed::of(&home.log()).id);
    assert_eq!(home.files(), before, "a reader changed something: {read:?}");
    let first = home.open();
    assert_eq!(home.files(), before, "opening changed something");
    let Ok((opened, mut events, _)) = first else { return false };
    let (epoch, cut) = (opened.epoch, opened.cut_bytes);
    let keep = log.len() - cut.unwrap_or(0) as usize;
    let fact = Fact::WriterOpened(opened.writer());
    let mut journal = Journal::new(opened);
    let seq = journal.push(1, &fact).unwrap();
    journal.write().unwrap();
    journal.sync().now_or_never().unwrap().unwrap();
    drop(journal);
    events.push(Event { seq, time: 1, fact });

    let after = home.files();
    assert!(after["log.jsonl"].starts_with(&log[..keep]), "a line was changed");
    let torn = after.iter().find(|(name, _)| name.starts_with("torn-"));
    assert_eq!(torn.map(|(_, bytes)| &bytes[..]), cut.map(|_| &log[keep..]), "what is cut is kept");
    for round in 0..2 {
        let (opened, again, to_the_end) = home.open().unwrap();
        assert_eq!((opened.epoch, opened.cut_bytes), (epoch + 1, None), "round {round}");
        // A piece of a closed attempt that makes no sense stops a reader, and no writer.
        let expected = if to_the_end { &events[..] } else { &events[..events.len() - 1] };
        assert_eq!(again, expected, "round {round}");
        drop(opened);
        assert_eq!(home.files(), after, "round {round}: opening changed something");
    }
    true
}

/// A whole agent goes on with it, closing what is open. It may refuse, in words; nothing that stood there changes.
fn gone_on_with(home: &Home, log: &[u8]) {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    let (_, events, _) = home.open().unwrap();
    let player = ScriptAdapter::new().with("test", "say hello\n").unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let builder = Agent::builder(Arc::new(models)).model("script:test").unwrap().store(home.store.clone());
    let ended = RUNTIME.block_on(async {
        let agent = builder.resume(ID).await?;
        if agent.look().await?.suspended {
            agent.recover(Recovery::Close).await?;
        }
        agent.shutdown().await
    });
    // Errors come in words.
    let said = ended.map_err(|e| e.to_string());
    let whole = log.len() - home.torn().map_or(0, |bytes| bytes.len());
    assert!(home.files()["log.jsonl"].starts_with(&log[..whole]), "{said:?}: a line was changed");
    let (_, after, _) = home.open().unwrap();
    assert!(after.starts_with(&events), "{said:?}: an event is lost");
}

/// A session with this log, in memory where the machine has such a place. One at a time in a thread.
struct Home {
    dir: TempDir,
    store: FileStore,
}

impl Home {
    fn with(log: &[u8]) -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = FileStore::syncing_in_place(dir.path());
        let home = Home { dir, store };
        std::fs::create_dir(home.session()).unwrap();
        std::fs::write(home.log(), log).unwrap();
        home
    }

    fn session(&self) -> PathBuf {
        self.dir.path().join(ID)
    }

    fn log(&self) -> PathBuf {
        self.store.log_path(ID)
    }

    /// Names and bytes of everything in the session's directory but the lock.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let entries = std::fs::read_dir(self.session()).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| !path.ends_with("lock"));
        files.map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
    }

    fn torn(&self) -> Option<Vec<u8>> {
        self.files().into_iter().find(|(name, _)| name.starts_with("torn-")).map(|(_, bytes)| bytes)
    }

    /// Opens it, and reads what a reader finds. Says whether that was all.
    fn open(&self) -> Result<(Opened, Vec<Event>, bool), Error> {
        let opened = self.store.open(ID, &mut |_| {})?;
        let (mut scan, mut events) = (Scan::open(&self.log())?, Vec::new());
        while let Some(event) = scan.next_event()? {
            match event {
                Ok(event) => events.push(event),
                Err(_) => return Ok((opened, events, false)),
            }
        }
        Ok((opened, events, true))
    }
}
