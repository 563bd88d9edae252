//! The listeners of one seam, in their order, each with the plugin it belongs to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The listeners of one seam, outermost first.
pub struct Chain<T: ?Sized>(Vec<Entry<T>>);

/// A seam where listeners only look.
pub type Emit<E> = Chain<dyn Fn(&E) + Send + Sync>;

/// A listener, and the plugin it belongs to.
pub(super) struct Entry<T: ?Sized> {
    pub(super) plugin: Arc<str>,
    pub(super) listener: Arc<T>,
    /// It broke down while it looked, and is not shown anything more.
    broken: Arc<AtomicBool>,
}

impl<T: ?Sized> Chain<T> {
    /// Adds a listener inside those already there.
    pub fn add(&mut self, listener: Arc<T>) {
        self.0.push(Entry { plugin: "".into(), listener, broken: Arc::default() });
    }

    /// Whether nobody listens.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The listeners, outermost first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.0.iter().map(|entry| &entry.listener)
    }

    pub(super) fn entries(&self) -> &[Entry<T>] {
        &self.0
    }

    /// Adds those of another part, under the name of the plugin they belong to.
    pub(super) fn append(&mut self, part: &Chain<T>, plugin: &Arc<str>) {
        self.0.extend(part.0.iter().map(|entry| Entry { plugin: plugin.clone(), ..entry.clone() }));
    }

    /// Plugins that listen, outermost first.
    pub(super) fn plugins(&self) -> Vec<String> {
        self.0.iter().map(|entry| entry.plugin.to_string()).collect()
    }
}

impl<E> Chain<dyn Fn(&E) + Send + Sync> {
    /// Shows something to everybody. One that breaks down sees nothing more; what it watches goes on.
    pub(crate) fn emit(&self, event: &E) {
        for entry in self.0.iter().filter(|entry| !entry.broken.load(Ordering::Relaxed)) {
            if catch_unwind(AssertUnwindSafe(|| (entry.listener)(event))).is_err() {
                entry.broken.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl<T: ?Sized> Clone for Entry<T> {
    fn clone(&self) -> Self {
        let (plugin, listener) = (self.plugin.clone(), self.listener.clone());
        Entry { plugin, listener, broken: self.broken.clone() }
    }
}

impl<T: ?Sized> Clone for Chain<T> {
    fn clone(&self) -> Self {
        Chain(self.0.clone())
    }
}

impl<T: ?Sized> Default for Chain<T> {
    fn default() -> Self {
        Chain(Vec::new())
    }
}
