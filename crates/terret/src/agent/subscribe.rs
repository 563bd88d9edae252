//! Reading along: the stored lines themselves, at the reader's own pace.

use std::io::Read;

use tokio::sync::watch;

use super::{Progress, Status};
use crate::error::Error;
use crate::limits::READ_ALONG_BYTES;

/// Lines of a log, as they are stored, from a place on. It reads what is written, so a slow reader holds
/// nothing up and misses nothing.
pub struct Subscription {
    reader: Box<dyn Read + Send>,
    read: u64,
    /// The beginning of a line whose end was not read yet.
    begun: Vec<u8>,
    progress: watch::Receiver<Progress>,
}

impl Subscription {
    pub(super) fn new(reader: Box<dyn Read + Send>, from: u64, progress: watch::Receiver<Progress>) -> Self {
        Subscription { reader, read: from, begun: Vec::new(), progress }
    }

    /// The next whole lines, newlines included, as many as one read brings; `None` once the agent is gone and
    /// everything was read.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let read = self.read;
            let more = |p: &Progress| p.bytes > read || p.status == Status::Poisoned;
            // When the driver is gone, what it wrote last still counts.
            let _ = self.progress.wait_for(more).await.is_ok();
            let written = self.progress.borrow().bytes;
            if written <= self.read {
                return Ok(None);
            }
            // A reader that comes back after a long while must not need room for all it missed at once.
            let length = (written - self.read).min(READ_ALONG_BYTES);
            let start = self.begun.len();
            self.begun.resize(start + length as usize, 0);
            let read = self.reader.read_exact(&mut self.begun[start..]);
            read.map_err(Error::io("read", std::path::Path::new("the log")))?;
            self.read += length;
            if let Some(end) = self.begun[start..].iter().rposition(|b| *b == b'\n') {
                let rest = self.begun.split_off(start + end + 1);
                return Ok(Some(std::mem::replace(&mut self.begun, rest)));
            }
        }
    }
}
