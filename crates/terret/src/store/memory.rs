//! Logs in memory: for runs that keep nothing, and for tests.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::id::{Digest, SessionId};
use terret_core::line::{Event, SessionHeader, Tip};

use super::{Beside, Index, Log, Opened, Process, Scan, Store, Whole};
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
        let log = Box::new(MemoryLog { bytes, path, blobs: self.blobs.clone(), _writer: Held(writer) });
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
        let mut scan = Scan::new(Cursor::new(whole), &path)?;
        if let Some(bad) = scan.fold(fold)? {
            return Err(bad.into_error(&path));
        }
        let (header, header_hash) = (scan.header().clone(), scan.header_hash());
        let (tip, epoch) = (scan.tip().clone(), scan.epoch() + 1);
        let log = Box::new(MemoryLog { bytes, path, blobs: self.blobs.clone(), _writer: writer });
        let process = Process::this();
        let index = Index::default();
        Ok(Opened { header, header_hash, tip, epoch, cut_bytes: None, process, index, log })
    }

    fn dir(&self, _id: &str) -> Option<PathBuf> {
        None
    }

    fn read(&self, id: &str) -> Result<Scan<Box<dyn Read + Send>>, Error> {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, _) = logs.get(id).ok_or_else(|| Error::NoSession(id.to_owned()))?;
        let reader = Box::new(MemoryReader { bytes: bytes.clone(), at: 0 });
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
}

impl Read for MemoryReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let n = (&bytes[self.at.min(bytes.len())..]).read(buf)?;
        self.at += n;
        Ok(n)
    }
}

impl Log for MemoryLog {
    fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
        Ok(())
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        std::future::ready(Ok(())).boxed()
    }

    fn poison(&mut self, why: &str) -> Error {
        Error::Poisoned { path: self.path.clone(), why: why.to_owned() }
    }

    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        Ok(Box::new(MemoryReader { bytes: self.bytes.clone(), at: from as usize }))
    }

    fn length(&self) -> u64 {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn has_blob(&self, blob: &Digest) -> bool {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(blob)
    }
}
