//! `terret doctor PATH`: what is wrong with these logs and what to do about it, and the way on behind the damage.

use std::path::{Path, PathBuf};

use terret::clock::{Clock, SystemClock};
use terret::core::id::Seq;
use terret::core::line::LineError;
use terret::error::Error;
use terret::store::{Condition, Damage, FileStore, Listed, Salvage, Salvaged, is_salvageable};

use super::super::{fork, point};
use crate::open;
use crate::problem::{Problem, exit};
use crate::render::{self, shell};

/// Prints what each log is like. The exit code says whether one of them is damaged.
pub(super) fn report(logs: &[Listed]) -> Result<u8, Problem> {
    let damaged = logs.iter().filter(|log| matches!(log.condition, Condition::Damaged(_))).count();
    let mut text: String = logs.iter().map(about).collect();
    if logs.len() != 1 {
        text.push_str(&format!("{} logs, {damaged} damaged\n", logs.len()));
    }
    render::out_plain(&text)?;
    Ok(if damaged > 0 { exit::LOG } else { 0 })
}

/// Makes a session of all events before the damage of the one log these paths mean.
pub(super) fn fork(paths: &[PathBuf]) -> Result<u8, Problem> {
    let [log] = &at(paths)?[..] else {
        return Err(Problem::usage("`--fork-at-last-good` takes one log").hint("terret doctor LOG"));
    };
    let path = shell::quoted(&log.path.to_string_lossy());
    let (why, last_good) = match &log.condition {
        Condition::Damaged(e @ Error::Damaged { seq, .. }) => (e, seq.checked_sub(1)),
        Condition::Damaged(e) => (e, None),
        Condition::Empty
        | Condition::Idle
        | Condition::Parked
        | Condition::Running { .. }
        | Condition::Open
        | Condition::Torn { .. } => {
            return Err(Problem::usage(format!("`{}` is not damaged", log.path.display()))
                .hint(format!("terret fork {path}")));
        }
    };
    let Some(last_good) = last_good else {
        return Err(Problem::new(exit::LOG, why.to_string())
            .fact("why", "no event before that can be gone on from")
            .fact("safe", "nothing was changed"));
    };
    let header = fork::make(&log.path, Some(last_good), None)?;
    render::err(why.to_string());
    if let Some(parent) = &header.parent {
        render::err(fork::origin(parent));
    }
    fork::made(&header)
}

/// Makes a session of what is intact in the one log these paths mean, and says what that was.
pub(super) fn salvage(paths: &[PathBuf]) -> Result<u8, Problem> {
    let [log] = &at(paths)?[..] else {
        return Err(Problem::usage("`--salvage` takes one log").hint("terret doctor LOG"));
    };
    let cwd = open::cwd(None)?.to_string_lossy().into_owned();
    let plan = Salvage { id: fork::fresh_id()?, now: SystemClock.epoch_ms(), cwd };
    let made = terret::store::salvage(&log.path, &open::store()?, plan)?;
    let Salvaged { header, taken, kept, too_long, damages } = &made;
    render::err(match &header.parent {
        Some(parent) => fork::origin(parent),
        None => "begun anew: no event before the damage is intact".to_owned(),
    });
    let lost: u64 = damages.iter().map(|damage| damage.bytes).sum();
    render::err(format!("kept      {taken} events as they were, {kept} lines behind the damage as data"));
    if *too_long > 0 {
        render::err(format!("too long  {too_long} intact lines, which fit into no other"));
    }
    render::err(format!("lost      {lost} bytes, in {}", point::count(damages.len(), "place")));
    for Damage { line, offset, expected, found, bytes } in damages {
        render::err(format!(
            "  line {line}, offset {offset}, {bytes} bytes: {expected} belongs there; {found}"
        ));
    }
    fork::made(header)
}

