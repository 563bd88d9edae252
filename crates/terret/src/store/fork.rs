//! Forks: a new log that begins with the lines of another, copied as they stand, and goes on by itself.

use std::io::{Read, Write};

use terret_core::decided::Decided;
use terret_core::fact::{Fact, Removal};
use terret_core::id::{Digest, Seq, SessionId};
use terret_core::input::{Input, Recovery};
use terret_core::limits::MAX_LINE_BYTES;
use terret_core::line::{Event, FORMAT, LineError, Parent, SessionHeader, SessionTag, Tip};
use terret_core::machine::Machine;
use terret_core::project::OpenTurn;
use terret_core::state::State;

use super::list::needs_plugin;
use super::{BY, Process, Scan, Store};
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
}

/// Makes a new session in `into` that begins with the log `source` reads, up to the boundary, and gives its header.
///
/// The source is only read (twice, each time from its start): it may be written meanwhile, or be damaged behind the
/// boundary. The new log has its lines as they stand; then a writer of its own, the closers of a turn that was open
/// at the boundary, and the removal of what waited there: that stays with the parent. Nothing is run, and nobody
/// holds the new session afterwards. It is there complete or not at all.
///
/// Fails if the boundary is not in the source, if the source is damaged before it, if going on there takes a plugin,
/// or if the id is taken.
pub fn fork<R: Read>(
    source: impl Fn() -> Result<Scan<R>, Error>,
    into: &dyn Store,
    fork: Fork,
) -> Result<SessionHeader, Error> {
    let cut = Cut::find(&source, fork.boundary)?;
    let header = SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: fork.id,
        created: fork.now,
        cwd: cut.source.cwd.clone(),
        by: BY.to_owned(),
        parent: Some(Parent { id: cut.source.id.clone(), seq: cut.last(), h: cut.tip.head() }),
        origin: None,
    };
    let line = header.to_line().map_err(|e| Error::Usage(format!("a header cannot be written: {e}")))?;
    let (events, h) = (cut.tip.next_seq(), cut.tip.head());
    let rest = cut.close(into.process(), Digest::of(&line[..line.len() - 1]), fork.now)?;
    into.adopt(&header.id, &mut |out| {
        out.write_all(&line)?;
        let scan = source().map_err(std::io::Error::other)?;
        copy(scan, events, h, out)?;
        out.write_all(&rest)
    })?;
    Ok(header)
}

/// Copies the first lines, checked once more: a full disk may have taken back what was read before.
fn copy(mut scan: Scan<impl Read>, events: u64, h: Digest, out: &mut dyn Write) -> std::io::Result<()> {
    let changed = || std::io::Error::other("the log changed while it was copied: fork it again");
    for _ in 0..events {
        scan.next_event().map_err(std::io::Error::other)?.and_then(Result::ok).ok_or_else(changed)?;
        out.write_all(scan.bytes())?;
        out.write_all(b"\n")?;
    }
    if scan.tip().head() == h { Ok(()) } else { Err(changed()) }
}

/// A log up to the boundary: what a fork needs to know of it.
struct Cut {
    source: SessionHeader,
    state: State,
    open: OpenTurn,
    tip: Tip,
    epoch: u64,
}

impl Cut {
    fn find<R: Read>(
        source: impl Fn() -> Result<Scan<R>, Error>,
        boundary: Option<Seq>,
    ) -> Result<Self, Error> {
        let mut looks = LOOKS;
        loop {
            looks -= 1;
            if let Some(cut) = Cut::read(source()?, boundary, looks > 0)? {
                return Ok(cut);
            }
        }
    }

    /// Reads up to the boundary. `None`, where it may be read `again`: a writer was in the middle of a line.
    fn read(mut scan: Scan<impl Read>, boundary: Option<Seq>, again: bool) -> Result<Option<Self>, Error> {
        let (mut state, mut open) = (State::default(), OpenTurn::default());
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
            if let Some((seq, plugin)) = needs_plugin(&event) {
                return Err(Error::MissingPlugin { seq, plugin });
            }
            state.apply(&event.fact);
            open.fold(&event);
        }
        let source = scan.header().clone();
        let cut = Cut { source, state, open, tip: scan.tip().clone(), epoch: scan.epoch() };
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

    /// The lines of the new session itself. A new writer wakes nothing, so no turn starts; nothing runs.
    fn close(self, process: Process, header_hash: Digest, now: u64) -> Result<Vec<u8>, Error> {
        let writer = process.opens(self.epoch + 1, header_hash, None);
        let mut own = Own { open: self.open, tip: self.tip, now, lines: Vec::new() };
        let mut machine = Machine::new(self.state);
        own.take(&mut machine, Input::Opened(writer))?;
        own.take(&mut machine, Input::Recover(Recovery::Close))?;
        let msgs = machine.state().inbox().iter().map(|pending| pending.id.clone()).collect();
        own.take(&mut machine, Input::Remove { msgs, why: Removal::Fork })?;
        own.take(&mut machine, Input::Idle)?;
        Ok(own.lines)
    }
}

/// The lines a fork writes itself.
struct Own {
    open: OpenTurn,
    tip: Tip,
    now: u64,
    lines: Vec<u8>,
}

impl Own {
    fn take(&mut self, machine: &mut Machine, input: Input) -> Result<(), Error> {
        let mut decided = Vec::new();
        machine.handle(input, &mut decided);
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
            other => Error::Usage(format!("the fork cannot be closed: {other}")),
        })?;
        self.open.fold(&Event { seq, time: self.now, fact });
        Ok(())
    }
}
