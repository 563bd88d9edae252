//! What people mistype: each mistake has an exit code, one sentence, and loses nothing.

use std::os::unix::ffi::OsStrExt;

use crate::place::{Place, Ran, Running};
use crate::server::{Reply, Server, calls, plain, provider, says};

/// A usage error: code 2, one sentence, nothing on stdout.
#[track_caller]
fn refused(ran: Ran, words: &[&str]) {
    assert_eq!((ran.code, ran.text().as_str()), (2, ""), "{}", ran.err);
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
    for word in words {
        assert!(ran.err.contains(word), "`{word}` is not said: {}", ran.err);
    }
}

#[test]
fn a_missing_key_is_named() {
    let place = Place::new();
    refused(place.run(&["run", "-m", "openai/gpt-5", "hi"]), &["OPENAI_API_KEY"]);
    let set =
        ["--set", "providers.mine.base_url=http://127.0.0.1:1", "--set", "providers.mine.api_key_env=MY_KEY"];
    refused(place.run(&[&["run", "-m", "mine/m"], &set[..], &["hi"]].concat()), &["MY_KEY"]);
    place.run(&["sessions", "--json"]).exits(0);
    assert_eq!(place.run(&["sessions", "--json"]).text(), "", "nothing was begun");
}

#[test]
fn an_unknown_provider_is_told_which_there_are() {
    let place = Place::new();
    refused(place.run(&["run", "-m", "opeani/gpt-5", "hi"]), &["`opeani`", "deepseek"]);
    refused(place.run(&["run", "-m", "gpt-5", "hi"]), &["`gpt-5` is not a model", "PROVIDER/MODEL"]);
    refused(place.run(&["run", "hi"]), &["no model was chosen", "script:demo"]);
    refused(place.run(&["run", "-m", "script:no-such-file", "hi"]), &["no-such-file"]);
    let mistaken = place.run(&["run", "-m", &place.script("sya hello"), "hi"]);
    refused(mistaken, &["sya", "line 1", "script-format.md"]);
}

#[test]
fn a_key_is_kept_from_commands_whatever_its_variable_is_called() {
    let place = Place::new();
    let script = place.script("call shell {\"command\": \"echo [$ODD_NAME]\"}\n---\nsay done");
    let args = ["run", "-m", &script, "--set", "providers.mine.api_key_env=ODD_NAME", "go"];
    let mut command = place.command(&args);
    command.env("ODD_NAME", "canary-7");
    Running::start(command).end().exits(0);
    assert!(place.run(&["log", "latest", "--json"]).text().contains("[]"));
    assert!(!place.run(&["log", "latest", "--json"]).text().contains("canary-7"));
}

#[test]
fn a_refused_connection_names_the_address() {
    let place = Place::new();
    // Nobody listens on a port that was just let go.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = place.run(&provider(port, &["--set", "max_retries=0", "hi"])).exits(1);
    assert!(ran.err.contains(&format!("127.0.0.1:{port}")), "{}", ran.err);
    assert_eq!(place.all("inbox/added").len(), 1);
    place.ok(&["verify", "latest"]);
}

#[test]
fn a_misspelt_key_is_told_the_nearest() {
    let place = Place::new();
    let model = place.script("say Yes.");
    refused(
        place.run(&["run", "-m", &model, "--set", "max_retires=1", "hi"]),
        &["`max_retires`", "`max_retries`"],
    );
    refused(
        place.run(&["run", "-m", &model, "--set", "max_retries=many", "hi"]),
        &["max_retries", "whole number"],
    );
    refused(place.run(&["run", "-m", &model, "--set", "max_retries", "hi"]), &["key=value"]);
    std::fs::create_dir_all(place.home()).unwrap();
    let config = place.home().join("config.toml");
    std::fs::write(&config, "\n[providers.mine]\nbase_ulr = \"x\"\n").unwrap();
    refused(
        place.run(&["run", "-m", &model, "hi"]),
        &["base_ulr", "providers.mine.base_url", "config.toml:3"],
    );
    std::fs::write(&config, "model = \n").unwrap();
    refused(place.run(&["run", "-m", &model, "hi"]), &["config.toml:1"]);
    let mut command = place.command(&["run", "-m", &model, "hi"]);
    std::fs::write(&config, "").unwrap();
    command.env("TERRET_MAX_STEPS", "few");
    refused(Running::start(command).end(), &["TERRET_MAX_STEPS"]);
    assert!(place.logs().is_empty(), "no session was begun");
}

