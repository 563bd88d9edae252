//! Proves a log: every line intact, every bracket closed, every request rebuilt from what stood before it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use terret_core::chunk::Failure;
use terret_core::fact::{Fact, RequestAttempt};
use terret_core::id::{Digest, Seq};
use terret_core::line::Parent;
use terret_core::project::{Brackets, Request};

use crate::error::Error;
use crate::model::{Blobs, BodyCache, kept, no_blobs};
use crate::store::{Bad, Scan, blob_beside};

/// What was found out about a log.
#[derive(Debug, Default)]
pub struct Report {
    /// Events read.
    pub events: u64,
    /// Requests that were sent.
    pub attempts: u64,
    /// Requests whose exact body was rebuilt and is the one that was sent.
    pub proven: u64,
    /// Requests whose canonical form fits and whose body nobody here can rebuild, and why.
    pub unproven: Vec<(Seq, String)>,
    /// Requests that are not what the log rebuilds, and other broken promises.
    pub mismatches: Vec<Mismatch>,
    /// The first bad line, if any.
    pub bad: Option<Bad>,
    /// Whether that line and what follows is a tail a crash may have torn.
    pub torn: bool,
    /// The turn the log ends in, if it ends inside one.
    pub open_turn: Option<u32>,
    /// Last line and the chain's value there.
    pub head: Option<(Seq, Digest)>,
}

/// A promise the log does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where.
    pub seq: Seq,
    /// What.
    pub what: String,
    /// What the log says.
    pub expected: String,
    /// What it gives.
    pub found: String,
}

impl Report {
    /// Whether every byte and every request is what it should be. An open turn is.
    pub fn holds(&self) -> bool {
        self.bad.is_none() && self.mismatches.is_empty()
    }
}

/// Reads the log at `path` from its start and checks everything it promises.
///
/// A request whose messages name an attachment that is not beside the log is not provable; that is no damage. One
/// that is there and has other bytes is.
pub fn verify(path: &Path) -> Result<Report, Error> {
    let mut scan = Scan::open(path)?;
    let bytes = bytes_beside(path);
    let there = |blob: &Digest| blob_beside(path, blob).map(|bytes| bytes.is_some());
    let mut report = walk(&mut scan, &there, &bytes)?;
    if let Some(bad) = &report.bad {
        report.torn = scan.is_torn_tail(bad)?;
    }
    Ok(report)
}

/// The same for a log that is read from elsewhere, from its first event on. Whether a bad line is a torn
/// tail is for the caller to ask: [`Scan::is_torn`]. Attachments are not looked for: a body with the bytes of one
/// in it is not provable.
pub fn verify_scan(scan: &mut Scan<impl Read>) -> Result<Report, Error> {
    walk(scan, &|_| Ok(true), &no_blobs)
}

/// The bytes of attachments beside the log at `path`, for whoever builds its bodies again.
pub fn bytes_beside(path: &Path) -> impl Fn(&Digest) -> Result<Vec<u8>, Failure> {
    |blob| kept(blob, blob_beside(path, blob))
}

/// Whether an attachment is there; an error if it is and has other bytes.
type Look<'a> = &'a dyn Fn(&Digest) -> Result<bool, Error>;

