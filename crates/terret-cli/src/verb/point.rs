//! Whether a place in a log is there, asked before anything is printed.

use std::collections::BTreeMap;
use std::path::Path;

use terret::core::fact::Fact;
use terret::core::id::Seq;
use terret::store::{Point, Scan};

use crate::problem::Problem;

/// What there is in a log.
#[derive(Default)]
struct Survey {
    last: Option<Seq>,
    /// Attempts of each step of each turn.
    turns: BTreeMap<u32, BTreeMap<u32, u32>>,
}

/// Refuses a place that is not in the log, and says what is. Of a damaged log nobody knows.
pub(crate) fn check(path: &Path, named: &str, point: Option<Point>) -> Result<(), Problem> {
    let Some(point) = point else { return Ok(()) };
    let mut scan = Scan::open(path)?;
    let mut survey = Survey::default();
    while let Some(next) = scan.next_event()? {
        let event = match next {
            Ok(event) => event,
            Err(bad) if scan.is_torn_tail(&bad)? => break,
            Err(_) => return Ok(()),
        };
        survey.last = Some(event.seq);
        if let Fact::TurnStart(start) = &event.fact {
            survey.turns.entry(start.turn).or_default();
        }
        if let Fact::StepStart(start) = &event.fact {
            survey.turns.entry(start.turn).or_default().entry(start.step).or_default();
        }
        if let Fact::RequestAttempt(sent) = &event.fact {
            survey.turns.entry(sent.turn).or_default().insert(sent.step, sent.attempt);
        }
    }
    match survey.lacks(point) {
        None => Ok(()),
        Some((what, there_is)) => Err(Problem::usage(format!("`{named}` names no {what} of this log"))
            .fact("there is", there_is)
            .fact("log", path.display().to_string())),
    }
}

impl Survey {
    /// What a point names that is not there, and what is there.
    fn lacks(&self, point: Point) -> Option<(&'static str, String)> {
        let (turn, step, attempt) = match point {
            Point::Seq(seq) if self.last.is_some_and(|last| seq <= last) => return None,
            Point::Seq(_) => {
                let last = self.last.map_or("no event".to_owned(), |last| format!("last event {last}"));
                return Some(("event", last));
            }
            Point::Step { turn, step, attempt } => (turn, step, attempt),
        };
        let Some(steps) = self.turns.get(&turn) else {
            let last = self.turns.last_key_value();
            let last = last.map(|(turn, steps)| format!("; turn {turn} has {}", count(steps.len(), "step")));
            return Some(("step", count(self.turns.len(), "turn") + &last.unwrap_or_default()));
        };
        let Some(attempts) = steps.get(&step) else {
            return Some(("step", format!("turn {turn} has {}", count(steps.len(), "step"))));
        };
        let is_there = attempt.is_none_or(|attempt| (1..=*attempts).contains(&attempt));
        (!is_there).then(|| {
            let there_is = format!("step {turn}.{step} has {}", count(*attempts as usize, "attempt"));
            ("attempt", there_is)
        })
    }
}

pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
