//! `terret doctor`: what is where, what is set and by whom, which keys are there, which logs are damaged.

mod logs;
mod provider;

use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, access};
use terret::Agent;
use terret::config::{Config, KEYS, Places};
use terret::error::Error;
use terret::model::failure::without_userinfo;
use terret::model::{BUILT_IN, Providers};
use terret::policy::{Budget, Retry};
use terret::store::{BY, Condition, FileStore};

use crate::args;
use crate::open;
use crate::problem::{Problem, exit};
use crate::render;

pub(crate) fn doctor(args: &args::Doctor) -> Result<u8, Problem> {
    if args.plugins {
        render::out_plain(&plugins()?)?;
        return Ok(0);
    }
    if args.fork_at_last_good {
        return logs::fork(&args.paths);
    }
    if args.salvage {
        return logs::salvage(&args.paths);
    }
    if args.sessions {
        return logs::report(&open::store()?.examine()?);
    }
    if !args.paths.is_empty() {
        return logs::report(&logs::at(&args.paths)?);
    }
    let places = open::places()?;
    let cwd = open::cwd(None)?;
    let (mut config, wrong) = Config::gather(&places, &cwd, &open::env, &args.sets);
    config.notes.extend(open::strange_variables());
    let misconfigured = if wrong.is_empty() { 0 } else { exit::USAGE };
    if let Some(route) = &args.provider {
        wrong.into_iter().next().map_or(Ok(()), Err)?;
        render::out_plain(&provider::report(route, &config)?)?;
        return Ok(0);
    }
    let mut text = String::new();
    if !args.config {
        text.push_str(&about(&places));
    }
    text.push_str(&configuration(&config, &wrong));
    if args.config {
        render::out_plain(&text)?;
        return Ok(misconfigured);
    }
    text.push_str(&keys(&config));
    let (overview, damaged) = overview(&places)?;
    text.push_str(&overview);
    render::out_plain(&text)?;
    Ok(if damaged { exit::LOG } else { misconfigured })
}

/// The plugins of a run, and where each listens.
fn plugins() -> Result<String, Problem> {
    let models = Arc::new(Providers::new(Box::new(|_| None)));
    let builder = super::run::standard(Agent::builder(models), Retry::default(), Budget::all());
    let order = builder.plugin_order()?.join(" → ");
    let chains = builder.chains()?.into_iter();
    let lines = chains.map(|(seam, plugins)| match plugins.is_empty() {
        true => format!("  {seam:<24} -\n"),
        false => format!("  {seam:<24} {}\n", plugins.join(" → ")),
    });
    Ok(format!("plugins, outermost first\n  {order}\n\nseams\n{}", lines.collect::<String>()))
}

fn about(places: &Places) -> String {
    let sessions = places.sessions();
    let locked = if is_writable(&sessions) { "" } else { "  (cannot be written)" };
    format!(
        "version   {BY}\nconfig    {}\nsessions  {}{locked}\n\n",
        places.config.join("config.toml").display(),
        sessions.display()
    )
}

/// Whether something can be put into a directory, or into the nearest one above that is there.
fn is_writable(dir: &Path) -> bool {
    let there = dir.ancestors().find(|dir| dir.exists());
    there.is_none_or(|dir| dir.is_dir() && access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok())
}

fn configuration(config: &Config, wrong: &[Error]) -> String {
    let mut text = "configuration\n".to_owned();
    for error in wrong {
        text.push_str(&format!("  wrong: {error}\n"));
    }
    for (name, set) in config.values() {
        text.push_str(&format!("  {name} = {}  ({})\n", set.shown(name), set.origin));
    }
    for key in KEYS.iter().filter(|key| !key.name.contains('*') && !config.values().contains_key(key.name)) {
        text.push_str(&format!("  {} = {}  (default)\n", key.name, key.default));
    }
    for note in &config.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}

/// Which keys are there. Never what they are.
fn keys(config: &Config) -> String {
    let mut text = "\nproviders\n".to_owned();
    let mut names: Vec<String> = BUILT_IN.iter().map(|p| p.name.to_owned()).collect();
    names.extend(config.providers().into_iter().filter(|name| !BUILT_IN.iter().any(|p| p.name == name)));
    for name in names {
        let built_in = BUILT_IN.iter().find(|p| p.name == name);
        let variable = config
            .text(&format!("providers.{name}.api_key_env"))
            .or(built_in.map(|p| p.api_key_env))
            .unwrap_or_default();
        let key = match variable {
            "" => "needs no key".to_owned(),
            variable if open::env(variable).is_some_and(|v| !v.trim().is_empty()) => {
                format!("{variable} is set")
            }
            variable if built_in.is_some_and(|p| !p.needs_key) => {
                format!("{variable} is not set (not needed)")
            }
            variable => format!("{variable} is not set"),
        };
        let url = config
            .text(&format!("providers.{name}.base_url"))
            .map(str::to_owned)
            .or_else(|| built_in.and_then(|p| open::env(p.base_url_env)))
            .or(built_in.map(|p| p.base_url.to_owned()))
            .unwrap_or_else(|| "no base_url".into());
        text.push_str(&format!("  {name:<12} {:<58} {key}\n", without_userinfo(&url)));
    }
    text
}

/// The sessions that are not simply at rest.
fn overview(places: &Places) -> Result<(String, bool), Problem> {
    let listed = FileStore::new(places.sessions()).examine()?;
    let mut text = format!("\nlogs\n  {} sessions\n", listed.len());
    let mut damaged = false;
    for session in &listed {
        match &session.condition {
            Condition::Damaged(why) => {
                damaged = true;
                let what = if why.is_newer() { "" } else { "damaged: " };
                text.push_str(&format!("  {}  {what}{why}\n", session.id));
            }
            Condition::Torn { bytes, .. } => {
                text.push_str(&format!(
                    "  {}  torn tail of {bytes} bytes; the next run sets it aside\n",
                    session.id
                ));
            }
            Condition::Running { pid } => {
                text.push_str(&format!("  {}  open in process {pid}\n", session.id))
            }
            Condition::Open => {
                text.push_str(&format!("  {}  left open; the next run closes it\n", session.id))
            }
            Condition::Empty => text.push_str(&format!("  {}  never begun\n", session.id)),
            Condition::Idle | Condition::Parked => {}
        }
    }
    Ok((text, damaged))
}
