//! The running hash that ties each line of a log to all before it.

use crate::id::Digest;
use crate::limits::GATHER_BYTES;

const CHAIN_START: &[u8] = b"terret log chain, format 1";

/// The running hash over a log's lines.
#[derive(Debug)]
pub(super) struct Chain {
    link: Digest,
    /// What was hashed since the link; `None`: nothing.
    since: Option<blake3::Hasher>,
    /// What came after that and is not hashed yet: a hash of many bytes at once takes a fraction of the time.
    gathered: Vec<u8>,
}

impl Chain {
    pub(super) fn start() -> Self {
        Chain { link: Digest::of(CHAIN_START), since: None, gathered: Vec::new() }
    }

    /// Takes the next bytes in: for a writer, whose value is asked for after every write.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.settle();
        self.hasher().update(bytes);
    }

    /// Takes the next line in, without its newline: for a reader, who asks for the value at links only.
    pub(super) fn gather(&mut self, line: &[u8]) {
        if self.gathered.len() + line.len() + 1 > GATHER_BYTES {
            self.settle();
        }
        if line.len() + 1 > GATHER_BYTES {
            self.update(line);
            self.update(b"\n");
            return;
        }
        if self.gathered.capacity() == 0 {
            self.gathered.reserve_exact(GATHER_BYTES);
        }
        self.gathered.extend_from_slice(line);
        self.gathered.push(b'\n');
    }

    /// The value so far.
    pub(super) fn value(&self) -> Digest {
        self.value_with(b"")
    }

    /// The value that these bytes would give next.
    pub(super) fn value_with(&self, bytes: &[u8]) -> Digest {
        if self.since.is_none() && self.gathered.is_empty() && bytes.is_empty() {
            return self.link;
        }
        let mut hasher = self.since.clone().unwrap_or_else(|| after(self.link));
        hasher.update(&self.gathered).update(bytes);
        Digest(*hasher.finalize().as_bytes())
    }

    /// Goes on from this value.
    pub(super) fn link(&mut self, value: Digest) {
        self.link = value;
        self.since = None;
        self.gathered.clear();
    }

    fn settle(&mut self) {
        if !self.gathered.is_empty() {
            let gathered = std::mem::take(&mut self.gathered);
            self.hasher().update(&gathered);
            self.gathered = gathered;
            self.gathered.clear();
        }
    }

    fn hasher(&mut self) -> &mut blake3::Hasher {
        let link = self.link;
        self.since.get_or_insert_with(|| after(link))
    }
}

/// The hash of what follows a link.
fn after(link: Digest) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&link.0);
    hasher
}

/// A copy is made to go on writing: it carries no reader's buffer along.
impl Clone for Chain {
    fn clone(&self) -> Self {
        let mut since = self.since.clone();
        if !self.gathered.is_empty() {
            since.get_or_insert_with(|| after(self.link)).update(&self.gathered);
        }
        Chain { link: self.link, since, gathered: Vec::new() }
    }
}