#[test]
fn unknown_tools_and_empty_prompts_are_refused_before_a_session_is_made() {
    let place = Place::new();
    let model = place.script("say Yes.");
    refused(place.run(&["run", "-m", &model, "--tools", "read,raed", "hi"]), &["`raed`", "grep"]);
    for prompt in [&[""][..], &["  \n"], &[], &["-"]] {
        refused(place.run(&[&["run", "-m", &model], prompt].concat()), &["there is no prompt", "hint:"]);
    }
    refused(place.run(&["run", "-m", &model, "--cwd", "nowhere", "hi"]), &["`nowhere`"]);
    refused(place.run(&["run", "-m", &model, "--cwd", "model.script", "hi"]), &["model.script"]);
    assert!(place.logs().is_empty());
}

#[test]
fn addresses_that_mean_nothing_or_too_much() {
    let place = Place::new();
    let model = place.script("say Yes.");
    refused(place.run(&["run", "-c", "hi"]), &["no session", "hint:"]);
    refused(place.run(&["show", "latest"]), &["no session"]);
    for id in ["alpha-1", "alpha-2"] {
        place.ok(&["run", "-m", &model, "--session-id", id, "hi"]);
    }
    for verb in [
        &["show", "alpha"][..],
        &["verify", "alpha"],
        &["run", "-r", "alpha", "hi"],
        &["sessions", "rm", "alp"],
    ] {
        refused(place.run(verb), &["fits 2 sessions", "alpha-1", "alpha-2"]);
    }
    refused(place.run(&["show", "beta"]), &["no session `beta`"]);
    refused(place.run(&["show", "alpha-1@nonsense"]), &["@118"]);
    refused(place.run(&["show", ""]), &["names no session"]);
    refused(place.run(&["run", "-r", "alpha-1@3", "hi"]), &["error"]);
    refused(place.run(&["run", "-r", "../alpha-1", "hi"]), &["error"]);
    refused(place.run(&["verify", "alpha-1", "--head", "x"]), &["SEQ:HASH"]);
    assert_eq!(place.logs().len(), 2);
}

#[test]
fn a_prompt_of_odd_bytes_is_kept() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("ok")));
    let odd = "tab\there, \u{0} no, quote \" backslash \\ line\u{2028}sep, emoji 🦀, rtl \u{202e}x"
        .replace('\u{0}', "\u{1}");
    place.ok(&server.run(&[&odd]));
    assert_eq!(server.requests()[0].prompt(), odd);
    assert_eq!(place.ok(&["log", "latest", "--json"]).out, place.bytes());
    place.ok(&["verify", "latest"]);
    let mut command = place.command(&server.run(&[]));
    command.arg(std::ffi::OsStr::from_bytes(b"bad \xff utf8"));
    assert_eq!(Running::start(command).end().code, 2);
}

#[test]
fn a_prompt_too_large_for_a_line_is_refused_and_loses_nothing() {
    let place = Place::new();
    let model = place.script("say Yes.");
    place.ok(&["run", "-m", &model, "hi"]);
    let before = place.bytes();
    let mut command = place.command(&["run", "-c", "--json"]);
    command.stdin(std::fs::File::open(place.file("large.txt", &"x".repeat(9 << 20))).unwrap());
    let ran = Running::start(command).end();
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("too large"), "{}", ran.err);
    assert!(place.bytes().starts_with(&before));
    place.ok(&["verify", "latest"]);
    place.ok(&["run", "-c", "smaller"]);

    // A new session is not even begun. Control characters take six bytes in the log.
    let place = Place::new();
    for text in ["x".repeat(5 << 20), "\u{1}".repeat(1 << 20)] {
        let mut command = place.command(&["run", "-m", &model]);
        command.stdin(std::fs::File::open(place.file("large.txt", &text)).unwrap());
        refused(Running::start(command).end(), &["too large", "in the working directory"]);
        assert!(place.kept().is_empty());
    }
}

#[test]
fn numbers_as_large_as_they_come_are_taken() {
    let place = Place::new();
    let model = place.script("say Yes.");
    let most = u64::MAX.to_string();
    for timeout in [most.as_str(), "9223372036854775807", "9223372036854770000"] {
        place.ok(&["run", "-m", &model, "--timeout", timeout, "hi"]);
    }
    place.ok(&["run", "-m", &model, "--set", "timeout_s=9223372036854775807", "hi"]);
    place.ok(&["run", "-m", &model, "--set", "idle_timeout_s=9223372036854775807", "hi"]);
    refused(place.run(&["log", "latest", "--around", &most]), &["no event", "last event"]);
    refused(place.run(&["log", &format!("latest@{most}")]), &["no event", "last event"]);
    place.ok(&["log", "latest", "--from", &most]);
    refused(place.run(&["show", &format!("latest@{most}")]), &["no event", "last event"]);
}

