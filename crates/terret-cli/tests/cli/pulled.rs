//! What is pulled away from under a writer: the log, its directory, its lock's owner. It stops, says so, and leaves
//! no process behind; nothing is acknowledged on the strength of a file that is gone.

use std::io::Write;
use std::path::Path;

use crate::place::{Place, Ran, wait_until};

/// A shell call that says who it is, and waits to be told to end; what it did is counted outside the session.
const SLOW: &str = r#"call shell {"command": "echo ran >> ran; echo $$ > pid; while ! test -e go; do sleep 0.02; done"}
---
say Done.
"#;

/// Starts a session whose tool is running, does something to it, lets the tool end, and gives the session's end.
fn pulled(place: &Place, what: impl FnOnce(&Path)) -> Ran {
    let model = place.script(SLOW);
    let run = place.start(&["run", "-m", &model, "--session-id", "p", "--json", "hi"]);
    wait_until("the tool runs", || !place.read("pid").trim().is_empty());
    what(place.log().parent().unwrap());
    place.file("go", "");
    let ran = run.end();
    assert!(!ran.text().contains("Done."), "it went on: {}", ran.text());
    assert!(!ran.text().contains("turn/end"), "an end was acknowledged: {}", ran.text());
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    assert_eq!(place.read("ran"), "ran\n");
    ran.exits(1).says("error: ").says("nothing more was done")
}

#[test]
fn the_log_is_deleted() {
    let place = Place::new();
    pulled(&place, |dir| std::fs::remove_file(dir.join("log.jsonl")).unwrap()).says("the log is gone");
    assert!(place.logs().is_empty(), "nothing grew back");
    place.run(&["run", "-r", "p", "more"]).exits(5).says("is not a session log");
}

#[test]
fn the_log_is_replaced_by_another_file() {
    let place = Place::new();
    let mut copy = Vec::new();
    pulled(&place, |dir| {
        let log = dir.join("log.jsonl");
        copy = std::fs::read(&log).unwrap();
        std::fs::write(dir.join("other"), &copy).unwrap();
        std::fs::rename(dir.join("other"), &log).unwrap();
    })
    .says("replaced by another file");
    assert_eq!(place.bytes(), copy, "the other file is not written");
    // It is a whole log: it goes on where it ends, and what ran is not run again.
    std::fs::remove_file(place.work().join("go")).unwrap();
    place.ok(&["run", "-r", "p", "more"]).says("closed turn 1 ");
    assert_eq!(place.read("ran"), "ran\n");
    assert_eq!(place.all("tool/result")[0]["outcome"], "unknown");
    place.ok(&["verify", "p"]);
}

#[test]
fn the_whole_directory_is_removed() {
    let place = Place::new();
    pulled(&place, |dir| std::fs::remove_dir_all(dir).unwrap()).says("the log is gone");
    assert!(place.logs().is_empty());
    let sessions = place.home().join("sessions");
    assert_eq!(std::fs::read_dir(sessions).unwrap().count(), 0, "nothing of it grew back");
}

/// The number in the note of a lock is a number: it may belong to any process by now. Only the lock counts.
#[test]
fn a_killed_owners_number_belongs_to_somebody_else_by_now() {
    let place = Place::new();
    let model = place.script("call shell {\"command\": \"echo > ran; sleep 60\"}\n---\nsay Two.");
    let mut run = place.start(&["run", "-m", &model, "--session-id", "p", "hi"]);
    wait_until("the tool runs", || place.work().join("ran").exists());
    run.kill();
    let lock = place.log().with_file_name("lock");
    let note = std::fs::read_to_string(&lock).unwrap();
    let stranger = std::process::id();
    let recycled = note.replace(&format!("\"pid\":{},", run.pid()), &format!("\"pid\":{stranger},"));
    assert_ne!(recycled, note);
    std::fs::write(&lock, recycled).unwrap();
    let listed = place.ok(&["sessions", "--json"]).text();
    assert!(!listed.contains("\"running\""), "{listed}");
    assert_eq!(place.ok(&["run", "-r", "p", "more"]).text(), "Two.\n");
}

/// A line that is not ours is seen while the tool still runs: the tool is stopped with everything it started, and
/// the next run says that nobody knows how the call ended.
#[test]
fn a_foreign_line_under_a_running_tool_stops_the_tool() {
    let place = Place::new();
    // It is deaf to being asked.
    let command = "trap '' TERM; sleep 60 & echo $! > child; echo ran >> ran; echo $$ > pid; \
                   while :; do sleep 0.05; done";
    let call = serde_json::json!({ "command": command });
    let model = place.script(&format!("call shell {call}\n---\nsay Two."));
    let run = place.start(&["run", "-m", &model, "--session-id", "p", "--json", "hi"]);
    wait_until("the tool runs", || !place.read("pid").trim().is_empty());
    let mut log = std::fs::OpenOptions::new().append(true).open(place.log()).unwrap();
    log.write_all(b"junk\n").unwrap();
    let before = place.bytes();
    // What this makes the session write has to be synced, and that looks at the file.
    run.signal("INT");
    let ran = run.end().exits(1).says("error: ").says("somebody else wrote");
    assert!(!ran.text().contains("turn/end"), "{}", ran.text());
    for file in ["pid", "child"] {
        let pid = place.read(file);
        wait_until("it is gone", || !lives(&pid));
    }
    assert!(place.bytes().starts_with(&before));
    // It is on the same machine, and the line was whole: whoever comes next cuts it only because the failed sync
    // left its mark.
    let again = place
        .ok(&["run", "-r", "p", "more"])
        .says("bytes of a torn line aside")
        .says("call 1.1.0 was running: what it did is unknown");
    assert_eq!(again.text(), "Two.\n");
    assert_eq!(place.all("tool/result")[0]["outcome"], "unknown");
    assert_eq!(place.all("tool/result")[0]["call"], "1.1.0");
    assert_eq!(place.read("ran"), "ran\n");
    place.ok(&["verify", "p"]);
}

/// Whether a process is there and is not merely waiting to be reaped.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
