//! The bytes of one file twice: as the system shows them, and as they are on the disk.

use std::collections::BTreeSet;

use super::Loss;
use crate::dice::Dice;
use crate::limits::SECTOR_BYTES as SECTOR;

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// What whoever reads it gets.
    pub(super) cached: Vec<u8>,
    /// What is on the disk.
    durable: Vec<u8>,
    /// Sectors that are to be brought to the disk.
    dirty: BTreeSet<usize>,
    /// Least length since the last sync: what was behind it may be given up on the disk, too.
    shortest: usize,
    /// What a sync that failed should have covered: it counts as brought to the disk.
    given_up: bool,
}

/// What the power took of one file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Bytes are zeros that were written otherwise.
    pub zeroed: bool,
    /// Bytes are as they were before they were written over.
    pub stale: bool,
    /// A failed sync had given something up, and that is gone.
    pub given_up: bool,
}

impl Content {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let from = self.cached.len();
        self.cached.extend_from_slice(bytes);
        self.touch(from);
    }

    /// All sectors from the one of this byte on are to be brought to the disk.
    fn touch(&mut self, from: usize) {
        self.dirty.extend(from / SECTOR..self.cached.len().div_ceil(SECTOR));
    }

    pub(super) fn set_len(&mut self, length: usize) {
        let before = self.cached.len();
        self.cached.resize(length, 0);
        if length < before {
            self.dirty.split_off(&length.div_ceil(SECTOR));
            self.shortest = self.shortest.min(length);
            // What follows the end in its sector is cleared.
            self.touch(length);
        } else {
            self.touch(before);
        }
    }

    pub(super) fn rewrite(&mut self, from: usize) {
        self.touch(from);
    }

    /// What was there when the file had this length is on the disk from now on.
    pub(super) fn sync(&mut self, length: usize) {
        let length = length.min(self.cached.len());
        // What is on the disk already stays there.
        self.durable.resize(self.durable.len().clamp(length, self.cached.len()), 0);
        for sector in self.dirty.range(..length.div_ceil(SECTOR)) {
            let (from, to) = (sector * SECTOR, length.min((sector + 1) * SECTOR));
            self.durable[from..to].copy_from_slice(&self.cached[from..to]);
        }
        self.dirty = self.dirty.split_off(&(length / SECTOR));
        if self.cached.len() == length {
            self.dirty.clear();
        }
        self.shortest = length;
        self.given_up = self.given_up && self.durable != self.cached;
    }

    /// A sync fails: some of what it should have covered came to the disk, and all of it counts as if it had.
    pub(super) fn fail_sync(&mut self, dice: &mut Dice) {
        self.write_back(dice);
        self.given_up |= !self.dirty.is_empty();
        self.dirty.clear();
    }

    /// The system brings some sectors to the disk by itself.
    pub(super) fn write_back(&mut self, dice: &mut Dice) {
        let chosen: Vec<usize> = self.dirty.iter().copied().filter(|_| dice.half()).collect();
        for sector in chosen {
            let (from, to) = (sector * SECTOR, self.cached.len().min((sector + 1) * SECTOR));
            if self.durable.len() < to {
                self.durable.resize(to, 0);
            }
            self.durable[from..to].copy_from_slice(&self.cached[from..to]);
            self.dirty.remove(&sector);
        }
    }

    /// The power goes: what is on the disk is all there is.
    pub(super) fn cut_power(&mut self, loss: Loss, dice: &mut Dice) -> Taken {
        let least = self.shortest.min(self.durable.len());
        let most = self.cached.len().max(self.durable.len());
        let length = match loss {
            Loss::Dropped | Loss::Mixed => least + dice.part(most - least),
            Loss::Zeroed | Loss::Stale => most,
        };
        let mut left = self.durable.clone();
        left.resize(length, 0);
        for sector in self.dirty.iter().copied().filter(|sector| sector * SECTOR < length) {
            let (from, to) = (sector * SECTOR, length.min((sector + 1) * SECTOR));
            let there = self.cached.len().clamp(from, to);
            match loss.of_a_sector(dice) {
                Left::New => {
                    left[from..there].copy_from_slice(&self.cached[from..there]);
                    left[there..to].fill(0);
                }
                Left::Old => {}
                // A block that was never on the disk, or was given up: what is below is written in one piece.
                Left::Zeros => left[least.clamp(from, to)..to].fill(0),
            }
        }
        let taken = self.taken(&left);
        let shortest = left.len();
        *self = Content { cached: left.clone(), durable: left, shortest, ..Content::default() };
        taken
    }

    fn taken(&self, left: &[u8]) -> Taken {
        let mut taken = Taken::default();
        for (is, _) in left.iter().zip(&self.cached).filter(|(is, was)| is != was) {
            taken.zeroed |= *is == 0;
            taken.stale |= *is != 0;
        }
        taken.given_up = self.given_up && !left.starts_with(&self.cached);
        taken
    }

    /// So many bytes from the start are on the disk whatever happens.
    pub(super) fn safe(&self) -> usize {
        let length = self.durable.len().min(self.cached.len()).min(self.shortest);
        if self.durable[..length] == self.cached[..length] {
            return length;
        }
        self.durable.iter().zip(&self.cached).take_while(|(on_disk, shown)| on_disk == shown).count()
    }
}

/// What is left of a sector that was to be brought to the disk.
enum Left {
    New,
    Old,
    Zeros,
}

impl Loss {
    fn of_a_sector(self, dice: &mut Dice) -> Left {
        let other = match self {
            Loss::Dropped => Left::New,
            Loss::Zeroed => Left::Zeros,
            Loss::Stale => Left::Old,
            Loss::Mixed if dice.half() => Left::Zeros,
            Loss::Mixed => Left::Old,
        };
        if dice.half() { Left::New } else { other }
    }
}
