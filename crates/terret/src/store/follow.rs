//! Following a log that another process may write: each whole line, once, in order, whoever writes it.

use std::io::{BufRead as _, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memchr::memrchr;
use terret_core::id::{Digest, Seq};
use terret_core::line::{Event, SessionHeader};

use super::fs::{File, FileSystem, LocalFs};
use super::lock::is_at;
use super::wakes::Wakes;
use super::{Bad, Scan, torn};
use crate::error::Error;
use crate::limits::{FOLLOW_BYTES, FOLLOW_POLL_MS};

/// A log file read along with its writer, whichever process that is, and with the next one when it dies.
///
/// Every line comes once, whole, checked and in order. A line that is not whole is not shown: its writer may be at it,
/// or it died there, and the next writer puts other lines in its place. It locks and changes nothing, and takes room
/// for one line and a little more, however far behind it is. Whoever runs the session reads along cheaper with
/// [`Agent::subscribe_from`](crate::agent::Agent::subscribe_from).
pub struct Follow {
    fs: Arc<dyn FileSystem>,
    scan: Scan<Whole>,
    from: Seq,
    /// How the last good line ends: with its checksum.
    shown: [u8; torn::CRC_TAIL.len()],
    /// The bad line that is there and should not be; believed when it still is at the next look.
    doubt: Option<Digest>,
    poll: Duration,
    wakes: Wakes,
}

impl Follow {
    /// Follows the log at `path` from the event `from` on, which may be one to come. Needs a tokio runtime with its
    /// clock and its input and output. Fails if there is no log.
    pub async fn open(path: &Path, from: Seq) -> Result<Self, Error> {
        let fs: Arc<dyn FileSystem> = Arc::new(LocalFs::default());
        if !fs.exists(path) {
            return Err(Error::NoSession(path.display().to_string()));
        }
        // Before anything is read: what is written from now on wakes.
        let wakes = Wakes::of(path);
        let scan = Scan::over(&fs, path, |file| Whole { file: file.into_file(), at: 0, end: u64::MAX })?;
        let poll = Duration::from_millis(FOLLOW_POLL_MS);
        let mut follow = Follow { fs, scan, from, shown: [0; _], doubt: None, poll, wakes };
        follow.stands_at_good();
        follow.back();
        Ok(follow)
    }

    /// How often it looks by itself, for file systems that do not tell that a file grew.
    pub fn polling(self, every: Duration) -> Self {
        Follow { poll: every, ..self }
    }

    /// The header.
    pub fn header(&self) -> &SessionHeader {
        self.scan.header()
    }

    /// The bytes of the line last returned, without its newline.
    pub fn bytes(&self) -> &[u8] {
        self.scan.bytes()
    }

    /// The next event, waited for as long as it takes: it never ends by itself. May be dropped and asked again.
    ///
    /// Fails if the log is damaged there ([`Error::Damaged`]), or if the file was removed, replaced, or no longer
    /// holds what was shown of it ([`Error::Changed`]).
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            // A reader that is far behind lets others have their turn.
            tokio::task::coop::consume_budget().await;
            match self.scan.next_event()? {
                Some(Ok(event)) => {
                    self.doubt = None;
                    self.stands_at_good();
                    if event.seq >= self.from {
                        return Ok(event);
                    }
                    continue;
                }
                Some(Err(bad)) => self.judge(bad)?,
                None if self.look()? => continue,
                None => {}
            }
            self.wait().await;
        }
    }

    async fn wait(&self) {
        match self.doubt {
            None => drop(tokio::time::timeout(self.poll, self.wakes.next()).await),
            // The second look is worth something some time after the first.
            Some(_) => tokio::time::sleep(self.poll.min(Duration::from_millis(FOLLOW_POLL_MS))).await,
        }
    }

    /// Fails if a bad line is there for good. Otherwise it is read again later.
    fn judge(&mut self, bad: Bad) -> Result<(), Error> {
        // What was shown may have been taken back: then this is no line of what follows it.
        self.look()?;
        let line = Digest::of(self.scan.bytes());
        self.scan.reader().get_mut().end = u64::MAX;
        if self.scan.is_torn_tail(&bad)? {
            self.doubt = None;
        } else if torn::is_as_written(&bad.cause) || self.doubt.replace(line) == Some(line) {
            return Err(bad.into_error(self.scan.path()));
        }
        self.back();
        Ok(())
    }

    /// Lets whole lines in that came behind the last good one; says whether there are any.
    fn look(&mut self) -> Result<bool, Error> {
        let (path, offset) = (self.scan.path().to_owned(), self.scan.offset());
        let changed = |why: &str| Error::Changed { path: path.clone(), why: why.to_owned() };
        let whole = self.scan.reader().get_mut();
        if !is_at(&*self.fs, &*whole.file, &path) {
            return Err(changed("it was removed, or another file took its place"));
        }
        let (mut end, at) = ([0; torn::CRC_TAIL.len()], offset - 1 - torn::CRC_TAIL.len() as u64);
        let read = whole.file.read_at(&mut end, at);
        if read.is_err() || end != self.shown {
            let why =
                "what was read last stands there no more; a writer takes lines back when its disk is full";
            return Err(changed(why));
        }
        whole.grow().map_err(Error::io("read", &path))
    }

    /// Remembers the line just read as the last good one.
    fn stands_at_good(&mut self) {
        if let Some(end) = self.scan.bytes().last_chunk() {
            self.shown = *end;
        }
    }

    /// Goes back behind the last good line; nothing after it was seen.
    fn back(&mut self) {
        let offset = self.scan.offset();
        let reader = self.scan.reader();
        let ahead = reader.buffer().len();
        reader.consume(ahead);
        let whole = reader.get_mut();
        (whole.at, whole.end) = (offset, offset);
    }
}

/// The part of a file that holds whole lines, as far as it was looked at.
struct Whole {
    file: Arc<dyn File>,
    at: u64,
    end: u64,
}

impl Whole {
    /// Moves the end behind the next newlines, if there are any.
    fn grow(&mut self) -> std::io::Result<bool> {
        let (mut block, mut at) = ([0; FOLLOW_BYTES], self.end);
        loop {
            let n = self.file.read_at(&mut block, at)?;
            if let Some(last) = memrchr(b'\n', &block[..n]) {
                self.end = at + last as u64 + 1;
                return Ok(true);
            }
            if n == 0 {
                return Ok(false);
            }
            at += n as u64;
        }
    }
}

impl Read for Whole {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let room = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = buf.len().min(room);
        let n = self.file.read_at(&mut buf[..most], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}
