//! Who is installed in an agent, and what that makes of its seams.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Plugin, Seams, sorted};
use crate::error::Error;

/// The parts of an agent's seams: what the program put in place itself, and a part for each plugin.
///
/// What asks or tells takes the merge as it is when it starts: who is installed or uninstalled meanwhile neither
/// joins nor leaves it.
pub(crate) struct Registry(Mutex<Parts>);

struct Parts {
    program: Seams,
    plugins: Vec<Part>,
    /// The merge of all parts, in order.
    now: Arc<Seams>,
}

/// A plugin, and the listeners it put in place.
struct Part {
    plugin: Arc<dyn Plugin>,
    seams: Seams,
}

/// A plugin that is installed in a running agent, for as long as this is kept: dropping it uninstalls the plugin.
/// What it was asked before then, it may still answer.
#[must_use = "dropping it uninstalls the plugin"]
pub struct Installed {
    registry: Weak<Registry>,
    name: String,
}

impl Registry {
    /// Fails if a plugin refuses its settings, or if they cannot be put in an order.
    pub(crate) fn new(program: Seams, plugins: Vec<Arc<dyn Plugin>>) -> Result<Arc<Self>, Error> {
        let plugins = sorted(plugins)?.into_iter().map(Part::of).collect::<Result<_, _>>()?;
        let mut parts = Parts { program, plugins, now: Arc::default() };
        parts.now = parts.merged();
        Ok(Arc::new(Registry(Mutex::new(parts))))
    }

    /// The seams as they are now.
    pub(crate) fn now(&self) -> Arc<Seams> {
        self.parts().now.clone()
    }

    /// Names of the plugins.
    pub(crate) fn names(&self) -> Vec<String> {
        self.parts().plugins.iter().map(|part| part.plugin.name().to_owned()).collect()
    }

    /// Puts one more plugin in its place among those that are there.
    pub(crate) fn install(self: &Arc<Self>, plugin: Arc<dyn Plugin>) -> Result<Installed, Error> {
        let part = Part::of(plugin)?;
        let name = part.plugin.name().to_owned();
        let mut parts = self.parts();
        let there = parts.plugins.iter().map(|part| part.plugin.clone());
        let order = sorted(there.chain([part.plugin.clone()]).collect())?;
        parts.plugins.push(part);
        parts.plugins.sort_by_key(|part| order.iter().position(|p| p.name() == part.plugin.name()));
        parts.now = parts.merged();
        Ok(Installed { registry: Arc::downgrade(self), name })
    }

    fn uninstall(&self, name: &str) {
        let mut parts = self.parts();
        let (gone, stay) = std::mem::take(&mut parts.plugins)
            .into_iter()
            .partition::<Vec<_>, _>(|p| p.plugin.name() == name);
        parts.plugins = stay;
        let merged = parts.merged();
        let before = std::mem::replace(&mut parts.now, merged);
        drop(parts);
        // A listener's own end may come back here: it comes when nothing is locked.
        drop((gone, before));
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    fn merged(&self) -> Arc<Seams> {
        let mut seams = Seams::default();
        seams.append(&self.program, &"program".into());
        for part in &self.plugins {
            seams.append(&part.seams, &part.plugin.name().into());
        }
        Arc::new(seams)
    }
}

impl Part {
    fn of(plugin: Arc<dyn Plugin>) -> Result<Self, Error> {
        let refused = |why| Error::Config(format!("plugin `{}`: {why}", plugin.name()));
        plugin.check().map_err(refused)?;
        let mut seams = Seams::default();
        plugin.install(&mut seams);
        Ok(Part { plugin, seams })
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // An agent that is gone has nothing installed.
        if let Some(registry) = self.registry.upgrade() {
            registry.uninstall(&self.name);
        }
    }
}
