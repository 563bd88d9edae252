//! Ctrl-C, TERM, and two runs at once.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Place, contains, id_of, wait_until};
use crate::server::{Reply, Server, calls, says, text};

fn time_of(place: &Place, kind: &str) -> u64 {
    let events = place.events();
    events.iter().rev().find(|e| e["type"] == kind).unwrap()["time"].as_u64().unwrap()
}

fn now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Whether a process is there and is not merely waiting to be reaped.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn ctrl_c_in_a_stream_keeps_what_was_said() {
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        0 => Reply::Stall(vec![text("one "), text("two ")]),
        _ => Reply::Stream(says("went on")),
    });
    let run = place.start(&server.run(&["count"]));
    wait_until("the text came", || contains(&place.bytes(), b"\"two \""));
    let sent = now_ms();
    run.signal("INT");
    let ran = run.end().exits(130).says("stopped by you").says("go on with: terret run -r ");
    assert!(time_of(&place, "turn/end") < sent + 1000);
    assert_eq!(ran.text(), "one two\n");
    let reason = place.reason();
    assert_eq!((&reason["type"], &reason["cause"]["type"]), (&"aborted".into(), &"user".into()));
    let message = &place.all("assistant/message")[0];
    assert_eq!(message["interrupted"], true);
    assert_eq!(message["message"]["content"][0]["text"], "one two ");
    place.ok(&["verify", "latest"]);
    // The model sees what it had said.
    assert_eq!(place.ok(&server.run(&["-c", "go on"])).text(), "went on\n");
    assert!(contains(&server.requests()[1].body, b"one two "));
}

#[test]
fn ctrl_c_before_the_first_byte() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stall(Vec::new()));
    let run = place.start(&server.run(&["count"]));
    wait_until("the request is there", || !server.requests().is_empty());
    run.signal("INT");
    run.end().exits(130);
    place.ok(&["verify", "latest"]);
}

#[test]
fn ctrl_c_between_attempts() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Plain {
        status: 429,
        headers: vec![("retry-after", "30".into())],
        body: String::new(),
    });
    let run = place.start(&server.run(&["count"]));
    wait_until("a retry waits", || !place.all("request/retry").is_empty());
    let sent = now_ms();
    run.signal("INT");
    run.end().exits(130);
    assert!(time_of(&place, "turn/end") < sent + 1000);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn term_says_that_the_process_had_to_end() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stall(vec![text("one ")]));
    let run = place.start(&server.run(&["count"]));
    wait_until("the text came", || contains(&place.bytes(), b"\"one \""));
    run.signal("TERM");
    run.end().exits(143).says("go on with: terret run -r ");
    assert_eq!(place.reason()["cause"]["type"], "disposed");
}

#[test]
fn a_terminal_that_goes_away_counts_like_term() {
    let place = Place::new();
    let arguments = serde_json::json!({ "command": "echo $$ > shell.pid; sleep 30" }).to_string();
    let server = Server::start(move |_, _| Reply::Stream(calls("shell", &arguments)));
    let run = place.start(&server.run(&["go"]));
    wait_until("the tool runs", || !place.read("shell.pid").trim().is_empty());
    run.signal("HUP");
    run.end().exits(143);
    assert!(!lives(&place.read("shell.pid")));
    assert_eq!(place.reason()["cause"]["type"], "disposed");
    place.ok(&["verify", "latest"]);
}

#[test]
fn a_run_under_nohup_outlives_its_terminal_and_still_hears_term() {
    let place = Place::new();
    let model = place.script("call shell {\"command\": \"echo > ran; sleep 30\"}\n---\nsay Done.");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_terret")]);
    command.args(["run", "-m", &model, "hi"]).env("TERRET_HOME", place.home()).current_dir(place.work());
    command.stdin(std::process::Stdio::null());
    let run = crate::place::Running::start(command);
    wait_until("the tool runs", || place.work().join("ran").exists());
    run.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(place.all("turn/cancel").is_empty());
    run.signal("TERM");
    let ran = run.end().exits(143);
    assert!(!ran.err.contains("left at once"), "{}", ran.err);
    assert_eq!(place.reason()["cause"]["type"], "disposed");
}

