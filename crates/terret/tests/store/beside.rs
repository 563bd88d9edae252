//! Files beside a log: kept before they are named, taken along by forks, missed by proofs, whole or absent throughout.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base64::Engine as _;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use terret::agent::Agent;
use terret::core::chunk::{Chunk, Failure, FinishKind};
use terret::core::id::Digest;
use terret::core::message::{Attachment, Block, BlockKind, Message};
use terret::error::Error;
use terret::inspect::verify;
use terret::model::provider::{Own, adapter};
use terret::model::script::ScriptAdapter;
use terret::model::{Adapter, ChunkStream, Outgoing, Prepared, Proposal, Providers};
use terret::store::fs::{Access, File, FileSystem, LocalFs, Meta};
use terret::store::{FileStore, Fork, MemoryStore, Process, Salvage, Scan, Store, fork, salvage};

use crate::support::{Home, ID, lines};

const PICTURE: &[u8] = b"\x89PNG, but for the rest of it";

async fn agent(store: impl Store + 'static) -> Agent {
    let player = ScriptAdapter::new().with("test", "say seen\n---\nsay and\n---\nsay more\n").unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let builder = Agent::builder(Arc::new(models)).model("script:test").unwrap();
    builder.store(store).create(Some(ID.parse().unwrap())).await.unwrap()
}

fn showing(agent: &Agent, attachment: Attachment) -> Message {
    let mut message = agent.user("look");
    message.content.push(Block::Image { attachment });
    message
}

/// A session whose second turn has a picture, and the picture's name.
async fn pictured(home: &Home) -> Digest {
    let agent = agent(home.store.clone()).await;
    agent.prompt("hi").await.unwrap();
    let attachment = agent.attach(PICTURE.to_vec(), "image/png", Some("a.png")).await.unwrap();
    let blob = attachment.blob;
    agent.followup(showing(&agent, attachment)).await.unwrap().settled().await.unwrap();
    agent.shutdown().await.unwrap();
    blob
}

fn at(store: &FileStore, id: &str, blob: &Digest) -> PathBuf {
    store.sessions().join(id).join("blobs").join(blob.to_string())
}

fn plan(boundary: Option<u64>) -> Fork {
    Fork { boundary, id: "child".parse().unwrap(), now: 1, plugins: vec![] }
}

#[tokio::test]
async fn an_attachment_is_kept_once_and_read_by_its_name() {
    let home = Home::new();
    let agent = agent(home.store.clone()).await;
    let first = agent.attach(PICTURE.to_vec(), "image/png", None).await.unwrap();
    assert_eq!((first.blob, first.bytes), (Digest::of(PICTURE), PICTURE.len() as u64));
    let path = at(&home.store, ID, &first.blob);
    let meta = std::fs::metadata(&path).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    agent.attach(PICTURE.to_vec(), "image/png", None).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), meta.ino(), "it is not written again");
    assert_eq!(home.store.blob(ID, &first.blob).unwrap().as_deref(), Some(PICTURE));
    assert_eq!(home.store.blob(ID, &Digest::of(b"other")).unwrap(), None);
    std::fs::write(&path, b"changed").unwrap();
    let changed = home.store.blob(ID, &first.blob).unwrap_err().to_string();
    assert!(changed.contains("its bytes were changed"), "{changed}");
    agent.attach(PICTURE.to_vec(), "image/png", None).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), PICTURE, "and made right by being attached again");
}

#[tokio::test]
async fn a_message_is_taken_only_with_what_it_names() {
    async fn check(store: impl Store + Clone + 'static) {
        let agent = agent(store.clone()).await;
        let blob = Digest::of(PICTURE);
        let named = Attachment { blob, media_type: "image/png".into(), bytes: 3, name: None };
        let refused = agent.followup(showing(&agent, named)).await.err().unwrap();
        assert!(matches!(&refused, Error::Usage(why) if why.contains(&blob.to_string())), "{refused}");
        assert!(agent.look().await.unwrap().pending.is_empty());
        let kept = agent.attach(PICTURE.to_vec(), "image/png", None).await.unwrap();
        agent.followup(showing(&agent, kept)).await.unwrap().settled().await.unwrap();
        assert_eq!(store.blob(ID, &blob).unwrap().as_deref(), Some(PICTURE));
        agent.shutdown().await.unwrap();
    }
    check(MemoryStore::default()).await;
    check(Home::new().store.clone()).await;
}

