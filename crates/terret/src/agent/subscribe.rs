//! Reading along: the stored lines themselves, at the reader's own pace.

use std::io::Read;

use tokio::sync::watch;

use super::{Progress, Status};
use crate::error::Error;
use crate::limits::READ_ALONG_BYTES;

/// Lines of a log, as they are stored, from a place on.
///
/// Each reader has its own place in the log and reads at its own pace: what is written already and what is
/// written later come by the same path, so there is no gap and nothing twice between them. A slow reader misses
/// nothing, holds nobody up, and takes no more memory than one read and one line: what it has not read is in the log.
pub struct Subscription {
    reader: Box<dyn Read + Send>,
    read: u64,
    /// The beginning of a line whose end was not read yet.
    begun: Vec<u8>,
    /// Lines that stand before the first one wanted.
    skip: u64,
    progress: watch::Receiver<Progress>,
}

impl Subscription {
    pub(super) fn new(reader: Box<dyn Read + Send>, from: u64, progress: watch::Receiver<Progress>) -> Self {
        Subscription { reader, read: from, begun: Vec::new(), skip: 0, progress }
    }

    /// The same from this line on, counted from here.
    pub(super) fn skipping(self, lines: u64) -> Self {
        Subscription { skip: lines, ..self }
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
            if read.is_err() {
                // Nothing of it is known to be the log's.
                self.begun.truncate(start);
            }
            read.map_err(Error::io("read", std::path::Path::new("the log")))?;
            self.read += length;
            if let Some(end) = self.begun[start..].iter().rposition(|b| *b == b'\n') {
                let rest = self.begun.split_off(start + end + 1);
                let lines = std::mem::replace(&mut self.begun, rest);
                let wanted = self.wanted(lines);
                if !wanted.is_empty() {
                    return Ok(Some(wanted));
                }
            }
        }
    }

    /// Drops the lines that are not wanted yet.
    fn wanted(&mut self, mut lines: Vec<u8>) -> Vec<u8> {
        let mut start = 0;
        while self.skip > 0
            && let Some(length) = lines[start..].iter().position(|b| *b == b'\n')
        {
            start += length + 1;
            self.skip -= 1;
        }
        lines.drain(..start);
        lines
    }
}
