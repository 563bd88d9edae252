//! `terret show`: a transcript, or the exact request of an attempt.

use std::path::Path;

use terret::core::fact::{Fact, RequestAttempt};
use terret::core::id::Seq;
use terret::core::line::{Event, Parent};
use terret::core::project::Request;
use terret::inspect::bytes_beside;
use terret::model::BodyCache;
use terret::store::{Point, Scan};

use super::fork;
use super::log::end_of_good;
use super::run::here;
use super::sessions::passed_over;
use crate::args;
use crate::open;
use crate::problem::Problem;
use crate::render;
use crate::render::transcript::Transcript;

pub(crate) fn show(args: &args::Show) -> Result<u8, Problem> {
    let (path, address) = open::find(&args.address)?;
    super::point::check(&path, &args.address, address.point)?;
    if args.request {
        return request(&path, address.point);
    }
    let mut scan = Scan::open(&path)?;
    let (mut transcript, here, mut absent) = (Transcript::default(), here()?, 0);
    let parent = scan.header().parent.clone();
    while let Some(next) = scan.next_event()? {
        match next {
            Ok(event) => {
                if is_beyond(address.point, &event) {
                    break;
                }
                if let Fact::Plugin(event) = &event.fact {
                    absent += u64::from(!here.iter().any(|name| name == event.plugin()));
                }
                let begins = |parent: &&Parent| event.seq == parent.taken();
                if let Some(parent) = parent.as_ref().filter(begins)
                    && !render::out_plain(&format!("-- {}\n", fork::origin(parent)))?
                {
                    return Ok(0);
                }
                if let Some(text) = transcript.event(&event)
                    && !render::out_plain(&text)?
                {
                    return Ok(0);
                }
            }
            Err(bad) => {
                say(absent);
                return end_of_good(&path, &mut scan, bad);
            }
        }
    }
    say(absent);
    Ok(0)
}

/// Says how many events were not shown because nobody here knows them.
fn say(absent: u64) {
    if let Some(count) = passed_over(absent) {
        render::err(format!("note: {count}"));
    }
}

/// Rebuilds the body of the last attempt at or before the point.
fn request(path: &Path, point: Option<Point>) -> Result<u8, Problem> {
    let mut scan = Scan::open(path)?;
    let (mut request, mut bodies) = (Request::default(), BodyCache::default());
    let mut found: Option<(Seq, Vec<u8>)> = None;
    let mut bad = None;
    while let Some(next) = scan.next_event()? {
        let event = match next {
            Ok(event) => event,
            Err(b) => {
                bad = Some(b);
                break;
            }
        };
        // Damage behind what was asked for is another verb's business.
        if is_beyond(point, &event) {
            break;
        }
        if let Fact::RequestAttempt(attempt) = &event.fact
            && wanted(point, event.seq, attempt)
        {
            found = Some((event.seq, body(path, &request, &mut bodies)?));
        }
        request.fold(&event);
    }
    if let Some((seq, body)) = &found {
        render::err(format!("request of event {seq}, {} bytes", body.len()));
        if !render::out_exact(&[body, &b"\n"[..]].concat())? {
            return Ok(0);
        }
    }
    match (bad, found) {
        (Some(bad), _) => end_of_good(path, &mut scan, bad),
        (None, Some(_)) => Ok(0),
        (None, None) => Err(Problem::usage("no request was sent at that point").hint("terret log ADDR")),
    }
}

fn body(path: &Path, request: &Request, bodies: &mut BodyCache) -> Result<Vec<u8>, Problem> {
    let header = request.header().cloned();
    let header = header.ok_or_else(|| Problem::usage("the log holds no header before that request"))?;
    let built = bodies.build(&header, request.messages(), &bytes_beside(path));
    let built = built.map_err(|failure| Problem::usage(failure.message))?;
    let built = built.ok_or_else(|| Problem::usage("a plugin served that request: it has no body"))?;
    Ok(built.bytes.to_vec())
}

/// Whether an event lies behind the point.
fn is_beyond(point: Option<Point>, event: &Event) -> bool {
    match point {
        Some(Point::Seq(seq)) => event.seq > seq,
        Some(Point::Step { turn, step, .. }) => {
            matches!(&event.fact, Fact::StepStart(s) if (s.turn, s.step) > (turn, step))
        }
        None => false,
    }
}

fn wanted(point: Option<Point>, seq: Seq, attempt: &RequestAttempt) -> bool {
    match point {
        None => true,
        Some(Point::Seq(at)) => seq <= at,
        Some(Point::Step { turn, step, attempt: number }) => {
            (attempt.turn, attempt.step) == (turn, step) && number.is_none_or(|n| n == attempt.attempt)
        }
    }
}