#[tokio::test]
async fn a_request_with_an_absent_attachment_is_not_provable_and_one_with_a_changed_is_damaged() {
    let home = Home::new();
    let blob = pictured(&home).await;
    let report = verify(&home.log()).unwrap();
    assert!(report.holds() && (report.attempts, report.proven) == (2, 2), "{report:?}");
    let path = at(&home.store, ID, &blob);
    std::fs::remove_file(&path).unwrap();
    let report = verify(&home.log()).unwrap();
    assert!(report.holds() && report.proven == 1, "{report:?}");
    assert!(report.unproven.len() == 1 && report.unproven[0].1.contains("blob absent: not provable"));
    std::fs::write(&path, b"changed").unwrap();
    let report = verify(&home.log()).unwrap();
    assert!(!report.holds() && report.mismatches[0].what == "attachment", "{report:?}");
}

#[tokio::test]
async fn a_fork_takes_along_what_its_lines_name_and_stays_when_the_parent_goes() {
    let home = Home::new();
    let blob = pictured(&home).await;
    std::fs::write(at(&home.store, ID, &Digest::of(b"x")), b"x").unwrap();
    let source = || home.store.read(ID);
    fork(source, &home.store, plan(None)).unwrap();
    let (old, new) = (at(&home.store, ID, &blob), at(&home.store, "child", &blob));
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&new), inode(&old), "a second name");
    assert!(!at(&home.store, "child", &Digest::of(b"x")).exists(), "no line names it");
    // Into a store that cannot link: a copy. Before the picture: nothing. Absent: absent.
    let elsewhere = Home::new();
    let dying = Dying::new(u64::MAX, false);
    let store = FileStore::on(dying, elsewhere.store.sessions());
    fork(source, &store, plan(None)).unwrap();
    assert_eq!(std::fs::read(at(&store, "child", &blob)).unwrap(), PICTURE);
    assert_ne!(inode(&at(&store, "child", &blob)), inode(&old));
    let early = Fork { id: "early".parse().unwrap(), ..plan(Some(3)) };
    fork(source, &home.store, early).unwrap();
    assert!(!at(&home.store, "early", &blob).exists());
    let memory = MemoryStore::default();
    fork(source, &memory, plan(None)).unwrap();
    assert_eq!(memory.blob("child", &blob).unwrap().as_deref(), Some(PICTURE));
    home.store.remove(ID, &home.path().join("trash")).unwrap();
    std::fs::remove_dir_all(home.path().join("trash")).unwrap();
    let report = verify(&home.store.log_path("child")).unwrap();
    assert!(report.holds() && report.proven == 2);
    std::fs::remove_file(&new).unwrap();
    let again = Fork { id: "again".parse().unwrap(), ..plan(None) };
    fork(|| home.store.read("child"), &home.store, again).unwrap();
    assert!(!at(&home.store, "again", &blob).exists());
}

#[tokio::test]
async fn output_that_was_spilled_goes_along_with_its_call_and_a_salvage_takes_all() {
    let home = Home::new();
    let player = ScriptAdapter::new().with("test", "call none {}\n---\nsay done\n").unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let builder = Agent::builder(Arc::new(models)).model("script:test").unwrap();
    let agent = builder.store(home.store.clone()).create(Some(ID.parse().unwrap())).await.unwrap();
    agent.prompt("hi").await.unwrap();
    let kept = agent.attach(PICTURE.to_vec(), "image/png", None).await.unwrap();
    agent.shutdown().await.unwrap();
    std::fs::create_dir(home.session().join("spill")).unwrap();
    for name in ["1.1.0.txt", "9.9.9.txt"] {
        std::fs::write(home.session().join("spill").join(name), b"long").unwrap();
    }
    fork(|| home.store.read(ID), &home.store, plan(None)).unwrap();
    let child = home.store.sessions().join("child/spill");
    assert!(child.join("1.1.0.txt").exists() && !child.join("9.9.9.txt").exists());
    let mut log = home.bytes();
    let third = lines(&log)[..3].concat().len();
    log[third + 10] ^= 1;
    std::fs::write(home.log(), log).unwrap();
    let plan = Salvage { id: "saved".parse().unwrap(), now: 1, cwd: "/".into() };
    salvage(&home.log(), &home.store, plan).unwrap();
    assert!(at(&home.store, "saved", &kept.blob).exists());
    assert!(home.store.sessions().join("saved/spill/1.1.0.txt").exists());
}

