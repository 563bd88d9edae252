//! What every verb begins with: places, configuration, the store, the log an address means.

use std::path::{Path, PathBuf};

use terret::config::{Config, Places};
use terret::store::{Address, FileStore};

use crate::problem::Problem;

/// Looks up an environment variable.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn places() -> Result<Places, Problem> {
    Ok(Places::find(&env)?)
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
    Ok((store.find(&address, None)?, address))
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
