//! Single bits: found wherever they flip, and never an excuse to cut what was acknowledged.

use crate::support::{Home, assert_damaged, lines, of_another_boot, read, whole_log};

/// Calls `check` with every log that differs by one bit in the last five lines, and where it does.
fn each_flip(log: &[u8], mut check: impl FnMut(Vec<u8>, usize, u8)) {
    let all = lines(log);
    let from: usize = all[..all.len() - 5].iter().map(|line| line.len()).sum();
    for at in from..log.len() {
        for bit in 0..8 {
            let mut flipped = log.to_vec();
            flipped[at] ^= 1 << bit;
            check(flipped, at, bit);
        }
    }
}

#[tokio::test]
async fn on_the_same_boot_every_bit_is_found_and_nothing_is_cut() {
    let log = whole_log().await;
    let home = Home::with(&log);
    each_flip(&log, |flipped, at, bit| {
        let (_, bad) = read(flipped.clone(), &home.log());
        let (bad, torn) = bad.unwrap_or_else(|| panic!("byte {at}, bit {bit}: not found"));
        assert!(!torn, "byte {at}, bit {bit}: taken for torn");
        // The writer and the list ask the same question: some of them are enough.
        if (at + usize::from(bit)) % 16 == 0 {
            std::fs::write(home.log(), flipped).unwrap();
            assert_damaged(&home, bad.seq, &format!("byte {at}, bit {bit}"));
        }
    });
}

#[tokio::test]
async fn after_a_reboot_or_a_failed_sync_only_what_no_sync_covered_may_be_cut() {
    let log = whole_log().await;
    let last = lines(&log).len() as u64 - 2;
    let (other, marked) = (Home::with(&of_another_boot(&log)), Home::with(&log));
    marked.mark();
    for home in [other, marked] {
        let mut torn_ones = 0;
        each_flip(&home.bytes(), |flipped, at, bit| {
            let (_, bad) = read(flipped, &home.log());
            let (bad, torn) = bad.unwrap_or_else(|| panic!("byte {at}, bit {bit}: not found"));
            assert!(!torn || bad.seq == last, "byte {at}, bit {bit}: a synced line would be cut");
            torn_ones += usize::from(torn);
        });
        assert!(torn_ones > 0);
    }
}
