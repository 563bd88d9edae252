//! Forks: a new log that begins with the lines of another, copied as they stand, and goes on by itself.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use terret_core::decided::Decided;
use terret_core::fact::{Fact, Rel, Removal};
use terret_core::id::{Digest, Seq, SessionId};
use terret_core::input::{Input, Recovery};
use terret_core::limits::MAX_LINE_BYTES;
use terret_core::line::{Event, FORMAT, LineError, Parent, SessionHeader, SessionTag, Tip};
use terret_core::machine::{Handled, Machine};
use terret_core::project::OpenTurn;
use terret_core::state::State;

use super::{BY, Beside, Process, Scan, Store, beside};
use crate::error::Error;

/// How often a log is read anew whose writer was seen in the middle of a line.
const LOOKS: u32 = 10;

/// What a fork is to be.
#[derive(Clone, Debug)]
pub struct Fork {
    /// Last event taken along, one inside a turn too; the last there is if absent.
    pub boundary: Option<Seq>,
    /// Id of the new session.
    pub id: SessionId,
    /// Epoch milliseconds.
    pub now: u64,
    /// The plugins that are here: events of others that later requests depend on are not taken along.
    pub plugins: Vec<String>,
}

/// Fails if what this event says is needed for later requests, and its plugin is not among those that are here.
pub(crate) fn check_plugin(event: &Event, here: impl FnOnce(&str) -> bool) -> Result<(), Error> {
    if let Fact::Plugin(written) = &event.fact
        && written.rel == Rel::Context
        && !here(written.plugin())
    {
        return Err(Error::MissingPlugin { seq: event.seq, plugin: written.plugin().to_owned() });
    }
    Ok(())
}

/// Makes a new session in `into` that begins with the log `source` reads, up to the boundary, and gives its header.
///
/// The source is only read (twice, each time from its start): it may be written meanwhile, or be damaged behind the
/// boundary. The new log has its lines as they stand; then a writer of its own, the closers of a turn that was open
/// at the boundary, and the removal of what waited there: that stays with the parent. Files beside the source that its
/// lines name (attachments, long output) are taken along, as second names or copies; absent ones stay absent. Nothing is run, and nobody
/// holds the new session afterwards. It is there complete or not at all.
///
/// Fails if the boundary is not in the source, if the source is damaged before it, if going on there takes a plugin
/// that is not here, or if the id is taken.
pub fn fork<R: Read>(
    source: impl Fn() -> Result<Scan<R>, Error>,
    into: &dyn Store,
    fork: Fork,
) -> Result<SessionHeader, Error> {
    let here = |event: &Event| check_plugin(event, |name| fork.plugins.iter().any(|here| here == name));
    let cut = Cut::find(&source, fork.boundary, &here)?;
    let (header, line) = cut.header(fork.id, fork.now)?;
    let (events, h) = (cut.tip.next_seq(), cut.tip.head());
    into.bring(&header.id, &cut.beside)?;
    let mut own = cut.begin(into.process(), Digest::of(&line[..line.len() - 1]), fork.now)?;
    own.leave_queue()?;
    own.take(Input::Idle)?;
    into.adopt(&header.id, &mut |out| {
        out.write_all(&line)?;
        let scan = source().map_err(std::io::Error::other)?;
        copy(scan, events, h, out)?;
        out.write_all(&own.lines)
    })?;
    Ok(header)
}

/// Copies the first lines, checked once more: a full disk may have taken back what was read before.
pub(super) fn copy(
    mut scan: Scan<impl Read>,
    events: u64,
    h: Digest,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let changed = || std::io::Error::other("the log changed while it was copied: fork it again");
    for _ in 0..events {
        scan.next_event().map_err(std::io::Error::other)?.and_then(Result::ok).ok_or_else(changed)?;
        out.write_all(scan.bytes())?;
        out.write_all(b"\n")?;
    }
    if scan.tip().head() == h { Ok(()) } else { Err(changed()) }
}

/// A log up to the boundary: what a fork needs to know of it.
pub(super) struct Cut {
    pub(super) source: SessionHeader,
    state: State,
    open: OpenTurn,
    pub(super) tip: Tip,
    epoch: u64,
    /// What stands beside the log and is named before the boundary.
    pub(super) beside: Beside,
}

impl Cut {
    pub(super) fn find<R: Read>(
        source: impl Fn() -> Result<Scan<R>, Error>,
        boundary: Option<Seq>,
        may: &dyn Fn(&Event) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut looks = LOOKS;
        loop {
            looks -= 1;
            if let Some(cut) = Cut::read(source()?, boundary, may, looks > 0)? {
                return Ok(cut);
            }
        }
    }

