//! The real store on the simulated file system: what single faults once broke.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use terret::core::fact::Fact;
use terret::core::line::{FORMAT, SessionHeader, SessionTag};
use terret::store::fs::{Access, FileSystem};
use terret::store::{BY, FileStore, Journal, Opened, Store};
use terret::testing::store::{UnderTest, conforms};
use terret_sim::fs::{Calm, Fate, Kind, Op, SimFs, Verdict};

const LOG: &str = "/sessions/s/log.jsonl";

fn header() -> SessionHeader {
    SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: "s".parse().unwrap(),
        created: 0,
        cwd: "/".into(),
        by: BY.into(),
        parent: None,
        origin: None,
    }
}

fn first_line(opened: Opened) -> Journal {
    let fact = Fact::WriterOpened(opened.writer());
    let mut journal = Journal::new(opened);
    journal.push(0, &fact).unwrap();
    journal.write().unwrap();
    journal
}

/// The second sync fails.
#[derive(Default)]
struct SecondSync(AtomicU32);

impl Fate for SecondSync {
    fn verdict(&self, op: &Op<'_>) -> Verdict {
        let fails = op.kind == Kind::Sync && self.0.fetch_add(1, Ordering::Relaxed) == 1;
        if fails { Verdict::Fail(0) } else { Verdict::Go }
    }
}

#[test]
fn what_a_failed_sync_gave_up_is_on_the_disk_before_the_next_writer_is_told_that_it_is() {
    for seed in 0..20 {
        let fs = SimFs::new(seed, Arc::new(SecondSync::default()));
        let mut journal =
            first_line(FileStore::on(Arc::new(fs.clone()), "/sessions").create(header()).unwrap());
        journal.sync().now_or_never().unwrap().unwrap();
        let idle = Fact::WriterIdle(terret::core::fact::WriterIdle {});
        journal.push(0, &idle).unwrap();
        journal.write().unwrap();
        assert!(journal.sync().now_or_never().unwrap().is_err());
        drop(journal);
        let store = FileStore::on(Arc::new(fs.process_begins(Arc::new(Calm))), "/sessions");
        // It has nothing to write, and wants to say how the last turn ended.
        let mut journal = Journal::new(store.open("s", &mut |_| {}).unwrap());
        journal.sync().now_or_never().unwrap().unwrap();
        let length = journal.log().length() as usize;
        assert_eq!(fs.safe_bytes(Path::new(LOG)), length, "seed {seed}");
    }
}

/// Everything fails.
struct Broken;

impl Fate for Broken {
    fn verdict(&self, _op: &Op<'_>) -> Verdict {
        Verdict::Fail(0)
    }
}

#[test]
fn a_file_system_on_which_nothing_works_is_an_error_and_not_a_search_without_end() {
    let store = FileStore::on(Arc::new(SimFs::new(0, Arc::new(Broken))), "/a/b/sessions");
    let error = store.create(header()).err().unwrap();
    assert!(error.to_string().contains("the disk failed"), "{error}");
}

/// The simulated disk, as nobody's faults find it.
struct OnSim(SimFs);

impl UnderTest for OnSim {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(FileStore::on(Arc::new(self.0.clone()), "/sessions"))
    }

    fn put(&self, id: &str, log: &[u8]) {
        let dir = Path::new("/sessions").join(id);
        let _ = self.0.create_dir(&dir);
        let file = self.0.open(&dir.join("log.jsonl"), Access::Ensure).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(file.append(log).unwrap(), log.len());
    }

    fn bytes(&self, id: &str) -> Option<Vec<u8>> {
        let log = Path::new("/sessions").join(id).join("log.jsonl");
        self.0.look(&log, |bytes| bytes.map(<[u8]>::to_vec))
    }
}

#[tokio::test]
async fn files_on_the_simulated_disk_keep_what_every_store_promises() {
    conforms(&OnSim(SimFs::new(0, Arc::new(Calm)))).await.unwrap();
}
