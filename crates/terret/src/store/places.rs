//! Names: of sessions (addresses), and of the machine a writer runs on.

use std::path::PathBuf;
use std::str::FromStr;

use terret_core::id::Seq;

use crate::error::Error;

/// `SESSION[@POINT]`, as every verb takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `latest`, an unambiguous prefix, a full id, or a path to a log file.
    pub session: String,
    /// Where in it.
    pub point: Option<Point>,
}

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// An event.
    Seq(Seq),
    /// A step, or an attempt of it.
    Step {
        /// Turn.
        turn: u32,
        /// Step.
        step: u32,
        /// Attempt; the last one if absent.
        attempt: Option<u32>,
    },
}

impl Address {
    /// The address as a path, if it is one: it has a separator, or ends in `.jsonl`.
    pub fn as_path(&self) -> Option<PathBuf> {
        let s = &self.session;
        (s.contains('/') || s.ends_with(".jsonl")).then(|| PathBuf::from(s))
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadAddress { address: s.to_owned(), why: why.to_owned() };
        let (session, point) = match s.rsplit_once('@') {
            // A path may hold an `@`; a point never holds a separator.
            Some((session, point)) if !point.contains('/') => {
                let point = point.parse().map_err(|()| {
                    bad("after `@` comes a seq (`@118`) or `turn.step[#attempt]` (`@3.2`, `@3.2#1`)")
                })?;
                (session, Some(point))
            }
            Some(_) | None => (s, None),
        };
        if session.is_empty() {
            return Err(bad("it names no session"));
        }
        Ok(Address { session: session.to_owned(), point })
    }
}

impl FromStr for Point {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        let number = |s: &str| s.parse::<u32>().map_err(|_| ());
        let Some((turn, rest)) = s.split_once('.') else {
            return s.parse().map(Point::Seq).map_err(|_| ());
        };
        let (step, attempt) = match rest.split_once('#') {
            Some((step, attempt)) => (step, Some(number(attempt)?)),
            None => (rest, None),
        };
        Ok(Point::Step { turn: number(turn)?, step: number(step)?, attempt })
    }
}

/// Name of this machine.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Id of this boot of the machine; empty where the system has none.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