#[test]
fn ctrl_c_during_a_tool_leaves_no_child() {
    let place = Place::new();
    let command = "echo $$ > shell.pid; sleep 30 & echo $! > sleep.pid; wait";
    let arguments = serde_json::json!({ "command": command }).to_string();
    let server = Server::start(move |_, _| Reply::Stream(calls("shell", &arguments)));
    let run = place.start(&server.run(&["go"]));
    wait_until("the tool runs", || !place.read("sleep.pid").trim().is_empty());
    run.signal("INT");
    run.end().exits(130);
    for file in ["shell.pid", "sleep.pid"] {
        assert!(!lives(&place.read(file)), "{file} is left");
    }
    assert_eq!(place.all("tool/result")[0]["outcome"], "aborted");
    place.ok(&["verify", "latest"]);
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let place = Place::new();
    // It ignores the polite signal, so that the first Ctrl-C takes its time.
    let command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let model =
        place.script(&format!("call shell {}\n---\nsay Closed.", serde_json::json!({ "command": command })));
    let run = place.start(&["run", "-m", &model, "go"]);
    wait_until("the tool runs", || !place.read("pid").trim().is_empty());
    run.signal("INT");
    wait_until("the cancel is logged", || !place.all("turn/cancel").is_empty());
    let since = Instant::now();
    run.signal("INT");
    let ran = run.end();
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert!(since.elapsed() < Duration::from_secs(10));
    let pid = place.read("pid");
    wait_until("the command is gone", || !lives(&pid));
    // What it says to type can be typed, and closes the turn as cancelled.
    let (left, words) = (ran.err.contains("left at once"), "terret run ");
    if left {
        let typed = ran.err.split(words).nth(1).and_then(|rest| rest.lines().next()).unwrap();
        let args: Vec<&str> = std::iter::once("run").chain(typed.split_whitespace()).collect();
        place.run(&args).exits(130).says("closed turn 1");
    }
    assert_eq!(place.reason()["type"], "aborted");
    place.ok(&["verify", "latest"]);
}

#[test]
fn of_two_runs_at_once_one_is_refused() {
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        0 => Reply::Stream(says("first")),
        _ => Reply::Slow(says(&"word ".repeat(30)), Duration::from_millis(50)),
    });
    place.ok(&server.run(&["hi"]));
    let (a, b) = (place.start(&server.run(&["-c", "more"])), place.start(&server.run(&["-c", "more"])));
    let pids = [a.pid(), b.pid()];
    let ends = [a.end(), b.end()];
    let mut codes = ends.each_ref().map(|ran| ran.code);
    let winner = if codes[0] == 0 { 0 } else { 1 };
    assert!(ends[1 - winner].err.contains(&format!("(pid {},", pids[winner])), "{}", ends[1 - winner].err);
    assert!(ends[1 - winner].err.starts_with(&format!("error: session `{}`", id_of(&place.log()))));
    codes.sort_unstable();
    assert_eq!(codes, [0, 6]);
    place.ok(&["verify", "latest"]);
    assert_eq!(place.all("turn/end").len(), 2);
}

#[test]
fn a_session_that_is_written_can_be_read_and_not_be_moved() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stall(vec![text("one ")]));
    let run = place.start(&server.run(&["--session-id", "busy", "hi"]));
    wait_until("the text came", || contains(&place.bytes(), b"\"one \""));
    place.ok(&["show", "busy"]);
    place.ok(&["verify", "busy"]);
    let listed = place.ok(&["sessions", "--json"]).text();
    let listed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(listed["state"], "running");
    place.run(&["sessions", "rm", "busy"]).exits(6).says(&run.pid().to_string());
    run.signal("INT");
    run.end().exits(130);
    place.ok(&["sessions", "rm", "busy"]);
    assert!(place.logs().is_empty());
    assert!(place.home().join("trash/busy/log.jsonl").exists());
}

#[test]
fn a_turn_left_open_is_gone_on_with_and_its_unsafe_call_does_not_run_again() {
    let place = Place::new();
    let command = "echo ran >> runs; echo $$ > pid; sleep 30";
    let model =
        place.script(&format!("call shell {}\n---\nsay Went on.", serde_json::json!({ "command": command })));
    let mut run = place.start(&["run", "-m", &model, "--session-id", "open", "go"]);
    wait_until("the tool runs", || !place.read("pid").trim().is_empty());
    run.kill();
    let _ = std::process::Command::new("kill").args(["-9", place.read("pid").trim()]).status();
    let ran = place.ok(&["run", "-r", "open", "--resume-turn"]);
    assert_eq!(ran.text(), "Went on.\n");
    assert_eq!(place.read("runs"), "ran\n");
    assert_eq!(place.all("tool/result")[0]["outcome"], "unknown");
    assert_eq!((place.all("turn/start").len(), place.all("turn/end").len()), (1, 1));
    // Nothing is open any more, and without a session there is nothing to go on with.
    place.run(&["run", "-r", "open", "--resume-turn"]).exits(2).says("no open turn");
    place.run(&["run", "-m", &model, "--resume-turn", "go"]).exits(2).says("--resume-turn");
    place.ok(&["verify", "open"]);
}
