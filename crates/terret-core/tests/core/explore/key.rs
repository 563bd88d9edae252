//! Search keys: 128 bits of a hash that does not see the names of messages.

use std::hash::{Hash, Hasher};

/// Collects what is hashed; message ids by the order in which they first appear, because the loop compares
/// them for equality and nothing else.
pub(super) struct Canon {
    bytes: Vec<u8>,
    names: Vec<u8>,
}

impl Default for Canon {
    fn default() -> Self {
        Canon { bytes: Vec::with_capacity(1024), names: Vec::new() }
    }
}

impl Canon {
    pub(super) fn with(mut self, part: &impl Hash) -> Self {
        part.hash(&mut self);
        self
    }

    pub(super) fn key(self) -> u128 {
        let hash = blake3::hash(&self.bytes);
        let (half, _) = hash.as_bytes().split_at(16);
        u128::from_le_bytes(half.try_into().expect("16 bytes"))
    }
}

impl Hasher for Canon {
    fn finish(&self) -> u64 {
        unreachable!("the key is longer")
    }

    fn write(&mut self, bytes: &[u8]) {
        // No number has five bytes, and a state holds no other text.
        let [b'm', b's', b'g', b'-', name] = bytes else {
            return self.bytes.extend_from_slice(bytes);
        };
        let place = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(*name);
            self.names.len() - 1
        });
        self.bytes.push(place as u8);
    }
}
