//! Configuration: layers of keys, each value with the place it came from. An unknown key is an error with
//! the nearest name.

mod keys;
mod layer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use keys::{KEYS, Key};

use crate::error::Error;
use crate::model::failure::without_userinfo;

/// Where terret keeps things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Directory of `config.toml`.
    pub config: PathBuf,
    /// Directory of sessions, trash and index.
    pub data: PathBuf,
}

impl Places {
    /// From `TERRET_HOME` if set (everything lives under it), else the platform's folders. `env` looks up
    /// environment variables.
    pub fn find(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let set = |name: &str| env(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(home) = set("TERRET_HOME") {
            return Ok(Places { config: home.clone(), data: home });
        }
        let home = set("HOME").ok_or_else(|| {
            Error::Config("neither `TERRET_HOME` nor `HOME` is set: set one to say where sessions go".into())
        })?;
        let (config, data) = match cfg!(target_os = "macos") {
            true => {
                let support = home.join("Library/Application Support/terret");
                (support.clone(), support)
            }
            false => (
                set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("terret"),
                set("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share")).join("terret"),
            ),
        };
        Ok(Places { config, data })
    }

    /// Directory of the sessions.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// The value.
    pub value: toml::Value,
    /// `file:line`, `--set`, or the name of an environment variable.
    pub origin: String,
}

impl Set {
    /// The value as it may be shown under its name: no header, no password of a URL.
    pub fn shown(&self, name: &str) -> String {
        match keys::fits("providers.*.headers.*", name) {
            true => "(set)".into(),
            false => without_userinfo(&self.value.to_string()),
        }
    }
}

/// The effective configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    values: BTreeMap<String, Set>,
    /// What a person should know: files that were not read, and why.
    pub notes: Vec<String>,
}

impl Config {
    /// Reads every layer. `env` looks up environment variables; `sets` are `key=value` words of the command
    /// line, the strongest.
    pub fn load(
        places: &Places,
        cwd: &Path,
        env: &dyn Fn(&str) -> Option<String>,
        sets: &[String],
    ) -> Result<Self, Error> {
        let (config, errors) = Config::gather(places, cwd, env, sets);
        errors.into_iter().next().map_or(Ok(config), Err)
    }

    /// The same, going on past what is wrong: a bad file, variable or word is left out and told of.
    pub fn gather(
        places: &Places,
        cwd: &Path,
        env: &dyn Fn(&str) -> Option<String>,
        sets: &[String],
    ) -> (Self, Vec<Error>) {
        let mut config = Config::default();
        let mut errors = Vec::new();
        errors.extend(config.read_file(&places.config.join("config.toml")).err());
        errors.extend(config.read_project(cwd));
        for key in KEYS.iter().filter(|key| !key.name.contains('*')) {
            let name = format!("TERRET_{}", key.name.replace('.', "_").to_uppercase());
            if let Some(text) = env(&name).filter(|v| !v.is_empty()) {
                errors.extend(config.set(key, key.name, &text, &name).err());
            }
        }
        errors.extend(sets.iter().filter_map(|word| config.set_word(word).err()));
        (config, errors)
    }

    fn set(&mut self, key: &Key, name: &str, text: &str, origin: &str) -> Result<(), Error> {
        let value = layer::value(key, text, origin)?;
        self.values.insert(name.to_owned(), Set { value, origin: origin.to_owned() });
        Ok(())
    }

    fn set_word(&mut self, word: &str) -> Result<(), Error> {
        let (name, text) = word
            .split_once('=')
            .ok_or_else(|| Error::Config(format!("`--set {word}` is not `key=value`")))?;
        let name = &with_quotes(name.trim());
        let key = keys::known(name).ok_or_else(|| layer::unknown(name, "--set"))?;
        self.set(key, name, text.trim(), "--set")
    }

    /// Every value that is set, by key.
    pub fn values(&self) -> &BTreeMap<String, Set> {
        &self.values
    }

    /// A text value.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.value.as_str()
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.value.as_integer().and_then(|n| u64::try_from(n).ok())
    }

    /// The sub-table of a provider, if anything of it is set.
    pub fn provider(&self, name: &str) -> Option<toml::Table> {
        self.table("providers", name)
    }

    /// Names of the configured providers.
    pub fn providers(&self) -> Vec<String> {
        self.names("providers")
    }

    /// The sub-table of a model, if anything of it is set.
    pub fn model(&self, name: &str) -> Option<toml::Table> {
        self.table("models", name)
    }

    /// Names of the configured models, `PROVIDER/MODEL`.
    pub fn models(&self) -> Vec<String> {
        self.names("models")
    }

    fn table(&self, group: &str, name: &str) -> Option<toml::Table> {
        let prefix = format!("{group}.{}.", keys::quoted(name));
        let mut table = toml::Table::new();
        for (key, set) in self.values.range(prefix.clone()..) {
            let Some(rest) = key.strip_prefix(&prefix) else { break };
            match rest.split_once('.') {
                None => {
                    table.insert(rest.to_owned(), set.value.clone());
                }
                Some((sub, name)) => {
                    let inner = table.entry(sub).or_insert_with(|| toml::Table::new().into());
                    if let Some(inner) = inner.as_table_mut() {
                        inner.insert(keys::bare(name).to_owned(), set.value.clone());
                    }
                }
            }
        }
        (!table.is_empty()).then_some(table)
    }

    fn names(&self, group: &str) -> Vec<String> {
        let in_group = |key: &String| {
            let mut parts = keys::parts(key);
            (parts.next()? == group).then(|| parts.next())?.map(|name| keys::bare(name).to_owned())
        };
        let mut names: Vec<String> = self.values.keys().filter_map(in_group).collect();
        names.dedup();
        names
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Error> {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                self.values.extend(layer::parse(path, &text)?);
                Ok(())
            }
            Err(e)
                if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
            {
                Ok(())
            }
            Err(e) => Err(Error::io("read", path)(e)),
        }
    }

    /// A project's own files count only where the person said so: they could name a program to run.
    fn read_project(&mut self, cwd: &Path) -> Vec<Error> {
        let files = [cwd.join(".terret/config.toml"), cwd.join(".terret/config.local.toml")];
        if files.iter().all(|file| !file.exists()) {
            return Vec::new();
        }
        let trusted = self.values.get("trusted").and_then(|set| set.value.as_array());
        let here = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let is_trusted = trusted.into_iter().flatten().filter_map(|v| v.as_str()).any(|dir| {
            let dir = Path::new(dir);
            dir.canonicalize().unwrap_or_else(|_| dir.to_owned()) == here
        });
        if !is_trusted {
            self.notes.push(format!(
                "`{}` was not read: this project is not trusted. To trust it, add \
                 `trusted = [\"{}\"]` to your own config.toml",
                cwd.join(".terret").display(),
                here.display()
            ));
            return Vec::new();
        }
        files.iter().filter_map(|file| self.read_file(file).err()).collect()
    }
}

/// `models.openai/gpt-4.1.input` with the quotes that TOML wants: on a command line a shell would take them away.
fn with_quotes(name: &str) -> String {
    let model = name.strip_prefix("models.").filter(|rest| !rest.contains('"'));
    match model.and_then(|rest| rest.rsplit_once('.')) {
        Some((model, key)) => format!("models.{}.{key}", keys::quoted(model)),
        None => name.to_owned(),
    }
}
