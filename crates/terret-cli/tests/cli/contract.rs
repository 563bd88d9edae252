//! Flags, places and the prompt.

use std::process::Stdio;

use crate::place::{Place, Running, id_of};
use crate::server::{Reply, Server, calls, plain, says};

#[test]
fn text_is_the_answer_and_nothing_else() {
    let place = Place::new();
    let model = place.script("think Hm.\nsay Forty-two.\nsay\n");
    let ran = place.ok(&["run", "-m", &model, "why?"]);
    assert_eq!(ran.text(), "Forty-two.\n");
    let id = id_of(&place.log());
    assert!(ran.err.lines().next().unwrap().starts_with(&format!("session {id}")), "{}", ran.err);
    assert!(ran.err.trim_end().ends_with(&format!("go on with: terret run -r {id} \"…\"")), "{}", ran.err);
    for alias in [["exec", "-m"], ["-p", "why?"]] {
        let rest: &[&str] = if alias[0] == "exec" { &[&model, "why?"] } else { &["-m", &model] };
        assert_eq!(place.ok(&[&alias[..], rest].concat()).text(), "Forty-two.\n");
    }
}

#[test]
fn the_head_printed_on_leaving_is_the_one_verify_proves() {
    let place = Place::new();
    let model = place.script("say Yes.");
    let ran = place.ok(&["run", "-m", &model, "hi"]);
    let head = ran.err.lines().find_map(|line| line.strip_prefix("head ")).unwrap().to_owned();
    assert!(place.ok(&["verify", "latest", "--head", &head]).text().contains(&format!("head {head}")));
    place.ok(&["run", "-c", "more"]);
    place.ok(&["verify", "latest", "--head", &head]);
    let (start, last) = head.split_at(head.len() - 1);
    let wrong = format!("{start}{}", if last == "0" { "1" } else { "0" });
    place.run(&["verify", "latest", "--head", &wrong]).exits(5);
}

#[test]
fn the_prompt_comes_from_stdin_too() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("read")));
    let piped = |more: &[&str], text: &str| {
        let mut command = place.command(&server.run(more));
        command.stdin(Stdio::piped());
        let mut run = Running::start(command);
        run.feed(text);
        run.end().exits(0);
        server.requests().last().unwrap().prompt()
    };
    assert_eq!(piped(&[], "from the pipe\n"), "from the pipe\n");
    assert_eq!(piped(&["-"], "asked for"), "asked for");
    assert_eq!(piped(&["look:"], "line 1\nline 2\n"), "look:\n\n<stdin>\nline 1\nline 2\n</stdin>");
    assert_eq!(piped(&["alone"], ""), "alone");
    let file = place.file("prompt.txt", "from a file");
    let mut command = place.command(&server.run(&[]));
    command.stdin(std::fs::File::open(file).unwrap());
    Running::start(command).end().exits(0);
    assert_eq!(server.requests().last().unwrap().prompt(), "from a file");
}

#[test]
fn a_stdin_that_is_neither_pipe_nor_file_is_not_waited_for() {
    let place = Place::new();
    let model = place.script("say Yes.");
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = place.command(&["run", "-m", &model, "hi"]);
    command.stdin(std::os::fd::OwnedFd::from(theirs));
    Running::start(command).end().exits(0);
    drop(ours);
}

#[test]
fn the_answer_goes_to_a_file() {
    let place = Place::new();
    let model = place.script("say The answer.");
    let ran = place.ok(&["run", "-m", &model, "-o", "answer.txt", "hi"]);
    assert_eq!(place.read("answer.txt").trim_end(), "The answer.");
    assert_eq!(ran.text(), "The answer.\n");
    // A file that cannot be written is said before anything is asked.
    for file in ["no/such/dir/answer.txt", ".", "answer.txt/x"] {
        place.run(&["run", "-c", "-o", file, "hi"]).exits(2).says(file);
    }
    assert_eq!(place.all("turn/end").len(), 1);
}

#[test]
fn ephemeral_leaves_no_file() {
    let place = Place::new();
    let model = place.script("say Gone.");
    let ran = place.ok(&["run", "-m", &model, "--ephemeral", "hi"]);
    assert_eq!(ran.text(), "Gone.\n");
    assert!(place.kept().is_empty(), "{:?}", place.kept());
    assert!(!ran.err.contains("go on with"), "{}", ran.err);
    let json = place.ok(&["run", "-m", &model, "--ephemeral", "--json", "hi"]).text();
    assert!(json.lines().last().unwrap().contains("writer/idle"), "{json}");
    assert!(place.kept().is_empty());
}