#[test]
fn a_point_that_names_a_step_prints_that_step() {
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        0 => plain(500, "application/json", "{}"),
        1 => Reply::Stream(calls("shell", r#"{"command":"true"}"#)),
        _ => Reply::Stream(says("Done.")),
    });
    place.ok(&server.run(&["hi"]));
    let types = |address: &str| -> Vec<String> {
        let text = place.ok(&["log", address, "--json"]).text();
        let lines = text.lines().skip(1).map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    let step = types("latest@1.1");
    assert_eq!((step[0].as_str(), step.last().unwrap().as_str()), ("step/start", "step/end"));
    let count = |types: &[String], kind: &str| types.iter().filter(|t| *t == kind).count();
    assert_eq!((count(&step, "request/attempt"), count(&step, "tool/result")), (2, 1));
    let (first, second) = (types("latest@1.1#1"), types("latest@1.1#2"));
    assert_eq!(first[0], "request/attempt");
    assert_eq!((count(&first, "request/failed"), count(&first, "tool/result")), (1, 0));
    assert_eq!((count(&second, "request/attempt"), count(&second, "tool/result")), (1, 1));
    assert_eq!(count(&types("latest@1.2"), "step/start"), 1);
    for address in ["latest@1.3", "latest@2.1", "latest@1.1#3", "latest@1.2#2"] {
        for verb in [&["log", address][..], &["show", address], &["show", address, "--request"]] {
            refused(place.run(verb), &["names no", address, "there is"]);
        }
    }
    refused(place.run(&["log", "latest@1.3"]), &["turn 1 has 2 steps"]);
    refused(place.run(&["show", "latest@9.9"]), &["1 turn; turn 1 has 2 steps"]);
    refused(place.run(&["show", "latest@1.1#3"]), &["step 1.1 has 2 attempts"]);
}

#[test]
fn a_type_of_event_that_does_not_exist_is_told_the_nearest() {
    let place = Place::new();
    place.ok(&["run", "-m", &place.script("say Yes."), "hi"]);
    refused(place.run(&["log", "latest", "--type", "tool/cal"]), &["`tool/cal`", "`tool/call`"]);
    refused(place.run(&["log", "latest", "--type", "bogus"]), &["`bogus`", "terret schema"]);
    for kind in ["tool/call", "x/mine/note"] {
        assert_eq!(place.ok(&["log", "latest", "--type", kind]).text(), "");
    }
}

#[test]
fn the_trash_takes_only_what_is_named() {
    let place = Place::new();
    place.ok(&["run", "-m", &place.script("say Yes."), "hi"]);
    refused(place.run(&["sessions", "rm", "latest"]), &["`latest`", "terret sessions"]);
    assert_eq!(place.logs().len(), 1);
}

#[test]
fn words_in_the_wrong_place_are_told_the_right_one() {
    let place = Place::new();
    let model = place.script("say Yes.");
    let hint = format!("terret run -m {model} 'say hello'");
    refused(place.run(&["-m", &model, "say hello"]), &[&hint]);
    refused(place.run(&["-m", &model, "run", "say hello"]), &[&hint]);
    refused(place.run(&["say hello"]), &["terret run 'say hello'"]);
    let ran = place.run(&["run", "-m", &model, "--max-steps", "-1", "hi"]).exits(2).says("--max-steps");
    assert!(!ran.err.contains("-- -1"), "{}", ran.err);
    place.run(&["run", "-m", &model, "--ephemeral", "--session-id", "q", "hi"]).exits(2).says("--session-id");
    refused(place.run(&["verify"]), &["address", "`--all`"]);
    assert!(place.logs().is_empty());
}

#[test]
fn a_prompt_may_begin_with_a_dash_and_the_last_flag_wins() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("ok")));
    place.ok(&server.run(&["-p", "-starts with a dash"]));
    assert_eq!(server.requests()[0].prompt(), "-starts with a dash");
    place.ok(&server.run(&["--cwd", "nowhere", "--cwd", ".", "--set", "max_retries=0", "hi"]));
}

#[test]
fn a_home_that_is_a_file_is_named() {
    let place = Place::new();
    std::fs::write(place.home(), "").unwrap();
    let home = place.home().display().to_string();
    for verb in [&["sessions"][..], &["doctor"], &["run", "-m", "script:demo", "hi"]] {
        refused(place.run(verb), &["is not a directory", &home, "TERRET_HOME"]);
    }
}

#[test]
fn a_misspelt_variable_is_noted() {
    let place = Place::new();
    let model = place.script("say Yes.");
    for verb in [&["run", "-m", &model, "hi"][..], &["doctor"]] {
        let mut command = place.command(verb);
        command.env("TERRET_MAX_STEP", "3").env("TERRET_CALL", "a/1.1.0").env("TERRET_RUN", "x");
        let ran = Running::start(command).end().exits(0);
        let told = ran.text() + &ran.err;
        let note = "note: `TERRET_MAX_STEP` is not read; did you mean `TERRET_MAX_STEPS`?";
        assert!(told.contains(note), "{told}");
        assert!(!told.contains("TERRET_CALL") && !told.contains("TERRET_RUN"), "{told}");
    }
}
