//! What servers, models and tools get wrong: the ending says it, nothing is lost, no key leaks.

use std::time::Duration;

use serde_json::Value;

use crate::place::{Place, Ran, Running, contains};
use crate::server::{Reply, Server, calls, plain, says, text};

const CANARY: &str = "sk-canary-4f1d8a3c9b7e6052";

/// Runs with a key that must be seen by nobody but the server.
fn with_key(place: &Place, server: &Server, more: &[&str]) -> Ran {
    let mut args = server.run(&["--set", "providers.test.api_key_env=CANARY_KEY"]);
    args.extend(more.iter().map(|word| (*word).to_owned()));
    let mut command = place.command(&args);
    command.env("CANARY_KEY", CANARY);
    let ran = Running::start(command).end();
    assert!(server.requests().iter().all(|request| request.head.contains(CANARY)), "the server gets the key");
    for bytes in [&ran.out[..], ran.err.as_bytes()] {
        assert!(!contains(bytes, CANARY.as_bytes()), "the key is printed: {}", ran.err);
    }
    for (path, bytes) in place.kept() {
        assert!(!contains(&bytes, CANARY.as_bytes()), "the key is in {}", path.display());
    }
    ran
}

#[test]
fn bad_statuses_end_the_turn_with_a_reason_and_no_key() {
    let json = format!(
        r#"{{"error":{{"message":"wrong key {CANARY}, sorry","type":"invalid_request_error","code":null}}}}"#
    );
    let html = format!("<html><head><title>Gone fishing</title></head><body>{CANARY}</body></html>");
    for status in [400, 401, 403, 404, 429, 500, 503] {
        for (kind, body) in [("application/json", json.as_str()), ("text/html", &html), ("text/plain", "")] {
            let place = Place::new();
            let body = body.to_owned();
            let server = Server::start(move |_, _| plain(status, kind, &body));
            let ran =
                with_key(&place, &server, &["--json", "--set", "max_retries=0", "remember me"]).exits(1);
            assert!(ran.err.contains("ended: failed: "), "{status} {kind}: {}", ran.err);
            assert_eq!(server.requests().len(), 1);
            let reason = place.reason();
            assert_eq!(
                (&reason["type"], &reason["failure"]["status"]),
                (&"error".into(), &status.into()),
                "{reason}"
            );
            assert!(!reason["failure"]["message"].as_str().unwrap().is_empty());
            assert_eq!(
                place.all("user/message").last().unwrap()["message"]["content"][0]["text"],
                "remember me"
            );
            place.ok(&["verify", "latest"]);
        }
    }
}

#[test]
fn a_failure_that_passes_is_asked_again() {
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        0 => plain(500, "application/json", r#"{"error":{"message":"oops"}}"#),
        1 => Reply::Cut(vec![text("half an ")]),
        _ => Reply::Stream(says("whole answer")),
    });
    let ran = with_key(&place, &server, &["hi"]).exits(0);
    assert_eq!(ran.text(), "whole answer\n");
    let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    assert_eq!((bodies.len(), &bodies[1], &bodies[2]), (3, &bodies[0], &bodies[0]), "the same bytes again");
    assert_eq!(place.all("request/retry").len(), 2);
    let verified = place.ok(&["verify", "latest"]).text();
    assert!(verified.contains("3 requests, 3 rebuilt"), "{verified}");
    assert!(place.ok(&["show", "latest"]).text().contains("oops"));
}

#[test]
fn retries_run_out_and_the_attempts_are_counted() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Plain {
        status: 429,
        headers: vec![("retry-after-ms", "1".into())],
        body: String::new(),
    });
    with_key(&place, &server, &["--set", "max_retries=2", "hi"]).exits(1).says("(3 attempts)");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn streams_that_do_not_end_well() {
    type Make = fn() -> Reply;
    let cut: [(&str, Make); 4] = [
        ("cut", || Reply::Cut(vec![text("half an "), text("answer")])),
        ("cut at once", || Reply::Cut(Vec::new())),
        ("no finish", || Reply::Stream(Vec::new())),
        ("error inside", || {
            let error =
                serde_json::json!({"error": {"message": format!("overloaded, {CANARY}"), "code": 503}});
            Reply::Stream(vec![text("half "), error])
        }),
    ];
    for (what, reply) in cut {
        let place = Place::new();
        let server = Server::start(move |n, _| if n == 0 { reply() } else { Reply::Stream(says("fine")) });
        let ran = with_key(&place, &server, &["--set", "max_retries=0", "hi"]);
        assert_eq!(ran.code, 1, "{what}: {}", ran.err);
        assert!(ran.err.contains("ended: failed: "), "{what}: {}", ran.err);
        if what == "cut" {
            let shown: Vec<Value> = place.all("assistant/chunk");
            assert!(shown.iter().any(|chunk| chunk["chunk"]["text"] == "answer"), "what came is in the log");
        }
        place.ok(&["verify", "latest"]);
        assert_eq!(with_key(&place, &server, &["-c", "again"]).exits(0).text(), "fine\n");
        place.ok(&["verify", "latest"]);
    }
}

