//! `terret verify`: the proof, session by session.

use std::path::Path;

use serde_json::json;
use terret::core::id::{Digest, Seq};
use terret::inspect::{Report, verify as prove};
use terret::store::{Condition, Scan};

use crate::args;
use crate::open;
use crate::problem::{Problem, exit};
use crate::render;

pub(crate) fn verify(args: &args::Verify) -> Result<u8, Problem> {
    let paths = match &args.address {
        Some(address) => vec![open::find(address)?.0],
        None if !args.all => {
            let problem = Problem::usage("which session? `verify` takes an address, or `--all`");
            return Err(problem.hint("terret verify latest"));
        }
        None => open::store()?
            .list()?
            .into_iter()
            .filter(|listed| !matches!(listed.condition, Condition::Empty))
            .map(|listed| listed.path)
            .collect(),
    };
    let head = args.head.as_deref().map(parse_head).transpose()?;
    let mut code = 0;
    for path in paths {
        code = code.max(one(args, &path, head)?);
    }
    Ok(code)
}

fn one(args: &args::Verify, path: &Path, head: Option<(Seq, Digest)>) -> Result<u8, Problem> {
    let report = match prove(path) {
        Ok(report) => report,
        Err(e) if args.all => {
            render::out_plain(&format!("FAILED  {}: {e}\n", path.display()))?;
            return Ok(exit::LOG);
        }
        Err(e) => return Err(e.into()),
    };
    let head = head.map(|head| holds_head(path, head)).transpose()?;
    let ok = report.holds() && head.is_none_or(|head| head == Head::Held);
    match args.json {
        true => render::out(format!("{}\n", as_json(path, &report, ok)))?,
        false => render::out_plain(&as_text(path, &report, ok, head))?,
    };
    Ok(if ok { 0 } else { exit::LOG })
}

fn as_text(path: &Path, report: &Report, ok: bool, head: Option<Head>) -> String {
    let mut text = format!(
        "{}  {}\n  {} events, {} requests, {} rebuilt byte for byte\n",
        if ok { "OK    " } else { "FAILED" },
        path.display(),
        report.events,
        report.attempts,
        report.proven
    );
    if let Some((seq, h)) = report.head {
        text.push_str(&format!("  head {seq}:{h}\n"));
    }
    for (seq, why) in &report.unproven {
        text.push_str(&format!("  note: request of event {seq} is not provable here: {why}\n"));
    }
    if let Some(turn) = report.open_turn {
        text.push_str(&format!("  note: turn {turn} is open; the next run closes it\n"));
    }
    for m in &report.mismatches {
        text.push_str(&format!(
            "  seq {}: {}\n    expected {}\n    found    {}\n",
            m.seq, m.what, m.expected, m.found
        ));
    }
    if let Some(bad) = &report.bad {
        let what = match bad.cause.is_newer() {
            true => "of a newer terret",
            false if report.torn => "torn tail",
            false => "damage",
        };
        text.push_str(&format!(
            "  {what}: line {}, offset {}, at seq {}: {}\n",
            bad.line, bad.offset, bad.seq, bad.cause
        ));
    }
    text.push_str(match head {
        Some(Head::Gone) => {
            "  the head you gave is not in this log: it was changed, or its tail was removed\n"
        }
        Some(Head::Behind) => "  the head you gave lies behind the last good line: nothing proves it\n",
        Some(Head::Held) | None => "",
    });
    text
}

fn as_json(path: &Path, report: &Report, ok: bool) -> serde_json::Value {
    let mismatches: Vec<_> = report
        .mismatches
        .iter()
        .map(|m| json!({"seq": m.seq, "what": m.what, "expected": m.expected, "found": m.found}))
        .collect();
    let bad = report.bad.as_ref().map(|bad| {
        json!({"line": bad.line, "offset": bad.offset, "seq": bad.seq, "what": bad.cause.to_string(), "torn": report.torn})
    });
    json!({
        "log": path,
        "ok": ok,
        "events": report.events,
        "requests": report.attempts,
        "proven": report.proven,
        "unproven": report.unproven.len(),
        "open_turn": report.open_turn,
        "head": report.head.map(|(seq, h)| format!("{seq}:{h}")),
        "mismatches": mismatches,
        "bad": bad,
    })
}

fn parse_head(text: &str) -> Result<(Seq, Digest), Problem> {
    let parsed = text.split_once(':').and_then(|(seq, h)| Some((seq.parse().ok()?, h.parse().ok()?)));
    parsed.ok_or_else(|| {
        Problem::usage(format!("`{text}` is not a head: it is `SEQ:HASH`, as printed on leaving"))
    })
}

/// What became of a head noted earlier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// The chain has it.
    Held,
    /// The chain has another value there, or ends before it.
    Gone,
    /// A bad line comes first.
    Behind,
}

/// Whether the chain has this value at this seq.
fn holds_head(path: &Path, (seq, h): (Seq, Digest)) -> Result<Head, Problem> {
    let mut scan = Scan::open(path)?;
    while let Some(next) = scan.next_event()? {
        match next {
            Ok(event) if event.seq == seq => {
                return Ok(if scan.tip().head() == h { Head::Held } else { Head::Gone });
            }
            Ok(_) => {}
            Err(_) => return Ok(Head::Behind),
        }
    }
    Ok(Head::Gone)
}
