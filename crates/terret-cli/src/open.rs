//! What every verb begins with: places, configuration, the store, the log an address means.

use std::path::{Path, PathBuf};

use terret::config::{Config, KEYS, Places};
use terret::store::{Address, FileStore, Scan};

use crate::problem::Problem;
use crate::render;

/// Looks up an environment variable.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn places() -> Result<Places, Problem> {
    // Nothing else that could be typed helps before there is a place.
    let places = Places::find(&env).map_err(|e| Problem::from(e).hint("export TERRET_HOME=DIR"))?;
    match places.data.metadata() {
        Ok(meta) if !meta.is_dir() => {
            Err(Problem::usage(format!("`{}` is not a directory", places.data.display()))
                .fact("why", "sessions and configuration go below it")
                .hint("export TERRET_HOME=DIR"))
        }
        // What is not there yet is made when something goes into it.
        Ok(_) | Err(_) => Ok(places),
    }
}

/// Variables that look like ours and are not read: most likely a slip.
pub(crate) fn strange_variables() -> Vec<String> {
    let keys = KEYS.iter().filter(|key| !key.name.contains('*'));
    let mut known: Vec<String> =
        keys.map(|key| format!("TERRET_{}", key.name.replace('.', "_").to_uppercase())).collect();
    known.extend(["TERRET_HOME", "TERRET_CALL", "TERRET_RUN"].map(str::to_owned));
    #[cfg(feature = "crash-points")]
    known.push(crate::crash::VARIABLE.to_owned());
    let ours = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let strange = ours.filter(|name| name.starts_with("TERRET_") && !known.contains(name));
    let mut notes: Vec<String> = strange
        .map(|name| match nearest(&name, known.iter().map(String::as_str)) {
            Some(near) => format!("`{name}` is not read; did you mean `{near}`?"),
            None => format!("`{name}` is not read: there is no such variable"),
        })
        .collect();
    notes.sort();
    notes
}

/// The name nearest to what was typed, if one is near.
pub(crate) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::damerau_levenshtein(typed, name), name));
    scored.min().filter(|(distance, _)| *distance <= 3).map(|(_, name)| name)
}

/// The sessions. This process does nothing beside them: it waits for the disk where it stands.
pub(crate) fn store() -> Result<FileStore, Problem> {
    let sessions = places()?.sessions();
    #[cfg(feature = "crash-points")]
    return Ok(FileStore::on(std::sync::Arc::new(crate::crash::disk()), sessions));
    #[cfg(not(feature = "crash-points"))]
    Ok(FileStore::syncing_in_place(sessions))
}

pub(crate) fn config(cwd: &Path, sets: &[String]) -> Result<Config, Problem> {
    let mut config = Config::load(&places()?, cwd, &env, sets)?;
    config.notes.extend(strange_variables());
    Ok(config)
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
