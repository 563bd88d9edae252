//! The simulated file system: what it keeps, what it loses, and that it does so by seed alone.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use terret::store::fs::{Access, File, FileSystem};
use terret_sim::fs::{Calm, Done, Fate, Kind, Loss, Op, SimFs, Verdict};

/// This happens to the first operation of that kind.
struct Once(Kind, Verdict, AtomicU32);

impl Fate for Once {
    fn verdict(&self, op: &Op<'_>) -> Verdict {
        if op.kind == self.0 && self.2.fetch_add(1, Ordering::Relaxed) == 0 { self.1 } else { Verdict::Go }
    }
}

fn once(kind: Kind, verdict: Verdict) -> SimFs {
    SimFs::new(0, Arc::new(Once(kind, verdict, AtomicU32::new(0))))
}

fn calm(seed: u64) -> SimFs {
    SimFs::new(seed, Arc::new(Calm))
}

fn bytes(fs: &SimFs, path: &str) -> Option<Vec<u8>> {
    fs.look(Path::new(path), |bytes| bytes.map(<[u8]>::to_vec))
}

fn made(fs: &SimFs, path: &str, holds: &[u8]) -> Arc<dyn File> {
    let file = fs.open(Path::new(path), Access::Create).unwrap();
    file.append(holds).unwrap();
    file
}

/// After a power cut somebody else looks.
fn cut(fs: SimFs, loss: Loss) -> SimFs {
    fs.cut_power(loss);
    fs.process_begins(Arc::new(Calm))
}

const LOSSES: [Loss; 4] = [Loss::Dropped, Loss::Zeroed, Loss::Stale, Loss::Mixed];

#[test]
fn what_was_synced_with_its_name_is_there_after_any_power_cut() {
    for seed in 0..200 {
        for loss in LOSSES {
            let fs = calm(seed);
            let file = made(&fs, "/a", &[b'a'; 700]);
            file.sync().unwrap();
            fs.sync_dir(Path::new("/")).unwrap();
            assert_eq!(fs.safe_bytes(Path::new("/a")), 700);
            file.append(&[b'b'; 3000]).unwrap();
            assert_eq!(fs.safe_bytes(Path::new("/a")), 700);
            let left = bytes(&cut(fs, loss), "/a").unwrap();
            assert!(left.len() >= 700 && left[..700].iter().all(|b| *b == b'a'), "{seed} {loss:?}");
            assert!(left[700..].iter().all(|b| [b'b', 0].contains(b)), "{seed} {loss:?}");
        }
    }
}

#[test]
fn a_name_that_was_not_synced_may_be_lost_and_a_rename_is_whole_or_not_at_all() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let fs = calm(seed);
        made(&fs, "/new", b"new").sync().unwrap();
        made(&fs, "/old", b"old").sync().unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        fs.rename(Path::new("/new"), Path::new("/old")).unwrap();
        let fs = cut(fs, Loss::Dropped);
        let now = (bytes(&fs, "/new"), bytes(&fs, "/old").unwrap());
        let before = (Some(b"new".to_vec()), b"old".to_vec());
        let after = (None, b"new".to_vec());
        assert!(now == before || now == after, "{seed}: {now:?}");
        seen.insert(now);
    }
    assert_eq!(seen.len(), 2, "both ways happen");
}

#[test]
fn a_rename_to_another_directory_is_on_the_disk_as_a_whole_once_either_is_synced() {
    for (seed, synced) in (0..100).flat_map(|seed| [(seed, "/a"), (seed, "/b")]) {
        let fs = calm(seed);
        for dir in ["/a", "/b"] {
            fs.create_dir(Path::new(dir)).unwrap();
        }
        fs.sync_dir(Path::new("/")).unwrap();
        made(&fs, "/a/x", b"x").sync().unwrap();
        fs.rename(Path::new("/a/x"), Path::new("/b/x")).unwrap();
        fs.sync_dir(Path::new(synced)).unwrap();
        let fs = cut(fs, Loss::Mixed);
        assert_eq!((bytes(&fs, "/a/x"), bytes(&fs, "/b/x")), (None, Some(b"x".to_vec())), "{seed} {synced}");
    }
}