/// The logs these paths mean.
pub(super) fn at(paths: &[PathBuf]) -> Result<Vec<Listed>, Problem> {
    let mut logs = Vec::new();
    for path in paths {
        let (in_session, in_home) = (path.join("log.jsonl"), path.join("sessions"));
        if !path.exists() {
            return Err(
                Problem::usage(format!("there is no `{}`", path.display())).hint("terret doctor --sessions")
            );
        } else if !path.is_dir() {
            logs.push(Listed::of(path));
        } else if in_session.exists() {
            logs.push(Listed::of(&in_session));
        } else if in_home.is_dir() {
            logs.extend(FileStore::new(in_home).examine()?);
        } else {
            return Err(Problem::usage(format!("`{}` holds no sessions", path.display()))
                .fact("why", "a session's directory has a `log.jsonl`, a home a directory `sessions`")
                .hint("terret doctor --sessions"));
        }
    }
    Ok(logs)
}

/// A word, the log, and what there is to say of it, line by line.
fn about(log: &Listed) -> String {
    let events = log.events;
    let (word, lines) = match &log.condition {
        Condition::Empty => ("empty", vec!["never begun; its id is free".to_owned()]),
        Condition::Idle | Condition::Parked => ("ok", vec![format!("{events} events")]),
        Condition::Running { pid } => ("ok", vec![format!("{events} events so far; open in process {pid}")]),
        Condition::Open => ("ok", vec![format!("{events} events; left open, the next run closes it")]),
        Condition::Torn { offset, bytes } => {
            // The header is line 1, event 0 line 2.
            let place = format!("line {}, offset {offset}, at seq {events}", events + 2);
            let found = format!("found     {bytes} bytes of a torn tail, as a crash leaves it");
            let todo =
                "do        nothing: the next run keeps these bytes in a file of their own, and goes on";
            ("torn", vec![place, found, todo.to_owned()])
        }
        Condition::Damaged(e) if e.is_newer() => ("newer", damage(&log.path, e)),
        Condition::Damaged(e) => ("damaged", damage(&log.path, e)),
    };
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("{word:<9}{}\n{lines}", log.path.display())
}

fn damage(path: &Path, error: &Error) -> Vec<String> {
    match error {
        Error::Damaged { line, offset, seq, cause, .. } => {
            let (expected, found) = cause.sides();
            vec![
                format!("line {line}, offset {offset}, at seq {seq}"),
                format!("expected  {expected}"),
                format!("found     {found}"),
                format!("intact    {seq} events before it"),
                format!("do        {}", way_on(path, *seq, cause)),
            ]
            .into_iter()
            .chain(or_salvage(path))
            .collect()
        }
        Error::NotALog { why, .. } => vec![
            "line 1, offset 0".to_owned(),
            "expected  the header of a session log".to_owned(),
            format!("found     {why}"),
            format!("do        {COPY}"),
        ]
        .into_iter()
        .chain(or_salvage(path))
        .collect(),
        other => vec![
            format!("found     {other}"),
            "do        see that the file can be read, then ask again".to_owned(),
        ],
    }
}

/// The other way on, where something behind the damage is intact.
fn or_salvage(path: &Path) -> Option<String> {
    let log = shell::quoted(&path.to_string_lossy());
    let what = "keep what is intact behind it too, in a new session";
    is_salvageable(path).then(|| format!("or        {what}: terret doctor {log} --salvage"))
}

/// Where no event can be gone on from.
const COPY: &str = "look for a copy of the file; this one was not changed";

fn way_on(path: &Path, seq: Seq, cause: &LineError) -> String {
    match cause {
        LineError::UnknownType(_) | LineError::Newer { .. } => {
            "upgrade terret: a newer one wrote this".to_owned()
        }
        LineError::Crc { .. }
        | LineError::NoCrc
        | LineError::Chain { .. }
        | LineError::Seq { .. }
        | LineError::Form(_)
        | LineError::TooLong(_) => match seq {
            0 => COPY.to_owned(),
            _ => {
                let log = shell::quoted(&path.to_string_lossy());
                format!("go on before it, in a new session: terret doctor {log} --fork-at-last-good")
            }
        },
    }
}
