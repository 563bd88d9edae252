//! A body that grows at its end and is lent out whole without being copied.

use bytes::{Bytes, BytesMut};

/// What is written so far, and perhaps lent to whoever sends it.
pub(super) enum Grown {
    /// It may grow.
    Open(BytesMut),
    /// It is out with an end behind it; so many bytes of it are ours.
    Lent(Bytes, usize),
}

impl Grown {
    pub(super) fn new(front: &[u8]) -> Self {
        Grown::Open(front.into())
    }

    /// Adds to it; costs what it adds, unless the last loan is still out: then a copy is made.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if let Grown::Lent(whole, ours) = self {
            let whole = std::mem::take(whole);
            let mut back = whole.try_into_mut().unwrap_or_else(|held| held.as_ref().into());
            back.truncate(*ours);
            *self = Grown::Open(back);
        }
        if let Grown::Open(open) = self {
            open.extend_from_slice(bytes);
        }
    }

    /// The whole with `end` behind it.
    pub(super) fn lend(&mut self, end: &str) -> Bytes {
        let ours = self.written().len();
        self.push(end.as_bytes());
        let whole = match std::mem::replace(self, Grown::Open(BytesMut::new())) {
            Grown::Open(open) => open.freeze(),
            Grown::Lent(whole, _) => whole,
        };
        *self = Grown::Lent(whole.clone(), ours);
        whole
    }

    /// What is written so far, without an end.
    pub(super) fn written(&self) -> &[u8] {
        match self {
            Grown::Open(open) => open,
            Grown::Lent(whole, ours) => &whole[..*ours],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Grown;

    #[test]
    fn it_grows_in_place_and_never_under_somebodys_eyes() {
        let mut grown = Grown::new(b"[");
        grown.push(&[b'1'; 100]);
        let first = grown.lend("]");
        assert_eq!((first.len(), grown.written().len()), (102, 101));
        let kept = first.clone();
        drop(first);
        grown.push(b",2");
        let second = grown.lend("]");
        assert!(kept.ends_with(b"1]") && second.ends_with(b"1,2]"));
        assert_ne!(kept.as_ptr(), second.as_ptr(), "the loan was out: a copy");
        let place = second.as_ptr();
        drop(second);
        grown.push(b",3");
        assert_eq!(grown.lend("]").as_ptr(), place, "nobody held it: no copy");
        assert_eq!(grown.lend("]"), grown.lend("]"));
    }
}
