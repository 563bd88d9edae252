//! `terret queue`: what waits is listed, let go and taken off, and no model is asked.

use crate::place::Place;

/// A session whose last writer died right behind the acceptance of its prompt.
fn waiting() -> (Place, String) {
    let place = Place::new();
    let model = place.script("say Read at last.");
    place.ok(&["run", "-m", &model, "--session-id", "q", "please wait"]);
    let log = place.bytes();
    let kept: Vec<u8> = log.split_inclusive(|b| *b == b'\n').take(3).flatten().copied().collect();
    std::fs::write(place.log(), kept).unwrap();
    let id = place.all("inbox/added")[0]["message"]["id"].as_str().unwrap().to_owned();
    (place, id)
}

#[test]
fn what_waits_is_listed_and_nothing_is_changed() {
    let (place, id) = waiting();
    let before = place.bytes();
    let ran = place.ok(&["queue", "q"]);
    assert!(ran.text().contains(&id) && ran.text().contains("please wait"), "{}", ran.text());
    assert!(place.ok(&["queue", "q", "--json"]).text().contains("\"lane\":\"next-turn\""));
    assert_eq!(place.bytes(), before);
}

#[test]
fn sessions_says_who_rests_and_who_has_something_waiting() {
    let (place, _) = waiting();
    place.ok(&["run", "-m", "script:demo", "--session-id", "rests", "hi"]);
    let listed = place.ok(&["sessions"]).text();
    let line = |id: &str| listed.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(line("q ").contains("parked (1 waiting)") && line("rests ").contains(" idle "), "{listed}");
}

#[test]
fn a_message_taken_off_is_gone_and_one_let_go_is_read_by_the_next_run() {
    let (place, id) = waiting();
    place.run(&["queue", "q", "--rm", "no-such"]).exits(2).says(&id);
    place.ok(&["queue", "q", "--release", &id]).says("released");
    assert_eq!(place.all("turn/start").len(), 0, "no turn starts");
    assert_eq!(
        place.ok(&["run", "-r", "q", "-m", &place.script("say Read at last.")]).text(),
        "Read at last.\n"
    );

    let (place, id) = waiting();
    place.ok(&["queue", "q", "--rm", &id[..13]]).says("removed");
    assert_eq!(place.ok(&["queue", "q"]).text(), "");
    place.ok(&["verify", "q"]);
}

#[test]
fn doctor_prints_where_plugins_stand() {
    let place = Place::new();
    let text = place.ok(&["doctor", "--plugins"]).text();
    assert!(text.contains("budget → retry → repeat"), "{text}");
    assert!(text.contains("agent/request-error      retry"), "{text}");
    assert!(text.contains("llm/stream               budget\n"), "{text}");
    assert!(text.contains("session/event            budget → budget → repeat"), "{text}");
    let quiet =
        ["guards", "agent/turn-stopping", "tools/result", "agent/status", "agent/error", "agent/inbox"];
    for seam in quiet {
        assert!(text.lines().any(|line| line.split_whitespace().eq([seam, "-"])), "{seam}: {text}");
    }
}

#[test]
fn without_a_model_nothing_of_the_queue_is_used_up() {
    let (place, id) = waiting();
    place.run(&["run", "-r", "q"]).exits(2).says("no model was chosen").says("terret run -r q -m");
    assert!(place.ok(&["queue", "q"]).text().contains(&id), "it still waits");
    assert_eq!(place.all("inbox/claimed").len(), 0);
}

#[test]
fn what_to_run_next_names_the_model_until_the_log_does() {
    let place = Place::new();
    let model = place.script("say Yes.");
    let early = place.run(&["run", "-m", &model, "--session-id", "early", "--max-steps", "0", "hi"]);
    early.exits(7).says("go on with: terret run -r early -m script:").says("messages are parked");
    let second = place.run(&["run", "-r", "early", "-m", &model, "--max-steps", "0", "more"]);
    second.exits(7).says("messages are held; only a run without a prompt reads them");
    place.ok(&["run", "-r", "early", "-m", &model]).says("go on with: terret run -r early \"");
}

#[test]
fn that_the_last_turn_failed_is_said_when_nothing_is_left() {
    let place = Place::new();
    let model = place.script("fail AUTH no key");
    place.run(&["run", "-m", &model, "hi"]).exits(1);
    place
        .ok(&["run", "-c"])
        .says("nothing was left to do")
        .says("the last turn ended: failed: no key [AUTH]");
}

#[test]
fn a_whole_name_means_that_session_begun_or_not() {
    let place = Place::new();
    place.ok(&["run", "-m", "script:demo", "--session-id", "one-more", "hi"]);
    std::fs::create_dir(place.home().join("sessions/one")).unwrap();
    let ran = place.run(&["verify", "one"]);
    assert!(ran.code != 0 && !ran.err.contains("fits"), "{}", ran.err);
}
