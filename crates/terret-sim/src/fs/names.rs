//! Names in directories twice: as the system shows them, and as they are on the disk.

use std::collections::BTreeMap;

use crate::dice::Dice;

/// Number of a file or a directory.
pub(super) type Ino = u64;

/// A name in a directory.
pub(super) type Place = (Ino, String);

/// One directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Dir {
    pub(super) cached: BTreeMap<String, Ino>,
    pub(super) durable: BTreeMap<String, Ino>,
}

/// A change of names that is not on the disk yet. Each is there as a whole or not at all.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The name that is gone by it.
    pub(super) gone: Option<Place>,
    /// The name that stands for something by it.
    pub(super) stands: Option<(Place, Ino)>,
}

impl Change {
    /// The names it is about.
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.gone.iter().chain(self.stands.as_ref().map(|(place, _)| place))
    }
}

/// Changes in the order they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(Vec<Change>);

impl Changes {
    pub(super) fn add(&mut self, change: Change) {
        self.0.push(change);
    }

    /// Takes those that a sync of this directory brings to the disk: all that are about a name in it, and what was
    /// done before to the other name of such a change.
    pub(super) fn take(&mut self, dir: Ino) -> Vec<Change> {
        let mut names: Vec<Place> = Vec::new();
        let mut taken = Vec::new();
        for change in std::mem::take(&mut self.0).into_iter().rev() {
            if change.places().any(|place| place.0 == dir || names.contains(place)) {
                names.extend(change.places().cloned());
                taken.push(change);
            } else {
                self.0.push(change);
            }
        }
        self.0.reverse();
        taken.reverse();
        taken
    }

    /// The power goes: each of them came to the disk or did not, but none without those before it that are about the
    /// same name. Gives those that did, and how many did not.
    pub(super) fn cut_power(&mut self, lost_permille: u32, dice: &mut Dice) -> (Vec<Change>, usize) {
        let all = std::mem::take(&mut self.0);
        let before = all.len();
        let (mut names, mut came) = (Vec::new(), Vec::new());
        for change in all.into_iter().rev() {
            let needed = change.places().any(|place| names.contains(place));
            if !dice.permille(lost_permille) || needed {
                names.extend(change.places().cloned());
                came.push(change);
            }
        }
        came.reverse();
        let lost = before - came.len();
        (came, lost)
    }

    /// Any of them may come to the disk at any time.
    pub(super) fn write_back(&mut self, dice: &mut Dice) -> Vec<Change> {
        let Some((place, _)) = self.0.iter().find_map(|change| change.stands.as_ref()) else {
            return Vec::new();
        };
        let dir = place.0;
        if dice.half() { self.take(dir) } else { Vec::new() }
    }
}
