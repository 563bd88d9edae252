//! The conformance page against the list of cases and the tree: no case is left out, and every test a row names is
//! there.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::{Finding, Report};

const PAGE: &str = "docs/reference/conformance.md";
/// The ids of all cases, one a line, in their order.
const CASES: &str = "xtask/conformance-cases.txt";

/// Checks the page; a tree with neither page nor list has nothing to check.
pub(super) fn check(root: &Path, report: &mut Report) -> io::Result<()> {
    let (page, cases) = match (read(root, PAGE)?, read(root, CASES)?) {
        (None, None) => return Ok(()),
        (page, cases) => (page.unwrap_or_default(), cases.unwrap_or_default()),
    };
    let rows: Vec<Row<'_>> = page.lines().enumerate().filter_map(|(at, line)| row(at + 1, line)).collect();
    let mut find = |line, what| report.findings.push(Finding { path: PAGE.to_owned(), line, what });
    if let Some((line, what)) = misplaced(&cases, &rows) {
        find(line, what);
    }
    let mut tree = Tree { root, texts: HashMap::new() };
    for row in &rows {
        let demands = match row.verdict {
            "kept" | "changed" => true,
            "not ours yet" => false,
            other => {
                find(row.line, format!("{}: `{other}` is no verdict: kept, changed, not ours yet", row.case));
                continue;
            }
        };
        if demands && row.tests.is_empty() {
            find(row.line, format!("{} is {} and names no test", row.case, row.verdict));
        }
        for test in &row.tests {
            match tree.find(test)? {
                Found::No => find(row.line, format!("{}: `{test}` does not exist", row.case)),
                Found::Ignored if demands => {
                    find(row.line, format!("{}: `{test}` is ignored: it shows nothing", row.case));
                }
                Found::Ignored | Found::Yes => {}
            }
        }
    }
    Ok(())
}

/// One case of the page.
struct Row<'a> {
    line: usize,
    case: &'a str,
    verdict: &'a str,
    tests: Vec<&'a str>,
}

/// A row of a table whose first cell is a case: `| A-01 | what | verdict | where | test |`.
fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> =
        text.strip_prefix('|')?.trim_end().strip_suffix('|')?.split('|').map(str::trim).collect();
    let [case, _, verdict, _, tests] = cells[..] else { return None };
    let (group, number) = case.split_once('-')?;
    let named = group.len() == 1 && number.starts_with(|c: char| c.is_ascii_digit());
    named.then(|| Row { line, case, verdict, tests: tests.split('`').skip(1).step_by(2).collect() })
}

/// The first case that is not where the list has it.
fn misplaced(cases: &str, rows: &[Row<'_>]) -> Option<(usize, String)> {
    let mut rows = rows.iter();
    for case in cases.lines() {
        match rows.next() {
            Some(row) if row.case == case => {}
            Some(row) => return Some((row.line, format!("`{}` stands where `{case}` belongs", row.case))),
            None => return Some((0, format!("`{case}` of `{CASES}` is missing"))),
        }
    }
    rows.next().map(|row| (row.line, format!("`{}` is not in `{CASES}`", row.case)))
}

enum Found {
    Yes,
    /// There, and never run by itself.
    Ignored,
    No,
}

/// Files that rows name, read once.
struct Tree<'a> {
    root: &'a Path,
    texts: HashMap<String, String>,
}

impl Tree<'_> {
    /// A test: `path.rs: function`, or `spec/page.md#heading`.
    fn find(&mut self, test: &str) -> io::Result<Found> {
        if let Some((path, function)) = test.split_once(".rs: ") {
            return Ok(function_of(self.text(&format!("{path}.rs"))?, function));
        }
        let Some((path, heading)) = test.split_once('#') else { return Ok(Found::No) };
        let text = self.text(path)?;
        let there =
            text.lines().filter_map(|line| line.strip_prefix("## ")).any(|title| slug(title) == heading);
        Ok(if there { Found::Yes } else { Found::No })
    }

    fn text(&mut self, path: &str) -> io::Result<&str> {
        if !self.texts.contains_key(path) {
            let text = read(self.root, path)?.unwrap_or_default();
            self.texts.insert(path.to_owned(), text);
        }
        Ok(&self.texts[path])
    }
}

fn function_of(text: &str, name: &str) -> Found {
    let mut ignored = false;
    for line in text.lines().map(str::trim_start) {
        let declared = line.split_once("fn ").is_some_and(|(_, rest)| {
            rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<']))
        });
        if declared && !line.starts_with("//") {
            return if ignored { Found::Ignored } else { Found::Yes };
        }
        ignored = (ignored && line.starts_with("#[")) || line.starts_with("#[ignore");
    }
    Found::No
}

/// A heading as a link names it.
fn slug(title: &str) -> String {
    let kept = title.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The text of a file; `None` where there is none.
fn read(root: &Path, path: &str) -> io::Result<Option<String>> {
    match std::fs::read_to_string(root.join(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
