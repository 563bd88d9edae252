//! Following a log from outside: every whole line once, whatever happens to the writer, the tail and the file.

use std::io::Write;
use std::time::Duration;

use terret::core::fact::{Fact, PluginEvent, Rel, WriterIdle};
use terret::core::limits::MAX_LINE_BYTES;
use terret::core::line::{Line, LineError, Tip};
use terret::core::raw::Raw;
use terret::error::Error;
use terret::limits::FOLLOW_BYTES;
use terret::store::{Follow, Journal, Scan};

use crate::support::{Home, lines, of_another_boot, whole_log, write_first};

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a follower looks here, unless the file system is to wake it.
const POLL: Duration = Duration::from_millis(1);
/// No look by itself within a test.
const NEVER: Duration = Duration::from_secs(100_000);

async fn follow(home: &Home, from: u64) -> Follow {
    Follow::open(&home.log(), from).await.unwrap().polling(POLL)
}

/// What comes next: a line with its newline, or the error.
async fn next(follow: &mut Follow) -> Result<Vec<u8>, Error> {
    let next = tokio::time::timeout(PATIENCE, follow.next()).await.expect("nothing comes");
    next.map(|_| [follow.bytes(), b"\n"].concat())
}

/// The next lines, together.
async fn take(follow: &mut Follow, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.extend(next(follow).await.unwrap());
    }
    bytes
}

/// Nothing comes, and nothing is said.
async fn nothing(follow: &mut Follow) {
    let next = tokio::time::timeout(20 * POLL, follow.next()).await;
    assert!(next.is_err(), "{next:?}");
}

fn append(home: &Home, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(home.log()).unwrap();
    file.write_all(bytes).unwrap();
}

