//! Where the printing goes wrong: readers that stall, places that are full, streams that are closed.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::place::{PATIENCE, Place, Ran, Running, wait_until};

/// A script whose log is far longer than a pipe holds.
fn long(place: &Place, then: &str) -> String {
    place.script(&format!("say {}\n{then}", "word ".repeat(4000)))
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

fn code(child: &mut Child) -> Option<i32> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(since.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ctrl-C until it is gone: two that come close together may count as one.
fn interrupted(child: &mut Child) -> Option<i32> {
    let since = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < PATIENCE, "it cannot be stopped");
        signal(child, "INT");
        std::thread::sleep(Duration::from_millis(200));
    }
    code(child)
}

fn start_unread(place: &Place, args: &[&str]) -> Child {
    place.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_reader_that_stalls_holds_up_neither_the_turn_nor_the_signals() {
    let place = Place::new();
    let model = long(&place, "");
    let mut child = start_unread(&place, &["run", "-m", &model, "--json", "hi"]);
    wait_until("the turn ended", || !place.all("turn/end").is_empty());
    assert_eq!(place.reason()["type"], "completed");
    assert!(child.try_wait().unwrap().is_none(), "it waits for its reader");
    assert_eq!(interrupted(&mut child), Some(130));
    place.ok(&["verify", "latest"]);
}

#[test]
fn a_stalled_reader_still_gets_everything_of_a_turn_that_was_stopped() {
    let place = Place::new();
    let model = long(&place, "call shell {\"command\": \"echo > ran; sleep 60\"}\n");
    let mut child = start_unread(&place, &["run", "-m", &model, "--json", "hi"]);
    wait_until("the tool runs", || place.work().join("ran").exists());
    signal(&child, "INT");
    wait_until("the turn ended", || !place.all("turn/end").is_empty());
    let mut seen = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut seen).unwrap();
    assert_eq!(code(&mut child), Some(130));
    assert_eq!(seen, place.bytes());
}

#[test]
fn an_answer_nobody_reads_can_be_left() {
    for format in ["text", "json"] {
        let place = Place::new();
        let model = place.script(&format!("say {}", "x".repeat(300_000)));
        let mut child = start_unread(&place, &["run", "-m", &model, "--output-format", format, "hi"]);
        wait_until("the turn ended", || !place.all("writer/idle").is_empty());
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "it waits for its reader");
        assert_eq!(interrupted(&mut child), Some(130), "{format}");
    }
}

#[test]
fn the_time_runs_out_for_a_turn_whose_reader_stalls() {
    let place = Place::new();
    let model = long(&place, "call shell {\"command\": \"sleep 60\"}\n");
    let mut child = start_unread(&place, &["run", "-m", &model, "--json", "--timeout", "2", "hi"]);
    wait_until("the turn ended", || !place.all("turn/end").is_empty());
    assert_eq!(place.reason()["cause"]["which"], "wall-time-ms");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn into_full(place: &Place, args: &[&str]) -> Ran {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    Running::with_stdout(place.command(args), full).end()
}

const READERS: [&[&str]; 12] = [
    &["log", "latest"],
    &["log", "latest", "--json"],
    &["log", "latest@1.1"],
    &["show", "latest"],
    &["show", "latest", "--request"],
    &["sessions"],
    &["sessions", "--json"],
    &["sessions", "show", "latest"],
    &["verify", "latest"],
    &["verify", "--all", "--json"],
    &["doctor"],
    &["schema"],
];

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    let model = place.script("say Yes.\n---\nsay No.");
    for format in ["text", "json", "stream-json"] {
        let ran = into_full(&place, &["run", "-m", &model, "--output-format", format, "hi"]).exits(1);
        let ran = ran.says("error: cannot write to stdout: No space left");
        // The turn itself went well, and says so.
        assert!(ran.err.contains("done\n"), "{}", ran.err);
    }
    for verb in READERS {
        into_full(&place, verb).exits(1).says("cannot write to stdout");
    }
    place.ok(&["verify", "--all"]);
}

#[test]
fn every_verb_ends_quietly_when_its_reader_does() {
    let place = Place::new();
    place.ok(&["run", "-m", &place.script("say one two three\n"), "hi"]);
    for verb in READERS {
        let mut child = place.command(verb).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(!err.contains("panic") && !err.contains("error"), "{verb:?}: {err}");
        assert_eq!(ended.status.code(), Some(0), "{verb:?}");
    }
}

#[test]
fn closed_streams_stop_no_verb() {
    let place = Place::new();
    let model = place.script("say Yes.\n");
    place.ok(&["run", "-m", &model, "hi"]);
    let run: &[&str] = &["run", "-c", "more"];
    for verb in READERS.into_iter().chain([run]) {
        for closed in ["<&-", "2>&-", ">&-", "<&- >&- 2>&-"] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("exec \"$0\" \"$@\" {closed}"), env!("CARGO_BIN_EXE_terret")]);
            command.args(verb).env("TERRET_HOME", place.home()).current_dir(place.work());
            let ended = command.output().unwrap();
            let err = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(0), "{verb:?} {closed}: {err}");
            assert!(closed.contains(">&-") || !ended.stdout.is_empty(), "{verb:?} {closed}");
        }
    }
    // A reader of stderr that went away.
    for verb in [&["show", "latest", "--request"][..], &["sessions"], &["run", "-m", "none", "hi"]] {
        let mut command = place.command(verb);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_ne!(code(&mut child), Some(101), "{verb:?}");
    }
}

#[test]
fn the_last_answer_is_kept_whole_or_not_touched() {
    let place = Place::new();
    let model = place.script("say First.\n---\nsay Second.");
    place.ok(&["run", "-m", &model, "-o", "answer.txt", "hi"]);
    assert_eq!(place.read("answer.txt"), "First.");
    // Nothing was left to do: there is no new answer.
    place.ok(&["run", "-c", "-o", "answer.txt"]).says("nothing was left to do");
    assert_eq!(place.read("answer.txt"), "First.");
    // What it is stays what it is.
    let answer = place.work().join("answer.txt");
    std::fs::set_permissions(&answer, PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("answer.txt", place.work().join("link.txt")).unwrap();
    place.ok(&["run", "-c", "-o", "link.txt", "more"]);
    assert_eq!(place.read("answer.txt"), "Second.");
    assert!(place.work().join("link.txt").is_symlink());
    assert_eq!(answer.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    place.ok(&["run", "-m", &model, "-o", "/dev/null", "hi"]);
    // A stream is no file to be replaced, whatever is behind it.
    let dev = std::fs::symlink_metadata("/dev/stdout").unwrap().modified().unwrap();
    let ran = place.ok(&["run", "-m", &model, "-o", "/dev/stdout", "hi"]);
    assert_eq!(ran.text(), "First.\nFirst.");
    assert_eq!(std::fs::symlink_metadata("/dev/stdout").unwrap().modified().unwrap(), dev);
    place.run(&["run", "-m", &model, "-o", "nowhere/a.txt", "hi"]).exits(2).says("`nowhere/a.txt`");
    place.run(&["run", "-m", &model, "-o", "/dev/full", "hi"]).exits(1).says("`/dev/full`");
    let names = std::fs::read_dir(place.work()).unwrap().flatten().map(|e| e.file_name());
    assert_eq!(
        names.filter(|name| name.to_string_lossy().starts_with('.')).count(),
        0,
        "nothing is left over"
    );
}
