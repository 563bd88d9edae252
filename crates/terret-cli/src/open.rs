//! What every verb begins with: places, configuration, the store, the log an address means.

use std::path::{Path, PathBuf};

use terret::config::{Config, Places};
use terret::store::{Address, FileStore, Scan};

use crate::problem::Problem;
use crate::render;

/// Looks up an environment variable.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn places() -> Result<Places, Problem> {
    // Nothing else that could be typed helps before there is a place.
    Places::find(&env).map_err(|e| Problem::from(e).hint("export TERRET_HOME=DIR"))
}

pub(crate) fn store() -> Result<FileStore, Problem> {
    Ok(FileStore::new(places()?.sessions()))
}

pub(crate) fn config(cwd: &Path, sets: &[String]) -> Result<Config, Problem> {
    Ok(Config::load(&places()?, cwd, &env, sets)?)
}

/// The log an address means, and the address. A path needs no configuration and no store.
pub(crate) fn find(address: &str) -> Result<(PathBuf, Address), Problem> {
    let address: Address = address.parse()?;
    let store = match address.as_path() {
        Some(_) => FileStore::new(""),
        None => store()?,
    };
    let found = store.find(&address, None);
    if address.session == "latest" {
        for note in passed_over(&store, found.as_deref().ok()) {
            render::err(note);
        }
    }
    Ok((found?, address))
}

/// Sessions written to later than the one found that nobody can read: `latest` passed them over, and whoever
/// means the newest should know.
pub(crate) fn passed_over(store: &FileStore, found: Option<&Path>) -> Vec<String> {
    let changed = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let since = found.and_then(changed);
    let entries = std::fs::read_dir(store.sessions()).into_iter().flatten().flatten();
    let logs = entries.map(|entry| entry.path().join("log.jsonl"));
    let newer = logs.filter(|log| changed(log).is_some_and(|at| since.is_none_or(|since| at > since)));
    newer
        .filter_map(|log| Scan::open(&log).err())
        .map(|e| format!("warning: a newer session was passed over: {e}"))
        .collect()
}

/// The working directory, absolute.
pub(crate) fn cwd(chosen: Option<&Path>) -> Result<PathBuf, Problem> {
    let dir = chosen.unwrap_or(Path::new("."));
    let absolute = dir.canonicalize().map_err(|e| {
        Problem::usage(format!("the working directory `{}` cannot be used: {e}", dir.display()))
    })?;
    match absolute.is_dir() {
        true => Ok(absolute),
        false => Err(Problem::usage(format!("`{}` is not a directory", dir.display()))),
    }
}