fn why(error: Error) -> String {
    assert!(matches!(error, Error::Changed { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn from_every_seq_on_each_line_comes_once_and_the_end_is_waited_at() {
    let log = whole_log().await;
    let home = Home::with(&log);
    let all = lines(&log);
    for seq in 0..all.len() {
        let mut from = follow(&home, seq as u64).await;
        assert_eq!(take(&mut from, all.len() - 1 - seq).await, all[seq + 1..].concat(), "from {seq}");
        nothing(&mut from).await;
    }
}

#[tokio::test]
async fn a_line_comes_when_its_newline_is_there_and_not_before() {
    let log = whole_log().await;
    let all = lines(&log);
    let home = Home::with(all[0]);
    let mut follow = follow(&home, 0).await;
    for line in &all[1..] {
        let (half, rest) = line[..line.len() - 1].split_at(line.len() / 2);
        for part in [half, rest] {
            append(&home, part);
            nothing(&mut follow).await;
        }
        append(&home, b"\n");
        assert_eq!(next(&mut follow).await.unwrap(), *line);
    }
    assert_eq!(home.bytes(), log);
}

#[tokio::test]
async fn a_torn_tail_is_not_shown_and_what_takes_its_place_is() {
    let log = whole_log().await;
    let all = lines(&log);
    let rebooted = of_another_boot(&log);
    let missing = all[..all.len() - 1].concat();
    let cases: [(&str, Vec<u8>, Vec<u8>); 4] = [
        ("half a line", missing.clone(), all[all.len() - 1][..40].to_vec()),
        ("longer than the next writer's line", log.clone(), vec![b'x'; 3 * FOLLOW_BYTES]),
        ("many lines, after a reboot", rebooted.clone(), b"torn\nand torn\nand torn".to_vec()),
        ("whole lines behind it that no sync covers, after a reboot", lines(&rebooted)[..3].concat(), {
            let behind = unsynced(&lines(&rebooted));
            [b"torn".as_slice(), &behind[3..].concat()[4..]].concat()
        }),
    ];
    for (what, good, tail) in cases {
        let home = Home::with(&[good.clone(), tail].concat());
        let mut follow = follow(&home, 0).await;
        let shown = take(&mut follow, lines(&good).len() - 1).await;
        assert_eq!([lines(&good)[0], &shown].concat(), good, "{what}");
        nothing(&mut follow).await;
        home.go_on().unwrap();
        let opened = next(&mut follow).await.unwrap();
        assert_eq!([good, opened].concat(), home.bytes(), "{what}");
    }
}

/// The same lines, without a word on what was synced.
fn unsynced(all: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut tip = Tip::default();
    let again = all[1..].iter().map(|line| {
        let (mut out, event) = (Vec::new(), Line::parse(&line[..line.len() - 1]).unwrap().event().unwrap());
        tip.encode(&mut out, event.time, &event.fact, None).unwrap();
        out
    });
    std::iter::once(all[0].to_vec()).chain(again).collect()
}

#[tokio::test]
async fn a_last_line_that_lacks_its_newline_comes_when_the_next_writer_completes_it() {
    let log = whole_log().await;
    let home = Home::with(&log[..log.len() - 1]);
    let mut follow = follow(&home, 0).await;
    let count = lines(&log).len() - 2;
    take(&mut follow, count).await;
    nothing(&mut follow).await;
    home.go_on().unwrap();
    let completed = take(&mut follow, 2).await;
    assert!(home.bytes().starts_with(&log) && home.bytes().ends_with(&completed));
}

#[tokio::test]
async fn with_any_byte_changed_it_shows_what_every_reader_shows_and_says_the_same() {
    let log = whole_log().await;
    for at in (lines(&log)[0].len()..log.len()).step_by(13) {
        let mut bytes = log.clone();
        bytes[at] ^= 1;
        let home = Home::with(&bytes);
        let mut scan = Scan::open(&home.log()).unwrap();
        let mut follow = follow(&home, 0).await;
        let bad = loop {
            match scan.next_event().unwrap().expect("the change is found") {
                Ok(_) if scan.unterminated() => break None,
                Ok(_) => assert_eq!(next(&mut follow).await.unwrap(), [scan.bytes(), b"\n"].concat()),
                Err(bad) => break Some(bad),
            }
        };
        match bad {
            Some(bad) if !scan.is_torn_tail(&bad).unwrap() => match next(&mut follow).await {
                Err(Error::Damaged { line, offset, seq, cause, .. }) => {
                    assert_eq!((line, offset, seq), (bad.line, bad.offset, bad.seq), "byte {at}");
                    assert_eq!(cause, bad.cause, "byte {at}");
                }
                other => panic!("byte {at}: {other:?}"),
            },
            Some(_) | None => nothing(&mut follow).await,
        }
    }
}

#[tokio::test]
async fn a_line_is_damaged_when_one_far_behind_says_that_it_was_synced() {
    let log = of_another_boot(&whole_log().await);
    let (mut out, mut tip) = (log.clone(), Tip::default());
    for line in &lines(&log)[1..] {
        tip.check(&line[..line.len() - 1]).unwrap();
    }
    for synced in [None, None, Some(tip.next_seq())] {
        tip.encode(&mut out, 1, &long_event(3 * FOLLOW_BYTES), synced).unwrap();
    }
    let at = log.len();
    out[at] ^= 1;
    let home = Home::with(&out);
    let mut follow = follow(&home, 0).await;
    take(&mut follow, lines(&log).len() - 1).await;
    let refused = next(&mut follow).await;
    assert!(matches!(refused, Err(Error::Damaged { offset, .. }) if offset == at as u64), "{refused:?}");
}

fn long_event(length: usize) -> Fact {
    let data = Raw::parse(format!("{{\"x\":\"{}\"}}", "y".repeat(length))).unwrap();
    Fact::Plugin(PluginEvent { kind: "x/test/long".into(), rel: Rel::View, v: 1, data })
}

#[tokio::test]
async fn a_damaged_line_that_comes_to_be_whole_was_none() {
    let log = whole_log().await;
    let all = lines(&log);
    let home = Home::with(&all[..3].concat());
    let mut follow = follow(&home, 0).await.polling(100 * POLL);
    take(&mut follow, 2).await;
    // What a reader may see of a write that is under way: its end before its beginning.
    let mut half = all[3].to_vec();
    half[5..20].fill(0);
    append(&home, &half);
    nothing(&mut follow).await;
    let file = std::fs::OpenOptions::new().write(true).open(home.log()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, all[3], all[..3].concat().len() as u64).unwrap();
    assert_eq!(next(&mut follow).await.unwrap(), all[3]);
}

#[tokio::test]
async fn lines_taken_back_are_an_error_also_when_others_took_their_place() {
    let log = whole_log().await;
    let all = lines(&log);
    for behind in [vec![], vec![b'x'; log.len()], [b"{", all[all.len() - 1]].concat()] {
        let home = Home::with(&log);
        let mut follow = follow(&home, 0).await;
        take(&mut follow, all.len() - 1).await;
        let file = std::fs::OpenOptions::new().append(true).open(home.log()).unwrap();
        file.set_len((log.len() - all[all.len() - 1].len()) as u64).unwrap();
        append(&home, &behind);
        let why = why(next(&mut follow).await.unwrap_err());
        assert!(why.contains("stands there no more"), "{why}");
    }
}

#[tokio::test]
async fn a_file_that_is_gone_or_another_is_an_error() {
    let log = whole_log().await;
    type Away = fn(&Home);
    let ways: [(&str, Away); 4] = [
        ("removed", |home| std::fs::remove_file(home.log()).unwrap()),
        ("replaced", |home| {
            let other = home.path().join("other");
            std::fs::copy(home.log(), &other).unwrap();
            std::fs::rename(other, home.log()).unwrap();
        }),
        ("moved", |home| std::fs::rename(home.log(), home.path().join("moved")).unwrap()),
        ("moved away with its session", |home| {
            home.store.remove("s", &home.path().join("trash")).unwrap();
        }),
    ];
    for (way, away) in ways {
        let home = Home::with(&log);
        let mut follow = follow(&home, 0).await;
        take(&mut follow, lines(&log).len() - 1).await;
        // It waits when it happens; not each of them is told to it.
        let happens = async {
            tokio::time::sleep(20 * POLL).await;
            away(&home);
        };
        let why = why(tokio::join!(next(&mut follow), happens).0.unwrap_err());
        assert!(why.contains("removed, or another file took its place"), "{way}: {why}");
    }
}

#[tokio::test]
async fn a_session_that_is_not_there_is_an_error() {
    let home = Home::new();
    let refused = Follow::open(&home.log(), 0).await;
    assert!(matches!(refused, Err(Error::NoSession(_))));
}

#[tokio::test]
async fn the_file_system_wakes_it_at_once() {
    let log = whole_log().await;
    let home = Home::with(&log);
    let mut follow = follow(&home, 0).await.polling(NEVER);
    take(&mut follow, lines(&log).len() - 1).await;
    // One line comes while it waits, others before it does.
    let writer = std::thread::spawn({
        let opened = home.open().unwrap();
        move || {
            std::thread::sleep(Duration::from_millis(30));
            write_first(opened).0
        }
    });
    let opened = next(&mut follow).await.unwrap();
    assert!(home.bytes().ends_with(&opened));
    let mut journal: Journal = writer.join().unwrap();
    for _ in 0..3 {
        journal.push(1, &Fact::WriterIdle(WriterIdle {})).unwrap();
        journal.write().unwrap();
    }
    let idle = take(&mut follow, 3).await;
    assert!(home.bytes().ends_with(&idle));
    drop(journal);
    std::fs::remove_file(home.log()).unwrap();
    why(next(&mut follow).await.unwrap_err());
}

#[tokio::test]
async fn long_lines_come_whole_and_what_is_longer_than_a_line_is_damage() {
    let log = whole_log().await;
    let (mut out, mut tip) = (log.clone(), Tip::default());
    for line in &lines(&log)[1..] {
        tip.check(&line[..line.len() - 1]).unwrap();
    }
    for length in [FOLLOW_BYTES, 10 * FOLLOW_BYTES, MAX_LINE_BYTES - 1000] {
        tip.encode(&mut out, 1, &long_event(length), None).unwrap();
    }
    let home = Home::with(&out);
    let mut follow = follow(&home, 0).await;
    let count = lines(&out).len() - 1;
    assert!(out.ends_with(&take(&mut follow, count).await));
    append(&home, &vec![b'z'; MAX_LINE_BYTES + 1]);
    nothing(&mut follow).await;
    append(&home, b"zz\nzz\n");
    let refused = next(&mut follow).await;
    assert!(matches!(refused, Err(Error::Damaged { cause: LineError::TooLong(_), .. })), "{refused:?}");
}
