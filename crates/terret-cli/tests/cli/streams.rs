//! What goes to stdout: one object, or the log itself; and readers that go away.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::place::{Place, Running, id_of, wait_until};
use crate::server::{Reply, Server, calls, says};

#[test]
fn json_is_the_log_byte_for_byte() {
    let place = Place::new();
    let model = place.script("say One.\ncall shell {\"command\": \"echo x\"}\n---\nsay Two.");
    let first = place.ok(&["run", "-m", &model, "--json", "hi"]);
    assert_eq!(first.out, place.bytes());
    assert!(first.text().lines().last().unwrap().contains("\"type\":\"writer/idle\""));
    assert_eq!(place.ok(&["log", "latest", "--json"]).out, first.out);

    let from = place.events().len();
    let second = place.ok(&["run", "-c", "--output-format", "stream-json", "more"]);
    let id = id_of(&place.log());
    let later = place.ok(&["log", &id, "--json", "--from", &from.to_string()]);
    assert_eq!(later.text(), second.text());
    assert!(second.text().lines().nth(1).unwrap().contains("\"epoch\":2"));
    assert_eq!(place.ok(&["log", place.log().to_str().unwrap(), "--json"]).out, place.bytes());
}

#[test]
fn json_of_a_run_that_closes_a_crash_is_the_log_too() {
    let place = Place::new();
    let model = place.script("call shell {\"command\": \"echo x > ran; sleep 0.3\"}\n---\nsay Two.");
    let mut run = place.start(&["run", "-m", &model, "hi"]);
    wait_until("the tool runs", || place.work().join("ran").exists());
    run.kill();
    // A torn line on top: what this run prints begins behind the cut.
    let whole = place.bytes();
    let from = place.events().len();
    std::fs::write(place.log(), [&whole[..], b"{\"seq\":"].concat()).unwrap();
    let ran = place.ok(&["run", "-c", "--json", "more"]);
    assert!(place.bytes().starts_with(&whole));
    assert_eq!(place.ok(&["log", "latest", "--json", "--from", &from.to_string()]).text(), ran.text());
}

#[test]
fn the_object_says_everything() {
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        0 => Reply::Stream(calls("shell", r#"{"command":"true"}"#)),
        _ => Reply::Stream(says("All done.")),
    });
    let ran = place.ok(&server.run(&["--output-format", "json", "hi"]));
    assert_eq!(ran.text().lines().count(), 1);
    let object: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(object["session"], id_of(&place.log()));
    assert_eq!(object["ending"]["type"], "completed");
    assert_eq!(
        (&object["text"], &object["steps"], &object["parked"]),
        (&"All done.".into(), &2.into(), &0.into())
    );
    assert_eq!(object["usage"]["output_tokens"], 20);
    assert_eq!(object["log"], place.log().to_str().unwrap());
    assert!(object.as_object().unwrap().contains_key("cost"));
    // The head is that of the log as it lies there, its last line included.
    let head = object["head"].as_str().unwrap();
    place.ok(&["verify", "latest", "--head", head]);
    let last = place.events().last().unwrap()["seq"].as_u64().unwrap();
    assert_eq!(head.split_once(':').unwrap().0, last.to_string());
}

#[test]
fn the_object_of_a_failure_and_of_a_run_that_only_closes() {
    let place = Place::new();
    let model = place.script("say Half a\nfail AUTH no such key");
    let ran = place.run(&["run", "-m", &model, "--output-format", "json", "hi"]).exits(1);
    let object: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(object["ending"]["type"], "error");

    let place = Place::new();
    let model = place.script("call shell {\"command\": \"echo x > ran; sleep 0.3\"}");
    let mut run = place.start(&["run", "-m", &model, "hi"]);
    wait_until("the tool runs", || place.work().join("ran").exists());
    run.kill();
    let ran = place.run(&["run", "-c", "--output-format", "json"]).exits(1).says("closed turn 1");
    let object: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(object["ending"]["type"], "interrupted");
}