#[test]
fn a_session_has_the_id_it_was_given() {
    let place = Place::new();
    let model = place.script("say Yes.");
    place.ok(&["run", "-m", &model, "--session-id", "my.session-1", "hi"]);
    assert_eq!(id_of(&place.log()), "my.session-1");
    let before = place.bytes();
    place.run(&["run", "-m", &model, "--session-id", "my.session-1", "hi"]).exits(2).says("my.session-1");
    assert_eq!(place.bytes(), before);
    place.ok(&["run", "-r", "my.s", "more"]);
    assert!(place.bytes().starts_with(&before) && place.bytes().len() > before.len());
    for bad in ["Upper", "-x", "a/b", ".hidden", &"x".repeat(65), ""] {
        place.run(&["run", "-m", &model, &format!("--session-id={bad}"), "hi"]).exits(2).says("error:");
    }
    assert_eq!(place.logs().len(), 1);
}

#[test]
fn what_it_says_to_type_can_be_typed() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("ok")));
    std::fs::create_dir(place.work().join("a dir")).unwrap();
    let set = "providers.test.headers.x-key=secret";
    let ran =
        place.ok(&server.run(&["--permissions", "read-only", "--set", "max_retries=0", "--set", set, "hi"]));
    assert!(!ran.err.contains("secret"), "{}", ran.err);
    let id = id_of(&place.log());
    let typed = |err: &str| {
        let line = err.lines().find_map(|line| line.strip_prefix("go on with: terret ")).unwrap().to_owned();
        let mut command = std::process::Command::new("sh");
        let line = format!("exec \"$0\" {}", line.replace('…', "more"));
        command.args(["-c", &line, env!("CARGO_BIN_EXE_terret")]).env_clear();
        command.env("TERRET_HOME", place.home()).current_dir(place.work()).stdin(Stdio::null());
        (line, Running::start(command).end().exits(0))
    };
    let (line, again) = typed(&ran.err);
    assert!(line.contains(&format!("run -r {id} --permissions read-only --set ")), "{line}");
    assert!(line.contains("headers.x-key=more"), "{line}");
    // What the session remembers is not repeated; another directory is.
    assert!(!again.err.contains("--cwd"), "{}", again.err);
    let moved = place.ok(&server.run(&["-r", &id, "--cwd", "a dir", "hi"]));
    assert!(typed(&moved.err).0.contains("/a dir'"), "{}", moved.err);
}

#[test]
fn continue_means_this_directory() {
    let place = Place::new();
    let model = place.script("say Yes.");
    std::fs::create_dir(place.work().join("a")).unwrap();
    std::fs::create_dir(place.work().join("b")).unwrap();
    for dir in ["a", "b"] {
        place.ok(&["run", "-m", &model, "--cwd", dir, "--session-id", dir, "hi"]);
    }
    let b = std::fs::read(&place.logs()[1]).unwrap();
    place.ok(&["run", "-c", "--cwd", "a", "more"]).says("session a ");
    assert_eq!(std::fs::read(&place.logs()[1]).unwrap(), b);
    // In a third directory there is nothing to go on with.
    place.run(&["run", "-c", "more"]).exits(2).says(&place.work().display().to_string());
}

#[test]
fn continue_without_a_prompt_says_that_nothing_was_left() {
    let place = Place::new();
    let model = place.script("say Yes.");
    place.ok(&["run", "-m", &model, "hi"]);
    let before = place.bytes();
    let ran = place.ok(&["run", "-c"]).says("nothing was left to do");
    assert_eq!(ran.text(), "");
    assert_eq!(place.bytes(), before, "opening and writing nothing changes nothing");
}

#[test]
fn system_and_tools_shape_the_request() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("Arr.")));
    place.file("system.md", "You are a pirate.");
    place.ok(&server.run(&["--system", "system.md", "--tools", "read, grep", "hi"]));
    let request = server.requests()[0].json();
    assert!(request["messages"][0]["content"].as_str().unwrap().contains("You are a pirate."));
    let names = |request: &serde_json::Value| -> Vec<String> {
        let tools = request["tools"].as_array().into_iter().flatten();
        tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&request), ["read", "grep"]);
    place.ok(&server.run(&["--tools", "", "hi"]));
    assert!(names(&server.requests()[1].json()).is_empty());
    place.run(&server.run(&["--system", "none.md", "hi"])).exits(2).says("none.md");
}

