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
    assert!(text.contains("session/event            budget → repeat"), "{text}");
    let quiet =
        ["guards", "agent/turn-stopping", "tools/result", "agent/status", "agent/error", "agent/inbox"];
    for seam in quiet {
        assert!(text.lines().any(|line| line.split_whitespace().eq([seam, "-"])), "{seam}: {text}");
    }
}
