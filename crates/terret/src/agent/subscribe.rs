//! Reading along: the stored lines themselves, at the reader's own pace.

use std::io::Read;

use tokio::sync::watch;

use super::{Progress, Status};
use crate::error::Error;

/// Lines of a log, as they are stored, from a place on. It reads what is written, so a slow reader holds
/// nothing up and misses nothing.
pub struct Subscription {
    reader: Box<dyn Read + Send>,
    read: u64,
    progress: watch::Receiver<Progress>,
}

impl Subscription {
    pub(super) fn new(reader: Box<dyn Read + Send>, from: u64, progress: watch::Receiver<Progress>) -> Self {
        Subscription { reader, read: from, progress }
    }

    /// The next whole lines, newlines included; `None` once the agent is gone and everything was read.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let read = self.read;
        let more = |p: &Progress| p.bytes > read || p.status == Status::Poisoned;
        // When the driver is gone, what it wrote last still counts.
        let _ = self.progress.wait_for(more).await.is_ok();
        let written = self.progress.borrow().bytes;
        if written <= self.read {
            return Ok(None);
        }
        let mut lines = vec![0; (written - self.read) as usize];
        self.reader.read_exact(&mut lines).map_err(Error::io("read", std::path::Path::new("the log")))?;
        self.read = written;
        Ok(Some(lines))
    }
}
