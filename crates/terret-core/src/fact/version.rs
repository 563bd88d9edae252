//! Versions of payloads: what an older writer said, in the words of today. Only in memory; no line is rewritten.

use std::borrow::Cow;

/// Makes the payload of one version into that of the next; an error says why it is not one.
pub type Upcast = fn(&str) -> Result<String, String>;

/// The steps from one version of a type's payload to the next: type, version it starts from, how.
#[derive(Clone, Copy, Debug)]
pub struct Versions(&'static [(&'static str, u32, Upcast)]);

impl Default for Versions {
    /// Every payload is of version 1 so far. Whoever changes one adds the step from the old version here.
    fn default() -> Self {
        Versions(&[])
    }
}

impl Versions {
    /// A table of steps. Those of a type start from 1, 2, … without a gap.
    pub const fn new(steps: &'static [(&'static str, u32, Upcast)]) -> Self {
        Versions(steps)
    }

    /// The version in which this core type is written: one more than there are steps.
    pub fn current(self, kind: &str) -> u32 {
        1 + self.0.iter().filter(|(of, ..)| *of == kind).count() as u32
    }

    /// A payload of this version as one of the current version, step by step.
    pub(crate) fn upcast<'a>(self, kind: &str, v: u32, data: &'a str) -> Result<Cow<'a, str>, String> {
        (v..self.current(kind)).try_fold(Cow::Borrowed(data), |data, from| {
            let step = self.0.iter().find(|(of, start, _)| *of == kind && *start == from);
            let (.., upcast) = step.ok_or_else(|| format!("nothing leads on from version {from}"))?;
            upcast(&data).map(Cow::Owned).map_err(|why| format!("version {from}: {why}"))
        })
    }
}
