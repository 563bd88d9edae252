//! `terret queue`: what waits in a session, and taking it off or letting it go. It asks no model.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use terret::Agent;
use terret::core::fact::{Fact, Lane};
use terret::core::id::MsgId;
use terret::core::state::{Pending, State};
use terret::model::Providers;
use terret::store::Scan;

use super::log::end_of_good;
use crate::args;
use crate::open;
use crate::problem::{Problem, exit};
use crate::render;

pub(crate) fn queue(args: &args::Queue) -> Result<u8, Problem> {
    let (path, address) = open::find(&args.address)?;
    if args.release.is_none() && args.rm.is_none() {
        return list(args, &path);
    }
    if address.as_path().is_some() {
        return Err(
            Problem::usage("only the queue of a session in the store can be changed").hint("terret sessions")
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(exit::FAILED, format!("cannot start: {e}")))?;
    runtime.block_on(change(args, &path))
}

/// What waits, as the log says; nothing is locked or changed.
fn list(args: &args::Queue, path: &Path) -> Result<u8, Problem> {
    let mut scan = Scan::open(path)?;
    let (mut state, mut texts) = (State::default(), HashMap::new());
    let mut code = 0;
    while let Some(next) = scan.next_event()? {
        match next {
            Ok(event) => {
                state.apply(&event.fact);
                if let Fact::InboxAdded(added) = &event.fact {
                    texts.insert(added.message.id.clone(), added.message.text());
                }
            }
            Err(bad) => {
                code = end_of_good(path, &mut scan, bad)?;
                break;
            }
        }
    }
    let pending: Vec<&Pending> = state.inbox().iter().collect();
    if pending.is_empty() && !args.json {
        render::err("nothing waits");
    }
    for message in pending {
        let text = texts.get(&message.id).map_or("", String::as_str);
        let going = match args.json {
            true => render::out(format!("{}\n", as_json(message, text)))?,
            false => render::out_plain(&as_line(message, text))?,
        };
        if !going {
            break;
        }
    }
    Ok(code)
}

async fn change(args: &args::Queue, path: &Path) -> Result<u8, Problem> {
    let id = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    // It is not asked: an agent at rest starts no turn.
    let models = Arc::new(Providers::new(Box::new(|_| None)));
    let agent = Agent::builder(models).store(open::store()?).at_rest().resume(&id).await?;
    let outcome = apply(args, &agent).await;
    agent.shutdown().await?;
    outcome
}

async fn apply(args: &args::Queue, agent: &Agent) -> Result<u8, Problem> {
    let pending: Vec<MsgId> = agent.look().await?.pending.into_iter().map(|p| p.id).collect();
    for (name, release) in [(&args.release, true), (&args.rm, false)] {
        let Some(name) = name else { continue };
        let fits: Vec<MsgId> = pending.iter().filter(|id| id.0.starts_with(name.as_str())).cloned().collect();
        let [id] = &fits[..] else {
            let what = if fits.is_empty() { "no message that waits" } else { "more than one message" };
            let problem = Problem::usage(format!("`{name}` fits {what}"));
            return Err(pending.iter().fold(problem, |p, id| p.fact("waits", id.to_string())));
        };
        match release {
            true => agent.release(vec![id.clone()]).await?,
            false => agent.remove(vec![id.clone()]).await?,
        }
        render::err(format!("{} {id}", if release { "released" } else { "removed" }));
    }
    Ok(0)
}

fn as_line(message: &Pending, text: &str) -> String {
    let lane = match message.lane {
        Lane::NextTurn => "next turn",
        Lane::NextStep => "next step",
    };
    let held = if message.held { "held  " } else { "parked" };
    let wakes = if message.wake { "wakes" } else { "-    " };
    format!("{}  {lane}  {held}  {wakes}  {}\n", message.id, render::first_line(text, 60))
}

fn as_json(message: &Pending, text: &str) -> serde_json::Value {
    json!({
        "id": message.id,
        "lane": message.lane,
        "wake": message.wake,
        "held": message.held,
        "returned": message.returned,
        "text": text,
    })
}