#[test]
fn budgets_end_the_turn_and_are_named() {
    let place = Place::new();
    let server = Server::start(|n, _| match n {
        9 => Reply::Stall(vec![crate::server::text("still ")]),
        _ => Reply::Stream(calls("shell", r#"{"command":"echo step >> steps"}"#)),
    });
    place.run(&server.run(&["--max-steps", "3", "go"])).exits(7).says("stopped at the budget of 3 steps");
    assert_eq!((server.requests().len(), place.read("steps").lines().count()), (3, 3));
    let reason = place.reason();
    assert_eq!(
        (&reason["type"], &reason["cause"]["type"]),
        (&"aborted".into(), &"budget".into()),
        "{reason}"
    );
    // Again in the same session, by configuration: a budget is of the run, not of the session.
    let more = server.run(&["-c", "--set", "max_steps=6", "go"]);
    place.run(&more).exits(7).says("stopped at the budget of 6 steps");
    let timed = place.run(&server.run(&["-c", "--timeout", "1", "go"])).exits(7);
    assert!(timed.err.contains("stopped at the budget of 1 s"), "{}", timed.err);
    place.ok(&["verify", "latest"]);
}

#[test]
fn a_timeout_ends_a_tool_too() {
    let place = Place::new();
    let model = place.script(r#"call shell {"command": "echo $$ > pid; sleep 40"}"#);
    place.run(&["run", "-m", &model, "--timeout", "1", "go"]).exits(7);
    assert_eq!(place.all("tool/result")[0]["outcome"], "aborted");
    assert!(!std::path::Path::new(&format!("/proc/{}", place.read("pid").trim())).exists());
}

#[test]
fn read_only_refuses_what_changes() {
    let place = Place::new();
    place.file("old.txt", "old\n");
    let model = place.script(
        r#"
call write {"path": "new.txt", "content": "x"}
call edit {"path": "old.txt", "old": "old", "new": "changed"}
call shell {"command": "touch new.txt"}
call read {"path": "old.txt"}
---
say Refused.
"#,
    );
    place.ok(&["run", "-m", &model, "--permissions", "read-only", "go"]);
    assert!(!place.work().join("new.txt").exists());
    assert_eq!(place.read("old.txt"), "old\n");
    let mut results = place.all("tool/result");
    results.sort_by_key(|result| result["call"].as_str().map(str::to_owned));
    let outcomes: Vec<_> = results.iter().map(|r| r["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["denied", "denied", "denied", "ok"]);
    place.ok(&["verify", "latest"]);
}

#[test]
fn workspace_write_stays_in_the_workspace() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("x.txt");
    let arguments = serde_json::json!({"path": target, "content": "x"});
    let model = place.script(&format!("call write {arguments}\n---\nsay Done."));
    place.ok(&["run", "-m", &model, "go"]);
    assert!(!target.exists());
    place.ok(&["run", "-m", &model, "--permissions", "full", "go"]);
    assert!(target.exists());
}

#[test]
fn an_answer_cut_by_the_output_limit_exits_4() {
    let place = Place::new();
    let server = Server::start(|_, _| {
        let mut events = vec![crate::server::text("Once upon")];
        events.extend(crate::server::finish("length"));
        Reply::Stream(events)
    });
    let ran = place.run(&server.run(&["tell"])).exits(4).says("cut off by the output limit");
    assert_eq!(ran.text(), "Once upon\n");
    assert_eq!(place.reason()["type"], "max-tokens");
}

#[test]
fn the_environment_and_files_configure() {
    let place = Place::new();
    let server = Server::start(|_, _| plain(500, "text/plain", "no"));
    std::fs::create_dir_all(place.home()).unwrap();
    let config = format!(
        "model = \"mine/m\"\nmax_retries = 7\n[providers.mine]\nbase_url = \"{}\"\n",
        server
            .run(&[])
            .iter()
            .find_map(|w| w.strip_prefix("providers.test.base_url=").map(str::to_owned))
            .unwrap()
    );
    std::fs::write(place.home().join("config.toml"), config).unwrap();
    let mut command = place.command(&["run", "hi"]);
    command.env("TERRET_MAX_RETRIES", "0");
    Running::start(command).end().exits(1);
    assert_eq!(server.requests().len(), 1);
    let mut doctor = place.command(&["doctor", "--config", "--set", "max_steps=4"]);
    doctor.env("TERRET_MAX_RETRIES", "0");
    let told = Running::start(doctor).end().exits(0).text();
    for words in ["TERRET_MAX_RETRIES", "config.toml:1", "config.toml:4", "--set"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn a_terminal_verb_is_asked_for() {
    let place = Place::new();
    place.run::<&str>(&[]).exits(2).says("hint:");
    place.run(&["run", "--no-such-flag", "x"]).exits(2);
    place.run(&["frobnicate"]).exits(2);
    place.ok(&["--version"]);
    place.ok(&["schema"]);
}
