//! Logs cut short: a reader shows every whole line, a writer keeps what it cuts.

use terret::inspect;
use terret::store::Condition;

use crate::support::{Home, assert_damaged, assert_torn, lines, of_another_boot, read, whole_log};

#[tokio::test]
async fn cut_at_every_line_and_at_every_byte_of_the_last_three() {
    let log = whole_log().await;
    let all = lines(&log);
    let ends: Vec<usize> = all
        .iter()
        .scan(0, |end, line| {
            Some({
                *end += line.len();
                *end
            })
        })
        .collect();
    let last_three = ends[ends.len() - 4];
    for cut in ends.iter().copied().chain(last_three..log.len()) {
        let home = Home::with(&log[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let start = ends[whole];
        // A line that lacks only its newline is whole.
        let unterminated = ends.contains(&(cut + 1));
        let (events, bad) = read(home.bytes(), &home.log());
        assert_eq!(events.len(), whole + usize::from(unterminated), "cut at {cut}");
        if cut > start && !unterminated {
            assert!(bad.is_some_and(|(_, torn)| torn), "cut at {cut}");
            assert_torn(&home, &log[start..cut], &format!("cut at {cut}"));
            continue;
        }
        assert!(bad.is_none(), "cut at {cut}");
        assert!(!matches!(home.condition(), Condition::Torn { .. } | Condition::Damaged(_)), "cut at {cut}");
        assert_eq!(home.bytes(), &log[..cut], "cut at {cut}: reading changes nothing");
        home.go_on().unwrap();
        assert!(home.torn().is_empty(), "cut at {cut}");
        let kept = &log[..cut + usize::from(unterminated)];
        assert!(home.bytes().starts_with(kept), "cut at {cut}");
        assert!(inspect::verify(&home.log()).unwrap().bad.is_none(), "cut at {cut}");
    }
}

/// The log without its line `at` from the end.
fn without(log: &[u8], at: usize) -> Vec<u8> {
    let mut all = lines(log);
    all.remove(all.len() - at);
    all.concat()
}

#[tokio::test]
async fn a_missing_or_repeated_line_is_damage_whatever_the_machine_did() {
    let log = whole_log().await;
    let events = lines(&log).len() as u64 - 1;
    let other = of_another_boot(&log);
    for (what, log) in [("this boot", &log), ("another boot", &other), ("a failed sync", &log)] {
        let repeated = [log.as_slice(), lines(log).last().unwrap()].concat();
        for (how, bytes, seq) in [("missing", without(log, 2), events - 2), ("repeated", repeated, events)] {
            let home = Home::with(&bytes);
            if what == "a failed sync" {
                home.mark();
            }
            assert_damaged(&home, seq, &format!("{what}, {how}"));
        }
    }
}

#[tokio::test]
async fn unreadable_lines_with_a_right_checksum_are_never_cut() {
    let log = of_another_boot(&whole_log().await);
    let seq = lines(&log).len() as u64 - 1;
    for kind in ["some/thing", "turn/end"] {
        let mut line = format!(r#"{{"seq":{seq},"time":1,"type":"{kind}","data":{{"no":1}}"#);
        line.push_str(&format!(",\"crc\":\"{:08x}\"}}\n", crc32c(line.as_bytes())));
        assert_damaged(&Home::with(&[&log, line.as_bytes()].concat()), seq, kind);
    }
}

/// Castagnoli, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[tokio::test]
async fn after_a_reboot_or_a_failed_sync_the_run_above_what_is_synced_is_torn() {
    let log = whole_log().await;
    let other = of_another_boot(&log);
    for (what, log, marked) in [("another boot", &other, false), ("a failed sync", &log, true)] {
        let whole = log.len() - lines(log).last().unwrap().len();
        let mut last_newline = log.clone();
        *last_newline.last_mut().unwrap() = 0;
        let zeroed = [&log[..whole], &[0; 100], b"\nand more\n"].concat();
        for (how, bytes) in [("another byte for the newline", last_newline), ("zeroes", zeroed)] {
            let home = Home::with(&bytes);
            if marked {
                home.mark();
            }
            assert_torn(&home, &bytes[whole..], &format!("{what}, {how}"));
            assert!(!home.session().join("poisoned").exists(), "the writer removes the marker");
        }
    }
}

#[tokio::test]
async fn on_the_same_boot_only_an_unfinished_last_line_is_torn() {
    let log = whole_log().await;
    let seq = lines(&log).len() as u64 - 1;
    let mut other = log.clone();
    *other.last_mut().unwrap() = b'\r';
    assert_damaged(&Home::with(&other), seq - 1, "another byte for the newline");
    assert_damaged(&Home::with(&[&log, b"gar\nbage".as_slice()].concat()), seq, "two lines");
    assert_damaged(&Home::with(&[&log, b"garbage\n".as_slice()].concat()), seq, "a finished line");
    assert_torn(&Home::with(&[&log, b"garbage".as_slice()].concat()), b"garbage", "an unfinished line");
}

#[tokio::test]
async fn a_power_cut_before_the_first_sync_leaves_a_log_that_opens() {
    let log = whole_log().await;
    // The first append reached the disk in part: the page of its first line did not.
    let first = lines(&log)[..3].concat();
    let header = lines(&log)[0].len();
    let mut stale = first.clone();
    stale[header..header + 20].fill(0);
    assert_torn(&Home::with(&stale), &stale[header..], "a stale first line");
}