#[test]
fn death_keeps_what_was_written_and_changes_nothing_afterwards() {
    let fs = once(Kind::Append, Verdict::Die(Done::Part(3)));
    let file = fs.open(Path::new("/a"), Access::Create).unwrap();
    assert!(file.try_lock().unwrap());
    assert!(file.append(b"abcdef").is_err());
    assert!(file.append(b"more").is_err() && file.sync().is_err() && fs.meta(Path::new("/a")).is_err());
    assert_eq!(bytes(&fs, "/a").unwrap(), b"abc");
    let other = fs.process_begins(Arc::new(Calm));
    let again = other.open(Path::new("/a"), Access::Append).unwrap();
    assert!(again.try_lock().unwrap(), "its lock died with it");
    drop(file);
    assert!(other.is_locked(Path::new("/a")), "and is not let go of for another");
    drop(again);
    assert!(!other.is_locked(Path::new("/a")));
}

#[test]
fn what_a_failed_sync_gave_up_is_not_written_by_a_later_one_until_it_is_written_anew() {
    let mut lost = 0;
    for (seed, anew) in (0..100).flat_map(|seed| [(seed, false), (seed, true)]) {
        let fate = Once(Kind::Sync, Verdict::Fail(0), AtomicU32::new(0));
        let fs = SimFs::new(seed, Arc::new(fate));
        let file = made(&fs, "/a", &[b'a'; 600]);
        fs.sync_dir(Path::new("/")).unwrap();
        assert!(file.sync().is_err());
        assert_eq!(bytes(&fs, "/a").unwrap(), vec![b'a'; 600], "the cache has it");
        if anew {
            fs.rewrite(Path::new("/a"), 0).unwrap();
        }
        file.sync().unwrap();
        let left = bytes(&cut(fs, Loss::Dropped), "/a").unwrap();
        assert_eq!(left.len(), 600);
        let whole = left.iter().all(|byte| *byte == b'a');
        assert!(whole || !anew, "{seed}");
        lost += u32::from(!whole);
    }
    assert!(lost > 50, "{lost} of 100");
}

#[test]
fn a_sync_covers_what_was_there_when_it_was_asked_for() {
    let fs = calm(0);
    let file = made(&fs, "/a", b"before");
    let sync = fs.sync(file.clone(), vec!["/".into()]);
    file.append(b" and after").unwrap();
    futures_util::FutureExt::now_or_never(sync).unwrap().unwrap();
    assert_eq!(fs.safe_bytes(Path::new("/a")), 6);
}

#[test]
fn a_full_disk_takes_what_fits_and_has_room_again_for_what_is_removed() {
    let fs = calm(0);
    fs.set_room(Some(10));
    let file = made(&fs, "/a", b"12345678");
    assert_eq!(file.append(b"12345").unwrap(), 2);
    assert_eq!(file.append(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.set_len(9).unwrap();
    assert_eq!(file.append(b"xy").unwrap(), 1);
    fs.remove(Path::new("/a")).unwrap();
    assert_eq!(made(&fs, "/b", b"1234567").append(b"89012").unwrap(), 3);
}

#[test]
fn a_seed_leaves_the_same_every_time() {
    let left = |seed| {
        let fs = calm(seed);
        let file = made(&fs, "/a", &[b'a'; 5000]);
        fs.sync_dir(Path::new("/")).unwrap();
        file.set_len(2000).unwrap();
        file.append(&[b'b'; 4000]).unwrap();
        bytes(&cut(fs, Loss::Mixed), "/a")
    };
    assert_eq!(left(3), left(3));
    assert!((0..9).any(|seed| left(seed) != left(3)));
}