#[tokio::test]
async fn at_whatever_operation_it_dies_bytes_and_forks_are_whole_or_absent() {
    let home = Home::new();
    let blob = pictured(&home).await;
    for links in [true, false] {
        let (mut absent, mut whole) = (0, 0);
        for after in 0.. {
            let target = Home::new();
            let dying = Dying::new(after, links);
            let store = FileStore::on(dying.clone(), target.store.sessions());
            let made = fork(|| Scan::open(&home.log()), &store, plan(None));
            // What the next process finds.
            let there = target.store.read("child").is_ok();
            if there {
                let report = verify(&target.store.log_path("child")).unwrap();
                assert!(report.holds() && report.proven == 2, "after {after}: {report:?}");
                whole += 1;
            } else {
                absent += 1;
                fork(|| Scan::open(&home.log()), &target.store, plan(None)).unwrap();
                let kept = target.store.blob("child", &blob).unwrap();
                assert_eq!(kept.as_deref(), Some(PICTURE), "after {after}");
            }
            if made.is_ok() {
                break;
            }
        }
        assert!(absent > 15 && whole > 1, "{absent} absent, {whole} whole");
    }
    for after in 0.. {
        let target = Home::new();
        std::fs::create_dir_all(target.session()).unwrap();
        let store = FileStore::on(Dying::new(after, true), target.store.sessions());
        let kept = store.keep(ID, PICTURE);
        let found = target.store.blob(ID, &blob).unwrap();
        assert!(found.is_none() || found.as_deref() == Some(PICTURE), "after {after}");
        target.store.keep(ID, PICTURE).unwrap();
        assert_eq!(target.store.blob(ID, &blob).unwrap().as_deref(), Some(PICTURE), "after {after}");
        if kept.is_ok() {
            assert!(after > 5, "only {after} operations");
            break;
        }
    }
}

/// The machine's file system, of a process that dies after so many operations: none of the later ones happens.
#[derive(Clone, Debug)]
struct Dying {
    left: Arc<AtomicU64>,
    dead: Arc<AtomicBool>,
    links: bool,
}

#[derive(Debug)]
struct DyingFile(Arc<dyn File>, Dying);

const REAL: LocalFs = LocalFs { sync_in_place: true };

impl Dying {
    fn new(after: u64, links: bool) -> Arc<Self> {
        Arc::new(Dying { left: Arc::new(AtomicU64::new(after)), dead: Arc::default(), links })
    }

    fn step(&self) -> io::Result<()> {
        let dead = |_| {
            self.dead.store(true, Ordering::Relaxed);
            io::Error::other("the process is dead")
        };
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(|_| ()).map_err(dead)
    }
}

impl FileSystem for Dying {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.step()?;
        Ok(Arc::new(DyingFile(REAL.open(path, access)?, self.clone())))
    }
    fn meta(&self, path: &Path) -> io::Result<Meta> {
        REAL.meta(path)
    }
    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        REAL.names(dir)
    }
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.step().and_then(|()| REAL.create_dir(dir))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step().and_then(|()| REAL.rename(from, to))
    }
    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
        self.step().and_then(|()| REAL.rewrite(path, from))
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        if self.links { REAL.link(from, to) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step().and_then(|()| REAL.remove(path))
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.step().and_then(|()| REAL.remove_dir(dir))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step().and_then(|()| REAL.sync_dir(dir))
    }
    fn sync(&self, file: Arc<dyn File>, dirs: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
        let done = file.sync().and_then(|()| dirs.iter().try_for_each(|dir| self.sync_dir(dir)));
        std::future::ready(done).boxed()
    }
    fn is_remote(&self, dir: &Path) -> io::Result<bool> {
        REAL.is_remote(dir)
    }
    fn holder(&self, path: &Path, noted: Option<u32>) -> Option<u32> {
        REAL.holder(path, noted)
    }
    fn process(&self) -> Process {
        REAL.process()
    }
    fn is_alive(&self, pid: u32) -> bool {
        REAL.is_alive(pid)
    }
}