#[test]
fn lines_are_shown_as_they_are_written() {
    let place = Place::new();
    let model = place.script("pace 100\nsay one two three four five six seven eight nine ten");
    let mut command = place.command(&["run", "-m", &model, "--json", "hi"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&seen).contains("\"three \"") {
        let n = out.read(&mut buffer).unwrap();
        assert!(n > 0, "the stream ended early");
        seen.extend_from_slice(&buffer[..n]);
    }
    assert!(place.all("turn/end").is_empty(), "shown while the turn goes on");
    assert!(place.bytes().starts_with(&seen), "what is shown is written");
    out.read_to_end(&mut seen).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(seen, place.bytes());
}

#[test]
fn the_session_is_named_before_the_first_request() {
    let place = Place::new();
    let named = place.home().join("sessions");
    let server = Server::start(move |_, request| {
        // By now header and prompt are in the file.
        let dir = std::fs::read_dir(&named).unwrap().flatten().next().unwrap().path();
        let log = std::fs::read_to_string(dir.join("log.jsonl")).unwrap();
        assert!(log.contains("inbox/added") && log.contains("request/attempt"), "{}", request.head);
        Reply::Stream(says("Named."))
    });
    assert!(place.ok(&server.run(&["hi"])).err.starts_with("session "));
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_turn() {
    for format in ["stream-json", "text", "json"] {
        let place = Place::new();
        let model = place.script(
            "pace 20\nsay one two three\ncall shell {\"command\": \"sleep 0.2; echo ran > ran\"}\n---\nsay Two words.",
        );
        let mut command = place.command(&["run", "-m", &model, "--output-format", format, "hi"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        if format == "stream-json" {
            out.read_exact(&mut [0; 10]).unwrap();
        }
        drop(out);
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{format}: {err}");
        assert!(!err.contains("panic") && !err.to_lowercase().contains("pipe"), "{format}: {err}");
        assert_eq!(place.read("ran"), "ran\n");
        assert_eq!(place.reason()["type"], "completed");
        place.ok(&["verify", "latest"]);
    }
}

#[test]
fn a_closed_stderr_does_not_stop_the_turn() {
    let place = Place::new();
    let model = place.script("pace 20\nsay one two three\ncall shell {\"command\": \"true\"}\n---\nsay Two.");
    for verbose in [&["-v"][..], &[]] {
        let mut command = place.command(&[&["run", "-m", &model][..], verbose, &["hi"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "Two.\n");
    }
}

#[test]
fn readers_that_stop_early_are_quiet() {
    let place = Place::new();
    let model = place.script("say one two three\n");
    place.ok(&["run", "-m", &model, "hi"]);
    for verb in [
        &["log", "latest"][..],
        &["log", "latest", "--json"],
        &["show", "latest"],
        &["sessions"],
        &["verify", "--all"],
    ] {
        let mut command = place.command(verb);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0), "{verb:?}");
    }
}

#[test]
fn a_log_can_be_followed_while_it_grows() {
    let place = Place::new();
    let model = place.script("pace 60\nsay one two three four five six seven eight nine ten");
    let run = place.start(&["run", "-m", &model, "--session-id", "s", "hi"]);
    wait_until("the session is there", || !place.events().is_empty());
    let mut follow = place.command(&["log", "s", "--json", "--follow"]);
    let mut child = follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    run.end().exits(0);
    let mut seen = vec![0; place.bytes().len()];
    out.read_exact(&mut seen).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen, place.bytes());
}

#[test]
fn progress_is_shown_on_demand() {
    let place = Place::new();
    let model = place.script("say First.\ncall shell {\"command\": \"echo out\"}\n---\nsay Second.");
    let quiet = place.ok(&["run", "-m", &model, "hi"]);
    assert!(!quiet.err.contains("$ 1.1.0"), "{}", quiet.err);
    let told = place
        .ok(&["run", "-m", &model, "-v", "hi"])
        .says("$ 1.1.0 shell {")
        .says("  1.1.0 shell: ok\n    out\n")
        .says("First.");
    assert_eq!(told.text(), "Second.\n");
    let mut plain = place.command(&["show", "latest"]);
    plain.env("NO_COLOR", "1");
    assert!(!Running::start(plain).end().out.contains(&0x1b));
}

#[test]
fn calls_and_results_are_told_apart() {
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        0 => Reply::Stream(calls("write", "{\n  \"path\": \"a b\",\n  \"content\": \"x\\n\\\" y\"\n}")),
        _ => Reply::Stream(says("Done.")),
    });
    let ran = place.ok(&server.run(&["-v", "--permissions", "read-only", "hi"]));
    // It was refused before it started, and still it is shown what was asked for.
    let line = "$ 1.1.0 write {\"path\":\"a b\",\"content\":\"x\\n\\\" y\"}\n  1.1.0 write: denied";
    for text in [ran.err, place.ok(&["show", "latest"]).text()] {
        assert!(text.contains(line), "{text}");
    }
    let model = place.script(
        "call shell {\"command\": \"sleep 0.3; echo slow\"}\ncall read {\"path\": \"none\"}\n---\nsay Done.",
    );
    place.ok(&["run", "-m", &model, "hi"]);
    let text = place.ok(&["show", "latest"]).text();
    assert!(text.contains("  1.1.0 shell: ok\n    slow\n"), "{text}");
    assert!(text.contains("  1.1.1 read: error"), "{text}");
}

#[test]
fn nothing_of_a_model_or_a_file_acts_on_the_terminal() {
    const NASTY: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\r\u{9b}1m\u{202e}x\u{7f}";
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        0 => Reply::Stream(calls("read", &serde_json::json!({ "path": NASTY }).to_string())),
        1 => Reply::Stream(says(NASTY)),
        _ => crate::server::plain(400, "text/plain", NASTY),
    });
    let harmless = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let bad = text.chars().find(|c| (c.is_control() && *c != '\n' && *c != '\t') || *c == '\u{202e}');
        assert!(bad.is_none(), "{bad:?} in {text:?}");
    };
    let ran = place.ok(&server.run(&["-v", NASTY]));
    harmless(ran.err.as_bytes());
    // A pipe gets the exact text.
    assert_eq!(ran.text(), format!("{}\n", NASTY.trim_end()));
    let failed = place.run(&server.run(&["-c", "-v", "again"])).exits(1).says("ended: failed");
    harmless(failed.err.as_bytes());
    for verb in [
        &["show", "latest"][..],
        &["log", "latest"],
        &["sessions"],
        &["sessions", "show", "latest"],
        &["doctor"],
    ] {
        harmless(&place.ok(verb).out);
    }
    assert!(place.ok(&["show", "latest"]).text().contains("\\u{1b}[2J"));
    for args in [
        &["run", "-m", "script:demo", "--tools", NASTY, "hi"][..],
        &["log", "latest", "--type", NASTY],
        &[NASTY],
    ] {
        harmless(place.run(args).exits(2).err.as_bytes());
    }
    assert_eq!(place.ok(&["log", "latest", "--json"]).out, place.bytes());
    assert_eq!(
        place.ok(&["show", "latest@1.2", "--request"]).out.strip_suffix(b"\n").unwrap(),
        server.requests()[1].body
    );
}
