//! Configuration that is wrong, that is outvoted by a log, and rules that are read from a project.

use crate::place::{Place, Running, contains, id_of};
use crate::server::{Reply, Server, says};

#[test]
fn doctor_tells_of_bad_configuration_and_goes_on() {
    let place = Place::new();
    place.ok(&["run", "-m", "script:demo", "hi"]);
    std::fs::write(place.home().join("config.toml"), "\nmodle = \"a/b\"\n").unwrap();
    let refused =
        place.run(&["run", "-c", "hi"]).exits(2).says("config.toml:2").says("terret doctor --config");
    assert!(refused.err.contains("did you mean `model`?"), "{}", refused.err);
    // What the hint says can be typed, and helps.
    for args in [&["doctor", "--config"][..], &["doctor"]] {
        let mut command = place.command(args);
        command.env("TERRET_MAX_STEPS", "few").env("TERRET_TIMEOUT_S", "7");
        let text = Running::start(command).end().exits(2).text();
        assert!(text.contains("wrong: unknown key `modle` ("), "{text}");
        assert!(text.contains("config.toml:2"), "{text}");
        assert!(
            text.contains("TERRET_MAX_STEPS") && text.contains("timeout_s = 7  (TERRET_TIMEOUT_S)"),
            "{text}"
        );
        assert_eq!(text.contains("1 sessions"), args.len() == 1, "{text}");
    }
    std::fs::remove_file(place.home().join("config.toml")).unwrap();
    std::fs::create_dir(place.home().join("config.toml")).unwrap();
    assert!(place.run(&["doctor"]).exits(2).text().contains("wrong: cannot read"));
}

#[test]
fn what_a_log_says_counts_more_than_what_is_configured() {
    let place = Place::new();
    let model = place.script("say One.\n---\nsay Two.\n---\nsay Three.");
    place.ok(&["run", "-m", &model, "hi"]);
    let with_default = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("TERRET_MODEL", "openai/gpt-5");
        Running::start(command).end()
    };
    assert_eq!(with_default(&["run", "-c", "more"]).exits(0).text(), "Two.\n");
    assert_eq!(with_default(&["run", "-r", "latest", "more"]).exits(0).text(), "Three.\n");
    // A new session, or a model that is asked for, is checked before anything is begun.
    let before = place.bytes();
    with_default(&["run", "hi"]).exits(2).says("OPENAI_API_KEY");
    place.run(&["run", "-c", "-m", "deepseek/x", "hi"]).exits(2).says("DEEPSEEK_API_KEY");
    assert_eq!(place.bytes(), before);
}

#[test]
fn a_logged_model_that_cannot_be_asked_is_said_before_the_prompt_is_taken() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("ok")));
    place.ok(&server.run(&["hi"]));
    let before = place.bytes();
    place.run(&["run", "-c", "more"]).exits(2).says("`test`");
    assert_eq!(place.bytes(), before);
}

#[test]
fn an_id_that_no_address_can_name_is_refused() {
    let place = Place::new();
    for id in ["latest", "a.jsonl", ".jsonl"] {
        place.run(&["run", "-m", "script:demo", "--session-id", id, "hi"]).exits(2).says(&format!("`{id}`"));
    }
    assert!(place.logs().is_empty());
}

#[test]
fn a_newer_session_that_cannot_be_read_is_not_passed_over_in_silence() {
    let place = Place::new();
    let model = place.script("say Yes.\n---\nsay Yes.\n---\nsay Yes.");
    for id in ["older", "newer"] {
        place.ok(&["run", "-m", &model, "--session-id", id, "hi"]);
    }
    let log = place.logs().into_iter().find(|log| id_of(log) == "newer").unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[5] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let name = log.to_str().unwrap();
    place.ok(&["show", "latest"]).says("warning:").says(name);
    let ran = place.ok(&["run", "-c", "more"]).says("warning:").says(name);
    assert!(ran.err.starts_with("session older"), "{}", ran.err);
    // Now the readable one is the newest: nothing is passed over.
    assert!(!place.ok(&["run", "-c", "again"]).err.contains("warning"));
    assert_eq!(place.ok(&["show", "latest"]).err, "");
}

/// What the model was told of rules.
fn rules(place: &Place) -> String {
    let server = Server::start(|_, _| Reply::Stream(says("ok")));
    place.ok(&server.run(&["hi"]));
    assert!(contains(&server.requests()[0].body, b"environment"));
    let messages = server.requests()[0].json()["messages"].to_string();
    messages.split("<instructions").skip(1).collect()
}

