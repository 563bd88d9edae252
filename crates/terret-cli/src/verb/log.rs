//! `terret log`: the events of a session, for people or byte for byte.

use std::ops::RangeInclusive;
use std::path::Path;

use terret::core::fact::{Class, Fact};
use terret::core::id::Seq;
use terret::core::line::{Event, LineError};
use terret::error::Error;
use terret::store::fs::Reader;
use terret::store::{Bad, Follow, Point, Scan};

use super::point;
use crate::args;
use crate::open;
use crate::open::nearest;
use crate::problem::{Problem, exit};
use crate::render;

/// Events shown on either side of `--around`.
const NEAR: u64 = 10;

pub(crate) fn log(args: &args::Log) -> Result<u8, Problem> {
    let (path, address) = open::find(&args.address)?;
    let mut range = args.from.unwrap_or(0)..=u64::MAX;
    let around = args.around.or(match address.point {
        Some(Point::Seq(seq)) if args.from.is_none() => Some(seq),
        _ => None,
    });
    if let Some(seq) = around {
        range = seq.saturating_sub(NEAR)..=seq.saturating_add(NEAR);
    }
    if let Some(kind) = &args.kind {
        check_type(kind)?;
    }
    // What is followed may still come.
    if !args.follow {
        point::check(&path, &args.address, address.point)?;
        point::check(&path, &args.address, args.around.map(Point::Seq))?;
    }
    let mut print = Print { args, part: Part::new(address.point), range };
    if args.follow {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Problem::new(exit::FAILED, format!("cannot start: {e}")))?;
        return runtime.block_on(follow(&path, print));
    }
    let mut scan = Scan::open(&path)?;
    if args.json && !print_header(&path)? {
        return Ok(0);
    }
    while let Some(next) = scan.next_event()? {
        match next {
            Ok(event) if print.event(&event, scan.bytes())? => {}
            Ok(_) => return Ok(0),
            Err(bad) => return end_of_good(&path, &mut scan, bad),
        }
    }
    Ok(0)
}

/// Goes on until it is interrupted, or nobody reads what is printed.
async fn follow(path: &Path, mut print: Print<'_>) -> Result<u8, Problem> {
    let mut follow = Follow::open(path, 0).await?;
    if print.args.json && !print_header(path)? {
        return Ok(0);
    }
    loop {
        match follow.next().await {
            Ok(event) if print.event(&event, follow.bytes())? => {}
            Ok(_) => return Ok(0),
            Err(Error::Damaged { line, offset, seq, cause, .. }) => {
                return Err(damaged(path, line, offset, seq, &cause));
            }
            Err(e) => return Err(e.into()),
        }
    }
}

/// What is printed of the events, and how.
struct Print<'a> {
    args: &'a args::Log,
    part: Part,
    range: RangeInclusive<Seq>,
}

impl Print<'_> {
    /// Prints the event, whose line has these bytes, if it is wanted. Says whether somebody still reads.
    fn event(&mut self, event: &Event, bytes: &[u8]) -> Result<bool, Problem> {
        let Print { args, part, range } = self;
        let wanted = part.holds(event)
            && range.contains(&event.seq)
            && args.kind.as_ref().is_none_or(|kind| kind == event.fact.type_name());
        match (wanted, args.json) {
            (false, _) => Ok(true),
            (true, true) => render::out([bytes, b"\n"].concat()),
            (true, false) => render::out_plain(&format!("{}\n", render::event::line(event))),
        }
    }
}

/// The part of a log that a step, or an attempt of it, is; the whole log without one.
pub(crate) struct Part {
    step: Option<(u32, u32, Option<u32>)>,
    inside: bool,
    attempt: u32,
}

impl Part {
    pub(crate) fn new(point: Option<Point>) -> Self {
        let step = match point {
            Some(Point::Step { turn, step, attempt }) => Some((turn, step, attempt)),
            Some(Point::Seq(_)) | None => None,
        };
        Part { step, inside: false, attempt: 0 }
    }

    /// Whether it holds this event. Attempts end where the next one begins; the tools an answer called are part
    /// of its attempt.
    pub(crate) fn holds(&mut self, event: &Event) -> bool {
        let Some((turn, step, attempt)) = self.step else { return true };
        if let Fact::StepStart(start) = &event.fact {
            (self.inside, self.attempt) = ((start.turn, start.step) == (turn, step), 0);
        }
        if let Fact::RequestAttempt(sent) = &event.fact {
            self.attempt = sent.attempt;
        }
        let holds = self.inside && attempt.is_none_or(|wanted| wanted == self.attempt);
        if matches!(&event.fact, Fact::StepEnd(_) | Fact::TurnEnd(_)) {
            self.inside = false;
        }
        holds
    }
}

/// Refuses a type that no event can have. Plugins name theirs as they like.
fn check_type(kind: &str) -> Result<(), Problem> {
    if Class::of(kind).is_some() {
        return Ok(());
    }
    let names = Fact::TABLE.iter().map(|(name, _)| *name);
    let problem = Problem::usage(format!("there is no event of type `{kind}`"));
    Err(match nearest(kind, names) {
        Some(near) => problem.fact("nearest", format!("`{near}`")),
        None => problem.hint("terret schema lists them"),
    })
}

/// What stands behind the last good line, said once, for every verb that reads.
pub(crate) fn end_of_good(path: &Path, scan: &mut Scan<Reader>, bad: Bad) -> Result<u8, Problem> {
    if scan.is_torn_tail(&bad)? {
        let length = path.metadata().map(|m| m.len()).unwrap_or(bad.offset);
        render::err(format!(
            "warning: the last {} bytes are a torn line (from offset {}); the next writer sets them aside",
            length.saturating_sub(bad.offset),
            bad.offset
        ));
        return Ok(0);
    }
    Err(damaged(path, bad.line, bad.offset, bad.seq, &bad.cause))
}

fn damaged(path: &Path, line: u64, offset: u64, seq: Seq, cause: &LineError) -> Problem {
    let what = if cause.is_newer() { "log of a newer terret" } else { "damaged log" };
    Problem::new(exit::LOG, format!("{what}: line {line}: {cause}"))
        .fact("log", path.display().to_string())
        .fact("seq", seq.to_string())
        .fact("offset", offset.to_string())
        .fact("safe", "every event before it is intact; nothing was changed")
}

fn print_header(path: &Path) -> Result<bool, Problem> {
    use std::io::BufRead;
    let file = std::fs::File::open(path).map_err(|e| Problem::new(exit::FAILED, e.to_string()))?;
    let mut line = Vec::new();
    std::io::BufReader::new(file)
        .read_until(b'\n', &mut line)
        .map_err(|e| Problem::new(exit::FAILED, e.to_string()))?;
    render::out(line)
}
