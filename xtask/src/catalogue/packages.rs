//! The two packages, through npm and pip as they are set up on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use super::Result;
use super::derive::PROVIDERS;

/// What the packages say of models.
pub(super) struct Sources {
    /// By our name of the provider: the package's models by API and key.
    pub(super) primary: Vec<(&'static str, Value)>,
    /// By the second package's key.
    pub(super) overlay: Map<String, Value>,
}

/// Gets both packages at these versions, into a directory that is emptied first.
pub(super) fn fetch(pi_ai: &str, litellm: &str) -> Result<Sources> {
    let dir = crate::target_dir().join("catalogue");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    run(&dir, "npm", &["pack", "--silent", &format!("@earendil-works/pi-ai@{pi_ai}")])?;
    let archive = only(&dir, ".tgz")?;
    run(&dir, "tar", &["-xzf", &archive])?;
    let pip =
        ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", &format!("litellm=={litellm}")];
    run(&dir, "python3", &pip)?;
    let wheel = only(&dir, ".whl")?;
    run(&dir, "python3", &["-m", "zipfile", "-e", &wheel, "wheel"])?;

    let data = dir.join("package/dist/providers/data");
    let mut primary = Vec::new();
    for provider in &PROVIDERS {
        primary.push((provider.name, read(&data.join(format!("{}.json", provider.primary)))?));
    }
    let overlay = read(&dir.join("wheel/litellm/model_prices_and_context_window_backup.json"))?;
    let Value::Object(overlay) = overlay else { return Err("litellm's list is no object".into()) };
    Ok(Sources { primary, overlay })
}

fn run(dir: &Path, program: &str, words: &[&str]) -> Result<()> {
    let status = Command::new(program).args(words).current_dir(dir).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{program} {}`: {status}", words.join(" ")).into()),
        Err(e) => Err(format!("`{program}` cannot be run: {e}").into()),
    }
}

/// The name of the one file that ends so.
fn only(dir: &Path, ending: &str) -> Result<String> {
    let names = fs::read_dir(dir)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let found: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        _ => Err(format!("{} files end with `{ending}`", found.len()).into()),
    }
}

fn read(path: &PathBuf) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?)
}