    /// Reads up to the boundary, as far as each event `may` be taken along. `None`, where it may be read `again`: a
    /// writer was in the middle of a line.
    fn read(
        mut scan: Scan<impl Read>,
        boundary: Option<Seq>,
        may: &dyn Fn(&Event) -> Result<(), Error>,
        again: bool,
    ) -> Result<Option<Self>, Error> {
        let (mut state, mut open, mut named) = (State::default(), OpenTurn::default(), BTreeSet::new());
        let wanted = |tip: &Tip| boundary.is_none_or(|boundary| tip.next_seq() <= boundary);
        while wanted(scan.tip())
            && let Some(next) = scan.next_event()?
        {
            let event = match next {
                Ok(event) => event,
                Err(bad) if scan.is_torn_tail(&bad)? => break,
                Err(bad) if !bad.terminated && again => return Ok(None),
                Err(bad) => return Err(bad.into_error(scan.path())),
            };
            may(&event)?;
            state.apply(&event.fact);
            open.fold(&event);
            named.extend(beside::named(&event.fact));
        }
        let beside = Beside::new(scan.fs(), scan.path(), named);
        let source = scan.header().clone();
        let cut = Cut { source, state, open, tip: scan.tip().clone(), epoch: scan.epoch(), beside };
        match boundary {
            Some(seq) if cut.last() < Some(seq) => {
                let last = cut.last();
                Err(Error::NoEvent { id: cut.source.id, seq, last })
            }
            Some(_) | None => Ok(Some(cut)),
        }
    }

    /// The last event.
    fn last(&self) -> Option<Seq> {
        self.tip.next_seq().checked_sub(1)
    }

    /// The header of a session that begins with it, and its line.
    pub(super) fn header(&self, id: SessionId, now: u64) -> Result<(SessionHeader, Vec<u8>), Error> {
        let parent = Parent { id: self.source.id.clone(), seq: self.last(), h: self.tip.head() };
        header(id, now, self.source.cwd.clone(), Some(parent))
    }

    /// Begins what the new session writes itself. A new writer wakes nothing, so no turn starts; nothing runs.
    pub(super) fn begin(self, process: Process, header_hash: Digest, now: u64) -> Result<Own, Error> {
        let writer = process.opens(self.epoch + 1, header_hash, None);
        let mut own =
            Own { machine: Machine::new(self.state), open: self.open, tip: self.tip, now, lines: Vec::new() };
        own.take(Input::Opened(writer))?;
        own.take(Input::Recover(Recovery::Close))?;
        Ok(own)
    }
}

/// The header of a session that is made here and now, and its line.
pub(super) fn header(
    id: SessionId,
    now: u64,
    cwd: String,
    parent: Option<Parent>,
) -> Result<(SessionHeader, Vec<u8>), Error> {
    let (kind, by) = (SessionTag::Session, BY.to_owned());
    let header = SessionHeader { kind, format: FORMAT, id, created: now, cwd, by, parent, origin: None };
    let line = header.to_line().map_err(|e| Error::Usage(format!("a header cannot be written: {e}")))?;
    Ok((header, line))
}

/// The lines a session that is made of another writes itself.
pub(super) struct Own {
    machine: Machine,
    open: OpenTurn,
    tip: Tip,
    now: u64,
    pub(super) lines: Vec<u8>,
}

impl Own {
    /// Those of a session that begins with nothing of another.
    pub(super) fn fresh(process: Process, header_hash: Digest, now: u64) -> Result<Self, Error> {
        let (open, tip) = (OpenTurn::default(), Tip::default());
        let mut own = Own { machine: Machine::default(), open, tip, now, lines: Vec::new() };
        own.take(Input::Opened(process.opens(1, header_hash, None)))?;
        Ok(own)
    }

    /// What waits stays with the other session.
    fn leave_queue(&mut self) -> Result<(), Error> {
        let msgs = self.machine.state().inbox().iter().map(|pending| pending.id.clone()).collect();
        self.take(Input::Remove { msgs, why: Removal::Fork })
    }

    pub(super) fn take(&mut self, input: Input) -> Result<(), Error> {
        let mut decided = Vec::new();
        if self.machine.handle(input, &mut decided) == Handled::Refused {
            return Err(Error::Refused("a turn of the new session is not closed"));
        }
        decided.into_iter().try_for_each(|decided| self.write(decided))
    }

    fn write(&mut self, decided: Decided) -> Result<(), Error> {
        let fact = self.open.complete(decided);
        // The log is synced before it gets its name: the last line may say so of all others.
        let is_last = matches!(fact, Fact::WriterIdle(_));
        let synced = self.tip.next_seq().checked_sub(1).filter(|_| is_last);
        let written = self.tip.encode(&mut self.lines, self.now, &fact, synced);
        let seq = written.map_err(|e| match e {
            LineError::TooLong(bytes) => Error::TooLarge { bytes, limit: MAX_LINE_BYTES },
            other => Error::Usage(format!("the new session cannot be written: {other}")),
        })?;
        self.open.fold(&Event { seq, time: self.now, fact });
        Ok(())
    }
}