#[test]
fn rules_come_from_the_repository_or_from_the_directory_alone() {
    let place = Place::new();
    let above = place.work().parent().unwrap().join("AGENTS.md");
    std::fs::write(&above, "Rules of somebody else.").unwrap();
    assert_eq!(rules(&place), "", "no repository: what lies above is not ours");
    place.file("AGENTS.md", "Rules of this place.");
    let told = rules(&place);
    assert!(told.contains("Rules of this place.") && !told.contains("somebody else"), "{told}");
    std::fs::create_dir(above.with_file_name(".git")).unwrap();
    let told = rules(&place);
    assert!(told.find("somebody else").unwrap() < told.find("Rules of this place.").unwrap(), "{told}");
}

#[test]
fn rules_that_cannot_be_read_are_named() {
    let place = Place::new();
    let path = place.work().join("AGENTS.md");
    std::os::unix::fs::symlink("AGENTS.md", &path).unwrap();
    let told = rules(&place);
    assert!(told.contains("cannot be read") && told.contains(path.to_str().unwrap()), "{told}");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(rules(&place).contains("it is not a file"));
}

#[test]
fn doctor_says_where_nothing_can_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let locked = "(cannot be written)";
    assert!(!place.ok(&["doctor"]).text().contains(locked));
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::set_permissions(place.home(), PermissionsExt::from_mode(0o500)).unwrap();
    // Nothing is locked to root.
    let is_root = std::fs::write(place.home().join("x"), "").is_ok();
    assert_eq!(place.ok(&["doctor"]).text().contains(locked), !is_root);
    std::fs::set_permissions(place.home(), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_server_that_differs_from_its_row_is_told_of_in_configuration() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("ok")));
    let config = "[providers.test]\ndialect = \"vllm\"\n[providers.test.quirks]\nstore = true\nrenamed = [\"cache_key=k\"]\n";
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::write(place.home().join("config.toml"), config).unwrap();
    place.ok(&server.run(&["hi"]));
    let body = server.requests()[0].json();
    assert_eq!(body["store"], false, "{body}");
    // The effective row is in the log, so that the body is proven without this configuration.
    std::fs::remove_file(place.home().join("config.toml")).unwrap();
    place.ok(&["verify", "latest"]);
    let log = place.ok(&["log", "latest", "--json", "--type", "request/header"]).text();
    assert!(log.contains(r#""name":"vllm""#) && log.contains(r#""store":true"#), "{log}");

    std::fs::write(place.home().join("config.toml"), config).unwrap();
    let told = place
        .ok(&["doctor", "--provider", "test", "--set", "providers.test.base_url=http://me:pw@a/v1"])
        .text();
    assert!(told.contains("server    http://a/v1\n"), "{told}");
    assert!(told.contains("key       none needed\n"), "{told}");
    let line =
        |name: &str| told.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or("").to_owned();
    assert!(line("store").contains("true  (") && line("store").ends_with("config.toml:4)"), "{told}");
    assert!(line("name").ends_with(r#""vllm""#), "{told}");
    place.run(&["doctor", "--provider", "nobody"]).exits(2).says("no provider `nobody`");
    let wrong = ["doctor", "--provider", "deepseek", "--set", "providers.deepseek.quirks.stor=x"];
    place.run(&wrong).exits(2).says("did you mean `store`?");
    let of_model = place.ok(&["doctor", "--provider", "deepseek/deepseek-reasoner"]).text();
    assert!(of_model.contains("dialect for deepseek-reasoner"), "{of_model}");
    assert!(of_model.contains("DEEPSEEK_API_KEY is not set, sent as `authorization`"), "{of_model}");
    // A parameter the server refuses is refused before anything is sent.
    let sent = server.requests().len();
    let mut refusing = server.run(&["hi"]);
    refusing.extend(["--set", "providers.test.quirks.refused=cache_key"].map(String::from));
    place.run(&refusing).says("test takes no `cache_key`");
    assert_eq!(server.requests().len(), sent);
}

#[test]
fn a_key_in_the_wrong_place_is_not_shown_and_a_query_stays_behind_the_path() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Plain { status: 404, headers: vec![], body: String::new() });
    let mut asked = server.run(&["hi"]);
    let base = asked.iter_mut().find(|word| word.contains(".base_url=")).unwrap();
    base.push_str("?api-version=2&key=secret-77");
    let ran = place.run(&asked).exits(1);
    assert!(
        server.requests()[0].head.contains("/chat/completions?api-version=2&key=secret-77 "),
        "{}",
        server.requests()[0].head
    );
    assert!(ran.err.contains("?api-version=***&key=***") && !ran.err.contains("secret-77"), "{}", ran.err);
    let log = place.ok(&["log", "latest", "--json"]).text();
    assert!(!log.contains("secret-77"));

    let wrong = ["doctor", "--provider", "openai", "--set", "providers.openai.api_key_env=sk-secret-88"];
    let told = place.run(&wrong).exits(2).says("no name of a variable");
    assert!(!told.err.contains("sk-secret-88"), "{}", told.err);
}