#[test]
fn a_silent_stream_is_given_up() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stall(vec![text("one ")]));
    let ran =
        with_key(&place, &server, &["--set", "max_retries=0", "--set", "idle_timeout_s=1", "hi"]).exits(1);
    assert!(ran.err.contains("TIMEOUT"), "{}", ran.err);
}

/// One call, then an answer; gives the result of the call as the model saw it, and its outcome.
fn result_of(place: &Place, name: &str, arguments: &str) -> (String, String) {
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    let server = Server::start(move |n, _| match n {
        0 => Reply::Stream(calls(&name, &arguments)),
        _ => Reply::Stream(says("I see.")),
    });
    assert_eq!(with_key(place, &server, &["go"]).exits(0).text(), "I see.\n");
    place.ok(&["verify", "latest"]);
    let seen = server.requests()[1].last().as_str().unwrap().to_owned();
    (seen, place.all("tool/result")[0]["outcome"].as_str().unwrap().to_owned())
}

#[test]
fn calls_that_cannot_run_are_answered_and_the_turn_goes_on() {
    let big = format!(r#"{{"path":"{}"}}"#, "x".repeat(10_000));
    for (name, arguments, words) in [
        ("shell", r#"{"command": "ls"#, "JSON"),
        ("shell", "", ""),
        ("shell", "null", ""),
        ("shell", r#"{"command": 5}"#, "command"),
        ("shell", r#"{"cmd": "ls"}"#, "cmd"),
        ("launch_rockets", "{}", "launch_rockets"),
        ("read", r#"{"path": "none.txt"}"#, "none.txt"),
        ("read", r#"{"path": "."}"#, "director"),
        ("read", r#"{"path": "fifo"}"#, "fifo"),
        ("read", &big, ""),
        ("edit", r#"{"path": "a.txt", "old": "not there", "new": "x"}"#, "a.txt"),
        ("write", r#"{"path": "a.txt/b", "content": "x"}"#, "a.txt"),
        ("grep", r#"{"pattern": "("}"#, "("),
    ] {
        let place = Place::new();
        place.file("a.txt", "text\n");
        let made = std::process::Command::new("mkfifo").arg(place.work().join("fifo")).status();
        assert!(made.unwrap().success());
        let (seen, outcome) = result_of(&place, name, arguments);
        assert!(outcome == "error" || outcome == "denied", "{name} {arguments}: {outcome}: {seen}");
        assert!(seen.contains(words), "{name} {arguments}: {seen}");
        assert_eq!(place.read("a.txt"), "text\n");
    }
}

#[test]
fn a_failing_command_is_a_result() {
    let place = Place::new();
    let (seen, outcome) = result_of(&place, "shell", r#"{"command": "echo before; exit 3"}"#);
    assert!(seen.contains("before") && seen.contains('3'), "{outcome}: {seen}");
    let place = Place::new();
    let (seen, outcome) = result_of(&place, "shell", r#"{"command": "sleep 30", "timeout_ms": 200}"#);
    assert_eq!(outcome, "timeout", "{seen}");
    // A flood is cut in the middle and stays a line of the log.
    let place = Place::new();
    let (seen, _) =
        result_of(&place, "shell", r#"{"command": "head -c 20000000 /dev/zero | tr '\\0' x; echo end"}"#);
    assert!(seen.len() < 100_000 && seen.contains("end"), "{} bytes", seen.len());
    // Bytes that are no text.
    let place = Place::new();
    result_of(&place, "shell", r#"{"command": "printf '\\377\\000\\033[31m'"}"#);
}

#[test]
fn the_key_is_not_in_what_tools_see() {
    let place = Place::new();
    let (seen, _) = result_of(&place, "shell", r#"{"command": "env"}"#);
    assert!(!seen.contains(CANARY), "{seen}");
}

#[test]
fn a_slow_server_is_waited_for() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Slow(says("slow and steady"), Duration::from_millis(50)));
    assert_eq!(with_key(&place, &server, &["hi"]).exits(0).text(), "slow and steady\n");
}
