//! Logs in memory: for runs that keep nothing, and for tests.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::id::{Digest, SessionId};
use terret_core::line::{Event, SessionHeader, Tip};

use super::opening::read_through;
use super::repair::Repair;
use super::{Bad, Beside, Index, Log, Opened, Process, Scan, Store, Whole};
use crate::error::Error;

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Kept bytes of all sessions: their names say what they are.
type Blobs = Arc<Mutex<HashMap<Digest, Vec<u8>>>>;

/// A log, and whether somebody writes it.
type Shared = (Bytes, Arc<AtomicBool>);

/// Sessions that live as long as this value.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    logs: Arc<Mutex<HashMap<String, Shared>>>,
    blobs: Blobs,
}

impl MemoryStore {
    /// Puts a log there, for example one cut short.
    pub fn put(&self, id: &str, log: Vec<u8>) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.insert(id.to_owned(), (Arc::new(Mutex::new(log)), Arc::default()));
    }

    /// The bytes of a session's log.
    pub fn bytes(&self, id: &str) -> Option<Vec<u8>> {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.get(id).map(|(log, _)| log.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Store for MemoryStore {
    fn create(&self, header: SessionHeader) -> Result<Opened, Error> {
        let path = PathBuf::from(format!("memory:{}", header.id));
        let line = header.to_line().map_err(|e| Error::io("write", &path)(e.into()))?;
        let header_hash = Digest::of(&line[..line.len() - 1]);
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if logs.contains_key(header.id.as_str()) {
            return Err(Error::Exists(header.id));
        }
        let bytes: Bytes = Arc::new(Mutex::new(line));
        let writer = Arc::new(AtomicBool::new(true));
        logs.insert(header.id.to_string(), (bytes.clone(), writer.clone()));
        let log = Box::new(MemoryLog::new(bytes, path, self.blobs.clone(), Held(writer), Repair::None));
        let process = Process::this();
        let (tip, index) = (Tip::default(), Index::default());
        Ok(Opened { header, header_hash, tip, epoch: 1, cut_bytes: None, process, index, log })
    }

    fn open(&self, id: &str, fold: &mut dyn FnMut(&Event)) -> Result<Opened, Error> {
        let path = PathBuf::from(format!("memory:{id}"));
        let (bytes, writer) = {
            let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
            logs.get(id).cloned().ok_or_else(|| Error::NoSession(id.to_owned()))?
        };
        if writer.swap(true, Ordering::AcqRel) {
            let (pid, since) = (std::process::id(), "?".to_owned());
            return Err(Error::Busy { id: id.to_owned(), pid, since, path });
        }
        let writer = Held(writer);
        let whole = bytes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let length = whole.len() as u64;
        let mut scan = Scan::new(Cursor::new(whole), &path)?;
        let process = Process::this();
        let judge = |scan: &mut Scan<_>, bad: &Bad| scan.is_torn(bad, false, &process.boot);
        let repair = read_through(&mut scan, &mut |event, _| fold(event), judge)?;
        let cut_bytes = repair.keeps().map(|keep| length - keep);
        let (header, header_hash) = (scan.header().clone(), scan.header_hash());
        let (tip, epoch) = (scan.tip().clone(), scan.epoch() + 1);
        let log = Box::new(MemoryLog::new(bytes, path, self.blobs.clone(), writer, repair));
        let index = Index::default();
        Ok(Opened { header, header_hash, tip, epoch, cut_bytes, process, index, log })
    }

    fn dir(&self, _id: &str) -> Option<PathBuf> {
        None
    }

    fn read(&self, id: &str) -> Result<Scan<Box<dyn Read + Send>>, Error> {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, _) = logs.get(id).ok_or_else(|| Error::NoSession(id.to_owned()))?;
        let reader =
            Box::new(MemoryReader { bytes: bytes.clone(), at: 0, limit: Arc::new(AtomicU64::new(u64::MAX)) });
        Scan::new(reader, Path::new(&format!("memory:{id}")))
    }

    fn keep(&self, _id: &str, bytes: &[u8]) -> Result<Digest, Error> {
        let blob = Digest::of(bytes);
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.entry(blob).or_insert_with(|| bytes.to_vec());
        Ok(blob)
    }

    fn blob(&self, _id: &str, blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.blobs.lock().unwrap_or_else(PoisonError::into_inner).get(blob).cloned())
    }

    fn bring(&self, id: &SessionId, beside: &Beside) -> Result<(), Error> {
        for bytes in beside.blobs() {
            self.keep(id.as_str(), &bytes.map_err(Error::io("read", Path::new("an attachment")))?)?;
        }
        Ok(())
    }

    fn adopt(&self, id: &SessionId, write: Whole<'_>) -> Result<(), Error> {
        let mut log = Vec::new();
        write(&mut log).map_err(Error::io("write", Path::new(&format!("memory:{id}"))))?;
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if logs.contains_key(id.as_str()) {
            return Err(Error::Exists(id.clone()));
        }
        logs.insert(id.to_string(), (Arc::new(Mutex::new(log)), Arc::default()));
        Ok(())
    }
}

struct MemoryLog {
    bytes: Bytes,
    path: PathBuf,
    blobs: Blobs,
    repair: Repair,
    /// Where readers stop: before a torn tail, as long as it is there.
    limit: Arc<AtomicU64>,
    closed: Option<String>,
    _writer: Held,
}

/// The lock of a log in memory: let go when its writer is dropped.
struct Held(Arc<AtomicBool>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

struct MemoryReader {
    bytes: Bytes,
    at: usize,
    limit: Arc<AtomicU64>,
}

impl Read for MemoryReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = usize::try_from(self.limit.load(Ordering::Acquire)).unwrap_or(usize::MAX);
        let end = bytes.len().min(limit);
        let n = (&bytes[self.at.min(end)..end]).read(buf)?;
        self.at += n;
        Ok(n)
    }
}

impl MemoryLog {
    fn new(bytes: Bytes, path: PathBuf, blobs: Blobs, writer: Held, repair: Repair) -> Self {
        let limit = Arc::new(AtomicU64::new(repair.keeps().unwrap_or(u64::MAX)));
        MemoryLog { bytes, path, blobs, repair, limit, closed: None, _writer: writer }
    }

    fn open_check(&self) -> Result<(), Error> {
        match &self.closed {
            Some(why) => Err(Error::Poisoned { path: self.path.clone(), why: why.clone() }),
            None => Ok(()),
        }
    }
}

impl Log for MemoryLog {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        self.open_check()?;
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        // What opening left to do. A torn tail is not kept: nothing here outlives the process.
        match std::mem::replace(&mut self.repair, Repair::None) {
            Repair::None => {}
            Repair::Newline => bytes.push(b'\n'),
            Repair::Cut { keep, .. } => bytes.truncate(keep as usize),
        }
        self.limit.store(u64::MAX, Ordering::Release);
        bytes.extend_from_slice(lines);
        Ok(())
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        std::future::ready(self.open_check()).boxed()
    }

    fn poison(&mut self, why: &str) -> Error {
        self.closed.get_or_insert_with(|| why.to_owned());
        Error::Poisoned { path: self.path.clone(), why: why.to_owned() }
    }

    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        let (bytes, limit) = (self.bytes.clone(), self.limit.clone());
        Ok(Box::new(MemoryReader { bytes, at: from as usize, limit }))
    }

    fn length(&self) -> u64 {
        let written = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        self.repair.leaves(written)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn has_blob(&self, blob: &Digest) -> bool {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(blob)
    }

    fn blob(&self, blob: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.blobs.lock().unwrap_or_else(PoisonError::into_inner).get(blob).cloned())
    }
}
