//! The order of plugins: declared by them, checked when an agent is built.

use std::sync::Arc;

use super::Plugin;
use crate::error::Error;

/// Where a plugin wants to stand. Of two plugins the one that comes first is the outer one at every seam.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Its phase; within one, plugins stand as they were added.
    pub phase: Phase,
    /// Plugins it must stand before, where they are there.
    pub before: &'static [&'static str],
    /// Plugins it must stand behind, where they are there.
    pub after: &'static [&'static str],
}

/// A phase of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Outermost: limits, and whatever must see everything.
    Early,
    /// Where most stand.
    #[default]
    Normal,
    /// Innermost: what must have the last word.
    Late,
}

/// The plugins in their order. Fails if two have one name, or if their wishes contradict each other.
pub(crate) fn sorted(mut plugins: Vec<Arc<dyn Plugin>>) -> Result<Vec<Arc<dyn Plugin>>, Error> {
    let names: Vec<String> = plugins.iter().map(|p| p.name().to_owned()).collect();
    if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        return Err(Error::Config(format!("two plugins are named `{}`", twice.1)));
    }
    plugins.sort_by_key(|plugin| plugin.order().phase);
    let mut out: Vec<Arc<dyn Plugin>> = Vec::new();
    while !plugins.is_empty() {
        // The first that nobody who is left must stand before.
        let free =
            plugins.iter().position(|plugin| !plugins.iter().any(|other| precedes(&**other, &**plugin)));
        let Some(free) = free else {
            let left: Vec<String> = plugins.iter().map(|p| format!("`{}`", p.name())).collect();
            return Err(Error::Config(format!("the plugins {} cannot be put in an order", left.join(", "))));
        };
        out.push(plugins.remove(free));
    }
    Ok(out)
}

/// Whether `first` must stand before `second`.
fn precedes(first: &dyn Plugin, second: &dyn Plugin) -> bool {
    let (a, b) = (first.order(), second.order());
    a.phase < b.phase || a.before.contains(&second.name()) || b.after.contains(&first.name())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::hook::Seams;

    struct Named(&'static str, Order);

    impl Plugin for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn order(&self) -> Order {
            self.1
        }
        fn install(&self, _: &mut Seams) {}
    }

    fn order(plugins: &[(&'static str, Order)]) -> Result<Vec<String>, Error> {
        let plugins = plugins.iter().map(|(name, order)| Arc::new(Named(name, *order)) as Arc<dyn Plugin>);
        Ok(sorted(plugins.collect())?.iter().map(|p| p.name().to_owned()).collect())
    }

    #[test]
    fn phases_first_then_wishes_then_the_order_of_adding() {
        let plain = Order::default();
        let late = Order { phase: Phase::Late, ..plain };
        let early = Order { phase: Phase::Early, ..plain };
        let before_b = Order { before: &["b"], ..plain };
        let after_d = Order { after: &["d", "absent"], ..plain };
        let all = [("z", late), ("b", plain), ("c", after_d), ("a", before_b), ("d", plain), ("e", early)];
        assert_eq!(order(&all).unwrap(), ["e", "a", "b", "d", "c", "z"]);
    }

    #[test]
    fn contradictions_and_doubles_are_refused() {
        let before = |names| Order { before: names, ..Order::default() };
        assert!(order(&[("a", before(&["b"])), ("b", before(&["a"]))]).is_err());
        let early_after = Order { phase: Phase::Early, after: &["a"], ..Order::default() };
        assert!(order(&[("a", Order::default()), ("b", early_after)]).is_err());
        assert!(order(&[("a", Order::default()), ("a", Order::default())]).is_err());
    }
}
