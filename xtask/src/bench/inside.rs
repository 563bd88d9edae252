//! What the library's own benchmarks print (`NAME<tab>FIGURE` a line), held against their bounds.

use std::process::Command;

use super::table::{Bound, Row};
use super::{Bench, Result};
use crate::root;

/// A figure, its unit, and its bound.
type Figure = (&'static str, &'static str, Bounded);

#[derive(Clone, Copy)]
enum Bounded {
    Most(f64),
    Least(f64),
    Shown,
}

use Bounded::{Least, Most, Shown};

const MACHINE: &[Figure] = &[
    ("machine: handle and effects, 100 events behind", "ns", Most(500.0)),
    ("machine: handle and effects, 100,000 events behind", "ns", Most(500.0)),
    ("machine: a chunk, 100 events behind", "ns", Most(150.0)),
    ("machine: a chunk, 100,000 events behind", "ns", Most(150.0)),
];

const SCALE: &[Figure] = &[
    ("agents: memory of one that did nothing yet", "B", Most(60_000.0)),
    ("agents: memory of an idle one after a turn", "B", Most(60_000.0)),
    // All began together and have the same to do: one that waits much longer than another starves.
    ("agents: the slowest turn beside the fastest", "", Most(2.0)),
    ("agents: the slowest turn", "ms", Shown),
    ("request: digest, 10 messages behind", "ns", Shown),
    ("request: digest, 1,000 messages behind", "ns", Shown),
    ("request: digest, 10,000 messages behind", "ns", Shown),
    ("request: body, 10 messages behind", "ns", Shown),
    ("request: body, 1,000 messages behind", "ns", Shown),
    ("request: body, 10,000 messages behind", "ns", Shown),
];

const STORE: &[Figure] = &[
    ("store: a piece of a stream, appended", "ns", Most(1_500.0)),
    ("store: bytes of such a line", "B", Shown),
    ("store: crc and chain of a log, MB/s", "", Least(500.0)),
    ("store: reading back a line", "ns", Shown),
    ("store: reading back with every check, MB/s", "", Shown),
    ("store: events of a long session", "", Shown),
    ("store: its conversation in messages", "", Shown),
    ("store: its conversation", "MB", Shown),
    ("store: opening it by its index", "ms", Most(50.0)),
    ("store: opening it by its index, CPU", "ms", Shown),
    ("store: opening it by its index, peak memory", "MB", Shown),
    ("store: opening it by its index, peak memory less its messages twice", "MB", Most(30.0)),
    ("store: opening it from its start", "ms", Most(1_000.0)),
    ("store: opening it from its start, CPU", "ms", Shown),
    ("store: opening it from its start, peak memory", "MB", Shown),
    ("store: opening it from its start, peak memory less its messages twice", "MB", Most(30.0)),
];

const BARRIERS: &[Figure] = &[
    ("barriers: of 1,000 bare files, a second", "", Shown),
    ("barriers: of 1,000 sessions, a second", "", Shown),
    ("barriers: sessions beside bare files, %", "", Least(80.0)),
];

const WIRE: &[Figure] = &[
    ("wire: bytes of an event of an answer", "B", Shown),
    ("wire: reading and assembling an answer, MB/s", "", Least(200.0)),
    ("wire: bytes of an event of an answer of code", "B", Shown),
    ("wire: reading and assembling an answer of code, MB/s", "", Least(200.0)),
    ("wire: bytes of an event of an answer with the shortest of envelopes", "B", Shown),
    ("wire: reading and assembling an answer with the shortest of envelopes, MB/s", "", Least(200.0)),
    ("wire: bytes of a request with 1,000 messages behind", "B", Shown),
    ("wire: building its body", "µs", Most(1_000.0)),
    ("wire: hashing the whole of it before it is sent", "µs", Shown),
    ("wire: both", "µs", Most(1_000.0)),
];

/// How much more the same work may cost with a thousand times as much behind it: caches are not free.
const MAX_GROWTH: f64 = 3.0;

/// The loop's own work.
pub(super) fn machine(_: &Bench) -> Result<Vec<Row>> {
    let printed = printed("terret-core", "machine")?;
    let mut rows = rows(MACHINE, &printed)?;
    rows.push(growth(
        "machine: a chunk with 100,000 events behind / with 100",
        MACHINE[3].0,
        MACHINE[2].0,
        &printed,
    )?);
    Ok(rows)
}

/// Long conversations, many agents.
pub(super) fn scale(_: &Bench) -> Result<Vec<Row>> {
    let printed = printed("terret", "scale")?;
    let mut rows = rows(SCALE, &printed)?;
    rows.push(growth(
        "request: body with 10,000 messages behind / with 10",
        SCALE[9].0,
        SCALE[7].0,
        &printed,
    )?);
    rows.push(growth(
        "request: digest with 10,000 messages behind / with 10",
        SCALE[6].0,
        SCALE[4].0,
        &printed,
    )?);
    Ok(rows)
}

/// Writing and reading a log.
pub(super) fn store(_: &Bench) -> Result<Vec<Row>> {
    let mut all = rows(STORE, &printed("terret", "store")?)?;
    all.extend(rows(BARRIERS, &printed("terret", "barriers")?)?);
    Ok(all)
}

/// Reading an answer, and writing the next request.
pub(super) fn wire(_: &Bench) -> Result<Vec<Row>> {
    rows(WIRE, &printed("terret", "wire")?)
}

fn rows(figures: &[Figure], printed: &str) -> Result<Vec<Row>> {
    let row = |(name, unit, bound): &Figure| {
        let value = value(printed, name)?;
        Ok(match bound {
            Most(max) => Row::at_most(name, unit, value, Bound::Absolute(*max)),
            Least(min) => Row::at_least(name, unit, value, *min),
            Shown => Row::shown(name, unit, value),
        })
    };
    figures.iter().map(row).collect()
}

fn growth(what: &str, late: &str, early: &str, printed: &str) -> Result<Row> {
    let ratio = value(printed, late)? / value(printed, early)?;
    Ok(Row::at_most(what, "", ratio, Bound::Absolute(MAX_GROWTH)))
}

fn printed(package: &str, bench: &str) -> Result<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output =
        cargo.args(["bench", "--quiet", "-p", package, "--bench", bench]).current_dir(root()).output()?;
    if !output.status.success() {
        return Err(format!("`cargo bench -p {package}`: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn value(printed: &str, name: &str) -> Result<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    Ok(line.ok_or_else(|| format!("`{name}` was not printed"))?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::{Most, Shown, growth, rows};

    const FIGURES: &[super::Figure] = &[("a", "ns", Most(2.0)), ("b", "ns", Shown)];

    #[test]
    fn every_figure_must_be_printed() {
        assert_eq!(rows(FIGURES, "a\t1.5\nb\t7\n").map(|rows| rows.len()).ok(), Some(2));
        assert!(rows(FIGURES, "a\t1.5\n").is_err() && rows(FIGURES, "a\tx\nb\t7").is_err());
        assert!(growth("g", "b", "a", "a\t1\nb\t2\n").is_ok());
    }
}
