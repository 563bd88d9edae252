//! `terret fork`: a new session that begins with the events of another. It asks no model and runs nothing.

use std::path::Path;

use terret::clock::{Clock, Ids, SystemClock, SystemIds};
use terret::core::fact::Fact;
use terret::core::id::{BadSessionId, Seq, SessionId};
use terret::core::line::{Parent, SessionHeader};
use terret::error::Error;
use terret::store::{Address, Fork, Point, Scan};

use super::log::Part;
use super::point;
use crate::args;
use crate::open;
use crate::problem::Problem;
use crate::render::{self, shell};

pub(crate) fn fork(args: &args::Fork) -> Result<u8, Problem> {
    let id = args.id.as_deref().map(new_id).transpose()?;
    let (path, address) = open::find(&args.address)?;
    let boundary = boundary(&path, &args.address, &address)?;
    let header = make(&path, boundary, id)?;
    let log = open::store()?.log_path(header.id.as_str());
    if let Some(parent) = &header.parent {
        render::err(format!("{}  {}", origin(parent), log.display()));
    }
    made(&header)
}

/// Prints the id of a fork, and the command that goes on with it.
pub(super) fn made(header: &SessionHeader) -> Result<u8, Problem> {
    render::out(format!("{}\n", header.id))?;
    render::err(format!("go on with: terret run -r {} \"…\"", header.id));
    Ok(0)
}

/// Makes the fork in the store, under this id or a fresh one.
pub(crate) fn make(
    path: &Path,
    boundary: Option<Seq>,
    id: Option<SessionId>,
) -> Result<SessionHeader, Problem> {
    let plan =
        Fork { boundary, id: id.map_or_else(fresh_id, Ok)?, now: SystemClock.epoch_ms(), plugins: vec![] };
    let made = terret::store::fork(|| Scan::open(path), &open::store()?, plan);
    made.map_err(|e| match e {
        Error::MissingPlugin { seq, .. } if seq > 0 => {
            let log = shell::quoted(&path.to_string_lossy());
            Problem::from(e).hint(format!("terret fork {log}@{}", seq - 1))
        }
        e => Problem::from(e),
    })
}

pub(super) fn fresh_id() -> Result<SessionId, Problem> {
    SystemIds.fresh().parse().map_err(|e: BadSessionId| Problem::usage(e.to_string()))
}

/// The last event a fork at this address takes along. Of a step that is its end, and the turn's where it was the last
/// one; of an attempt it is what `terret log` shows of it.
pub(crate) fn boundary(path: &Path, named: &str, address: &Address) -> Result<Option<Seq>, Problem> {
    point::check(path, named, address.point)?;
    let turn = match address.point {
        None => return Ok(None),
        Some(Point::Seq(seq)) => return Ok(Some(seq)),
        Some(Point::Step { turn, .. }) => turn,
    };
    let (mut part, mut scan) = (Part::new(address.point), Scan::open(path)?);
    let (mut last, mut ended) = (None, false);
    while let Some(Ok(event)) = scan.next_event()? {
        if part.holds(&event) {
            (last, ended) = (Some(event.seq), matches!(event.fact, Fact::StepEnd(_)));
        } else if let (Fact::TurnEnd(end), true) = (&event.fact, ended) {
            return Ok(if end.turn == turn { Some(event.seq) } else { last });
        } else if matches!(event.fact, Fact::StepStart(_)) && last.is_some() {
            break;
        }
    }
    Ok(last)
}

/// Where a session comes from, in words.
pub(crate) fn origin(parent: &Parent) -> String {
    match parent.seq {
        Some(seq) => format!("forked from {} behind event {seq}", parent.id),
        None => format!("forked from {} before its first event", parent.id),
    }
}

/// The id of a new session. An address must be able to name it.
pub(crate) fn new_id(text: &str) -> Result<SessionId, Problem> {
    let id: SessionId = text.parse().map_err(|e: BadSessionId| Problem::usage(e.to_string()))?;
    match text == "latest" || text.ends_with(".jsonl") {
        true => Err(Problem::usage(format!("`{text}` cannot be the id of a session"))
            .fact("why", "as an address, `latest` is the newest session and `*.jsonl` a file")),
        false => Ok(id),
    }
}
