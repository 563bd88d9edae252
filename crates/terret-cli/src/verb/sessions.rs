//! `terret sessions`: the list, one of it, the trash.

use serde_json::{Map, json};
use terret::core::project::Turns;
use terret::store::{Condition, Listed, PluginEvents, Scan};

use super::fork;
use super::run::here;
use crate::args::{self, SessionAction};
use crate::open;
use crate::problem::Problem;
use crate::render::{self, ending, time};

pub(crate) fn sessions(args: &args::Sessions) -> Result<u8, Problem> {
    match &args.action {
        None => {
            let listed = open::store()?.list()?;
            if listed.is_empty() && !args.json {
                render::err("no sessions yet\n\nhint: terret run -m script:demo \"hello\"");
            }
            for session in &listed {
                let going = match args.json {
                    true => render::out(format!("{}\n", as_json(session)))?,
                    false => render::out_plain(&format!("{}\n", as_line(session)))?,
                };
                if !going {
                    break;
                }
            }
            Ok(0)
        }
        Some(SessionAction::Show { address }) => {
            let (path, _) = open::find(address)?;
            let session = Listed::of(&path);
            match args.json {
                true => render::out(format!("{}\n", as_json(&session)))?,
                false => render::out_plain(&details(&session, &here()?))?,
            };
            Ok(0)
        }
        Some(SessionAction::Rm { address }) => remove(address),
    }
}

fn state(session: &Listed) -> String {
    match &session.condition {
        Condition::Empty => "never begun".into(),
        Condition::Idle => "idle".into(),
        Condition::Parked => format!("parked ({} waiting)", session.pending),
        Condition::Running { pid } => format!("running (pid {pid})"),
        Condition::Open => "left open by a crash".into(),
        Condition::Torn { bytes, .. } => format!("torn tail ({bytes} bytes)"),
        Condition::Damaged(why) if why.is_newer() => why.to_string(),
        Condition::Damaged(why) => format!("damaged: {why}"),
    }
}

/// The same for a table: what is damaged and where is `doctor`'s to say.
fn short_state(session: &Listed) -> String {
    match &session.condition {
        Condition::Damaged(why) if why.is_newer() => "of a newer terret".into(),
        Condition::Damaged(_) => "damaged".into(),
        Condition::Empty
        | Condition::Idle
        | Condition::Parked
        | Condition::Running { .. }
        | Condition::Open
        | Condition::Torn { .. } => state(session),
    }
}

fn as_line(session: &Listed) -> String {
    let ending = session.last.as_ref().map(|reason| ending::words(reason, 1)).unwrap_or_default();
    let updated = if session.updated > 0 { time::minute(session.updated) } else { "-".into() };
    let line = format!(
        "{}  {updated}  {:<22}  {:<28}  {}",
        session.id,
        short_state(session),
        render::first_line(&ending, 28),
        session.title
    );
    line.trim_end().to_owned()
}

fn details(session: &Listed, here: &[String]) -> String {
    let mut text = format!("session  {}\nlog      {}\n", session.id, session.path.display());
    if let Some(header) = &session.header {
        text.push_str(&format!(
            "created  {}\ncwd      {}\nby       {}\n",
            time::minute(header.created),
            header.cwd,
            header.by
        ));
        if let Some(parent) = &header.parent {
            text.push_str(&format!("parent   {}\n", fork::origin(parent)));
        }
    }
    let turns = match open_turn(session) {
        Some(turn) => format!("{} ({turn} is open)", session.turns + 1),
        None => session.turns.to_string(),
    };
    text.push_str(&format!(
        "state    {}\nevents   {}\nturns    {turns}\nwaiting  {}\n",
        state(session),
        session.events,
        session.pending
    ));
    if let Some(reason) = &session.last {
        text.push_str(&format!("ended    {}\n", ending::words(reason, 1)));
    }
    let absent = || session.plugins.iter().filter(|(name, _)| !here.contains(name));
    if let Some(count) = passed_over(absent().map(|(_, of)| of.events).sum()) {
        text.push_str(&format!("skipped  {count}\n"));
    }
    if let Some((seq, name)) = absent().filter_map(|(name, of)| Some((of.context?, name))).min() {
        text.push_str(&format!("needs    plugin `{name}`, from event {seq} on, to be gone on with\n"));
    }
    text
}

/// How many events nobody here can tell anything of, in words; nothing if there are none.
pub(crate) fn passed_over(events: u64) -> Option<String> {
    let s = if events == 1 { "" } else { "s" };
    (events > 0).then(|| format!("{events} event{s} of plugins that are not here"))
}

/// The turn that has no end yet.
fn open_turn(session: &Listed) -> Option<u32> {
    let mut scan = Scan::open(&session.path).ok()?;
    let mut turns = Turns::default();
    while let Ok(Some(Ok(event))) = scan.next_event() {
        turns.fold(&event);
    }
    turns.open().map(|open| open.turn)
}

fn as_json(session: &Listed) -> serde_json::Value {
    let word = match &session.condition {
        Condition::Empty => "empty",
        Condition::Idle => "idle",
        Condition::Parked => "parked",
        Condition::Running { .. } => "running",
        Condition::Open => "open",
        Condition::Torn { .. } => "torn",
        Condition::Damaged(why) if why.is_newer() => "newer",
        Condition::Damaged(_) => "damaged",
    };
    let why = match &session.condition {
        Condition::Damaged(e) => Some(e.to_string()),
        _ => None,
    };
    let of = |of: &PluginEvents| json!({"events": of.events, "context": of.context});
    let plugins: Map<_, _> =
        session.plugins.iter().map(|(name, events)| (name.clone(), of(events))).collect();
    json!({
        "id": session.id,
        "log": session.path,
        "created": session.header.as_ref().map(|h| h.created),
        "updated": session.updated,
        "cwd": session.header.as_ref().map(|h| h.cwd.clone()),
        "parent": session.header.as_ref().and_then(|h| h.parent.clone()),
        "title": session.title,
        "events": session.events,
        "turns": session.turns,
        "pending": session.pending,
        "plugins": plugins,
        "ending": session.last,
        "state": word,
        "why": why,
    })
}

/// Moves a session to the trash, unless somebody writes it.
fn remove(address: &str) -> Result<u8, Problem> {
    if address.split('@').next() == Some("latest") {
        return Err(Problem::usage("only a session that is named can be moved to the trash, not `latest`")
            .hint("terret sessions"));
    }
    let (path, address) = open::find(address)?;
    if address.as_path().is_some() {
        return Err(Problem::usage("only sessions of the store can be moved to the trash"));
    }
    let id = Listed::of(&path).id;
    let target = open::store()?.remove(&id, &open::places()?.data.join("trash"))?;
    render::err(format!("moved to `{}`", target.display()));
    Ok(0)
}
