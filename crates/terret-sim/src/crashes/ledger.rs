//! What was handed to a log, and what was told of it: from the bytes of its lines alone.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::Error;
use terret::store::{Log, Opened};

/// The bytes of one line, without its newline.
pub(super) type Line = Arc<[u8]>;

/// One log: its header is line 0.
#[derive(Clone, Default)]
pub(super) struct Written {
    /// Lines that a sync covered which came back: they are there whatever happens.
    pub(super) acked: Vec<Line>,
    /// Lines as they stand one after the other, and may be seen.
    pub(super) shown: Vec<Line>,
    /// Lines of a write that did not come back well: any part of them may be there.
    pub(super) tried: Vec<Line>,
    /// Lines as they stood earlier, before what no sync covered was lost or taken back.
    pub(super) past: Vec<Vec<Line>>,
}

impl Written {
    /// A log with these lines, all of them there for good.
    pub(super) fn whole(lines: Vec<Line>) -> Self {
        Written { acked: lines.clone(), shown: lines, ..Written::default() }
    }

    /// All that may stand in the log now, if the system lost nothing.
    fn now(&self) -> Vec<Line> {
        self.shown.iter().chain(&self.tried).cloned().collect()
    }

    /// Whether these lines are, each at its place, what some writer wrote.
    pub(super) fn has_written(&self, lines: &[Line]) -> bool {
        self.now().starts_with(lines) || self.past.iter().any(|past| past.starts_with(lines))
    }

    /// Whether these lines are there is settled: they were found.
    pub(super) fn found(&mut self, lines: Vec<Line>) {
        let now = self.now();
        if now != lines && !self.past.contains(&now) {
            self.past.push(now);
        }
        (self.shown, self.tried) = (lines, Vec::new());
    }
}

/// The lines in these bytes that end with a newline; with `open`, also one at the end that does not.
pub(super) fn lines(bytes: &[u8], open: bool) -> Vec<Line> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_suffix(b"\n").or(open.then_some(line))).map(Line::from).collect()
}

/// A log that is kept book of.
#[derive(Clone, Default)]
pub(super) struct Book(Arc<Mutex<Written>>);

impl Book {
    pub(super) fn new(written: Written) -> Self {
        Book(Arc::new(Mutex::new(written)))
    }

    pub(super) fn get(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the same book.
    pub(super) fn is(&self, other: &Book) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// From here on what this writer does is noted.
    pub(super) fn watches(&self, opened: Opened) -> Opened {
        Opened { log: Box::new(Watched { book: self.clone(), log: opened.log }), ..opened }
    }
}

struct Watched {
    book: Book,
    log: Box<dyn Log>,
}

impl Log for Watched {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let new = lines(bytes, false);
        {
            let mut book = self.book.get();
            if !book.tried.is_empty() {
                let now = book.now();
                book.past.push(now);
            }
            book.tried = new.clone();
        }
        let done = self.log.append(bytes);
        let mut book = self.book.get();
        match &done {
            Ok(()) => {
                book.tried.clear();
                book.shown.extend(new);
            }
            Err(Error::Full { .. }) => {
                // It was taken back, which a power cut may undo.
                let now = book.now();
                book.past.push(now);
                book.tried.clear();
            }
            Err(_) => {}
        }
        done
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), Error>> {
        let (book, covers) = (self.book.clone(), self.book.get().shown.len());
        let syncs = self.log.sync();
        async move {
            syncs.await?;
            let mut book = book.get();
            if book.acked.len() < covers {
                book.acked = book.shown[..covers].to_vec();
            }
            Ok(())
        }
        .boxed()
    }

    fn poison(&mut self, why: &str) -> Error {
        self.log.poison(why)
    }

    fn reader(&self, from: u64) -> Result<Box<dyn Read + Send>, Error> {
        self.log.reader(from)
    }

    fn length(&self) -> u64 {
        self.log.length()
    }

    fn path(&self) -> &Path {
        self.log.path()
    }
}
