//! The result as a table a person reads.

use std::fmt;

/// Rows in the order they were measured.
pub(super) struct Table {
    subject: &'static str,
    rows: Vec<Row>,
}

/// One measure and whether it is within its bound.
pub(super) struct Row {
    what: String,
    subject: String,
    floor: String,
    ratio: String,
    bound: String,
    verdict: Verdict,
}

/// What a figure may be at most.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// This much.
    Absolute(f64),
    /// So many times the floor's figure, which is the second field.
    TimesFloor(f64, f64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
    /// Only shown, or could not be measured here.
    None,
    /// The run itself went wrong.
    Broken,
}

impl Row {
    /// A figure with a bound.
    pub(super) fn at_most(what: &str, unit: &'static str, value: f64, bound: Bound) -> Row {
        let mut row = Row::shown(what, unit, value);
        let within = match bound {
            Bound::Absolute(max) => {
                row.bound = format!("≤ {}", figure(max, unit));
                value <= max
            }
            Bound::TimesFloor(max, floor) => {
                row.floor = figure(floor, unit);
                row.ratio = format!("{:.2}x", value / floor);
                row.bound = format!("≤ {max}x floor");
                value <= max * floor
            }
        };
        row.verdict = if within { Verdict::Pass } else { Verdict::Fail };
        row
    }

    /// A figure that must not be smaller.
    pub(super) fn at_least(what: &str, unit: &'static str, value: f64, min: f64) -> Row {
        let verdict = if value >= min { Verdict::Pass } else { Verdict::Fail };
        Row { bound: format!("≥ {}", figure(min, unit)), verdict, ..Row::shown(what, unit, value) }
    }

    /// A figure without a bound.
    pub(super) fn shown(what: &str, unit: &'static str, value: f64) -> Row {
        Row { subject: figure(value, unit), ..Row::empty(what) }
    }

    /// The floor's figure beside one that is not bound by it. Same unit, so only the number is shown.
    pub(super) fn beside(mut self, floor: f64) -> Row {
        self.floor = figure(floor, "");
        self
    }

    /// A measure this machine cannot take.
    pub(super) fn skipped(what: &str, why: &str) -> Row {
        Row { bound: why.to_owned(), ..Row::empty(what) }
    }

    /// A measure that went wrong.
    pub(super) fn broken(what: &str, why: &str) -> Row {
        Row { bound: why.to_owned(), verdict: Verdict::Broken, ..Row::empty(what) }
    }

    fn empty(what: &str) -> Row {
        let dash = || "-".to_owned();
        Row {
            what: what.to_owned(),
            subject: dash(),
            floor: dash(),
            ratio: dash(),
            bound: String::new(),
            verdict: Verdict::None,
        }
    }
}

impl Table {
    pub(super) fn new(self_test: bool) -> Table {
        Table { subject: if self_test { "floor*" } else { "terret" }, rows: Vec::new() }
    }

    pub(super) fn extend(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
    }

    /// Whether a figure is over its bound.
    pub(super) fn missed(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Fail)
    }

    /// Whether something could not be measured that should have been.
    pub(super) fn broken(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Broken)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<56}{:>10}{:>10}{:>8}  bound", "", self.subject, "floor", "ratio")?;
        for row in &self.rows {
            let verdict = match row.verdict {
                Verdict::Pass => "PASS",
                Verdict::Fail => "FAIL",
                Verdict::None => "",
                Verdict::Broken => "BROKEN",
            };
            let line = format!(
                "{:<56}{:>10}{:>10}{:>8}  {:<14} {verdict}",
                row.what, row.subject, row.floor, row.ratio, row.bound
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        if self.rows.iter().any(|row| row.what.ends_with('*')) {
            let what = "until the ClientHello reaches a plain TCP listener: no handshake, no request";
            writeln!(f, "* {what}")?;
        }
        Ok(())
    }
}

fn figure(value: f64, unit: &str) -> String {
    let number = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") };
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Row, Table};

    #[test]
    fn too_little_is_seen() {
        let mut table = Table::new(false);
        table.extend(vec![Row::at_least("a", "", 500.0, 500.0)]);
        assert!(!table.missed());
        table.extend(vec![Row::at_least("b", "", 499.9, 500.0)]);
        assert!(table.missed() && table.to_string().contains("≥ 500"));
    }

    #[test]
    fn a_missed_bound_is_seen() {
        let mut table = Table::new(false);
        table.extend(vec![Row::at_most("a", "ms", 3.0, Bound::TimesFloor(1.5, 2.0))]);
        assert!(!table.missed());
        table.extend(vec![Row::at_most("b", "ms", 3.1, Bound::TimesFloor(1.5, 2.0))]);
        assert!(table.missed() && !table.broken());
        let text = table.to_string();
        assert!(text.contains("1.55x") && text.contains("FAIL"), "{text}");
        table.extend(vec![Row::broken("c", "it broke")]);
        assert!(table.broken());
    }
}