impl File for DyingFile {
    fn meta(&self) -> io::Result<Meta> {
        self.0.meta()
    }
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buf, at)
    }
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let was_dead = self.1.dead.load(Ordering::Relaxed);
        match self.1.step() {
            Ok(()) => self.0.append(bytes),
            Err(dead) if was_dead => Err(dead),
            // It died in the middle of this one.
            Err(dead) => self.0.append(&bytes[..bytes.len() / 2]).and(Err(dead)),
        }
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.1.step().and_then(|()| self.0.set_len(length))
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.1.step().and_then(|()| self.0.allocate(bytes))
    }
    fn sync(&self) -> io::Result<()> {
        self.1.step().and_then(|()| self.0.sync())
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
}

/// Speaks a real wire up to the network; answers by itself.
struct Unplugged {
    wire: Box<dyn Adapter>,
    sent: Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
}

impl Adapter for Unplugged {
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure> {
        self.wire.prepare(proposal)
    }

    fn stream(&self, request: Outgoing) -> ChunkStream {
        self.sent.lock().unwrap().push(request.body().to_vec());
        let block = BlockKind::Text;
        let chunks = vec![
            Chunk::BlockStart { index: 0, block_type: block, id: None, name: None },
            Chunk::TextDelta { index: 0, text: "seen".into() },
            Chunk::Finish { reason: FinishKind::Stop, raw: "stop".into() },
        ];
        futures_util::stream::iter([Ok(chunks)]).boxed()
    }
}

#[tokio::test]
async fn a_picture_is_sent_and_its_bytes_are_part_of_the_proof() {
    let home = Home::new();
    let sent = Arc::new(std::sync::Mutex::new(Vec::new()));
    let unplugged = || {
        let wire = adapter("ollama", None, &|_| None, Own::default()).unwrap();
        let own = Unplugged { wire, sent: sent.clone() };
        let models = Providers::new(Box::new(|_| None)).with_adapter("ollama", own);
        Agent::builder(Arc::new(models)).model("ollama/llava").unwrap().store(home.store.clone())
    };
    let agent = unplugged().create(Some(ID.parse().unwrap())).await.unwrap();
    let attachment = agent.attach(PICTURE.to_vec(), "image/png", Some("a.png")).await.unwrap();
    let path = at(&home.store, ID, &attachment.blob);
    agent.followup(showing(&agent, attachment)).await.unwrap().settled().await.unwrap();
    agent.shutdown().await.unwrap();
    let body = String::from_utf8(sent.lock().unwrap()[0].clone()).unwrap();
    let data = base64::engine::general_purpose::STANDARD.encode(PICTURE);
    assert!(body.contains(&format!(
        r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#
    )));
    let report = verify(&home.log()).unwrap();
    assert!(report.holds() && (report.attempts, report.proven) == (1, 1), "{report:?}");

    // Without it nothing more is sent, and the turn says what to do.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(verify(&home.log()).unwrap().proven, 0);
    let agent = unplugged().resume(ID).await.unwrap();
    agent.prompt("and?").await.unwrap();
    agent.shutdown().await.unwrap();
    assert_eq!(sent.lock().unwrap().len(), 1);
    let last = std::fs::read_to_string(home.log()).unwrap();
    assert!(last.contains("is not beside the log: put it back"), "{last}");
    std::fs::write(&path, PICTURE).unwrap();
    let agent = unplugged().resume(ID).await.unwrap();
    agent.prompt("and now?").await.unwrap();
    agent.shutdown().await.unwrap();
    let report = verify(&home.log()).unwrap();
    assert!(report.holds() && (report.attempts, report.proven) == (2, 2), "{report:?}");
}