fn walk(scan: &mut Scan<impl Read>, look: Look<'_>, bytes: Blobs<'_>) -> Result<Report, Error> {
    let (mut report, mut blobs) = (Report::default(), BTreeMap::<Digest, bool>::new());
    let (mut brackets, mut request, mut bodies) =
        (Brackets::default(), Request::default(), BodyCache::default());
    let parent = scan.header().parent.clone();
    // What was taken along from a parent, its header's hash included, is as the parent wrote it.
    let taken = parent.as_ref().map_or(0, Parent::taken);
    loop {
        if let Some(parent) = parent.as_ref().filter(|_| report.events == taken) {
            report.same(taken.saturating_sub(1), "chain at the fork", parent.h, scan.tip().head());
        }
        let Some(next) = scan.next_event()? else { break };
        let event = match next {
            Ok(event) => event,
            Err(bad) => {
                report.bad = Some(bad);
                break;
            }
        };
        for attachment in event.fact.attachments() {
            if let Entry::Vacant(unknown) = blobs.entry(attachment.blob) {
                let found = look(&attachment.blob);
                if let Err(e) = &found {
                    let (what, expected) = ("attachment".to_owned(), attachment.blob.to_string());
                    report.mismatches.push(Mismatch { seq: event.seq, what, expected, found: e.to_string() });
                }
                unknown.insert(found.unwrap_or(false));
            }
        }
        report.events += 1;
        if let Fact::RequestAttempt(attempt) = &event.fact {
            let lost = lost(&request, &blobs);
            report.attempt(event.seq, attempt, &mut request, (&mut bodies, bytes), lost);
        }
        if let (Fact::WriterOpened(opened), true) = (&event.fact, event.seq >= taken) {
            report.same(event.seq, "header line", opened.header_hash, scan.header_hash());
        }
        brackets.fold(&event);
        request.fold(&event);
    }
    report.head = report.events.checked_sub(1).map(|last| (last, scan.tip().head()));
    if report.bad.is_none() && report.events < taken {
        let what = "events taken along from the parent".to_owned();
        let (expected, found) = (taken.to_string(), report.events.to_string());
        report.mismatches.push(Mismatch { seq: report.events, what, expected, found });
    }
    report.open_turn = brackets.open_turn();
    for (seq, what) in brackets.faults() {
        let (expected, found) = ("the rules of the loop".to_owned(), "something else".to_owned());
        report.mismatches.push(Mismatch { seq: *seq, what: what.clone(), expected, found });
    }
    report.mismatches.sort_by_key(|m| m.seq);
    Ok(report)
}

/// An attachment that the request's messages name and that is not there.
fn lost(request: &Request, blobs: &BTreeMap<Digest, bool>) -> Option<Digest> {
    // Most logs name none, or have them all.
    if blobs.values().all(|there| *there) {
        return None;
    }
    let named = request.messages().list().iter().flat_map(|m| m.message.attachments());
    named.map(|attachment| attachment.blob).find(|blob| blobs.get(blob) == Some(&false))
}

impl Report {
    fn attempt(
        &mut self,
        seq: Seq,
        attempt: &RequestAttempt,
        request: &mut Request,
        (bodies, bytes): (&mut BodyCache, Blobs<'_>),
        lost: Option<Digest>,
    ) {
        self.attempts += 1;
        let Some(header) = request.header().map(Arc::clone) else {
            let (expected, found) = ("a request/header before it".to_owned(), "none".to_owned());
            self.mismatches.push(Mismatch { seq, what: "request".into(), expected, found });
            return;
        };
        if !self.same(seq, "canonical request", attempt.digest, request.digest(&header)) {
            return;
        }
        if let Some(blob) = lost {
            self.unproven.push((seq, format!("blob absent: not provable ({blob})")));
            return;
        }
        let Some(expected) = attempt.wire_digest else {
            self.unproven.push((seq, "a plugin served this request: there is no body to rebuild".into()));
            return;
        };
        match bodies.build(&header, request.messages(), bytes) {
            Ok(Some(body)) => {
                if self.same(seq, "request body", expected, body.digest) {
                    self.proven += 1;
                }
            }
            Ok(None) => self.unproven.push((seq, "the header names no codec".into())),
            Err(failure) => self.unproven.push((seq, failure.message)),
        }
    }

    fn same(&mut self, seq: Seq, what: &str, expected: Digest, found: Digest) -> bool {
        if expected != found {
            let (expected, found) = (expected.to_string(), found.to_string());
            self.mismatches.push(Mismatch { seq, what: what.to_owned(), expected, found });
        }
        expected == found
    }
}
