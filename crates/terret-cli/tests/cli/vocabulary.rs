//! Logs that hold more than this program knows: events of plugins that are not here, and what a newer terret wrote.

use serde_json::json;

use crate::chain;
use crate::place::Place;
use crate::server::{Reply, Server, says};

/// A session whose last lines are plugins' own.
fn with_plugin_events(place: &Place, server: &Server, events: &[(&str, &str)]) -> u64 {
    place.ok(&server.run(&["--session-id", "s", "hi"]));
    let mut log = String::from_utf8(place.bytes()).unwrap();
    let first = place.events().len() as u64;
    for (seq, (kind, rel)) in (first..).zip(events) {
        let line = format!(
            r#"{{"seq":{seq},"time":1796044883518,"type":"{kind}","rel":"{rel}","data":{{}},"crc":"00000000"}}"#
        );
        log.push_str(&format!("{line}\n"));
    }
    std::fs::write(place.log(), chain::with_checksums(&log)).unwrap();
    first
}

#[test]
fn what_a_plugin_that_is_not_here_left_for_readers_is_counted_and_passed_over() {
    let (place, server) = (Place::new(), Server::start(|_, _| Reply::Stream(says("hello"))));
    let looks = [("x/looks/seen", "view"), ("x/looks/seen", "view"), ("x/goal/met", "view")];
    with_plugin_events(&place, &server, &looks);
    let words = "3 events of plugins that are not here";
    place.ok(&["show", "s"]).says(&format!("note: {words}"));
    let shown = place.ok(&["sessions", "show", "s"]).text();
    assert!(shown.contains(&format!("skipped  {words}\n")) && !shown.contains("needs"), "{shown}");
    let listed: serde_json::Value = serde_json::from_slice(&place.ok(&["sessions", "--json"]).out).unwrap();
    let counts = json!({"goal": {"events": 1, "context": null}, "looks": {"events": 2, "context": null}});
    assert_eq!(listed["plugins"], counts);
    place.ok(&["verify", "s"]);
    place.ok(&server.run(&["-c", "go on"]));
    // What a plugin of every run writes is known here.
    let other = Place::new();
    with_plugin_events(&other, &server, &[("x/budget/seen", "view")]);
    assert_eq!(other.ok(&["show", "s"]).err, "");
}

#[test]
fn what_a_plugin_that_is_not_here_left_for_requests_can_be_read_and_not_gone_on_with() {
    let (place, server) = (Place::new(), Server::start(|_, _| Reply::Stream(says("hello"))));
    let at = with_plugin_events(&place, &server, &[("x/goal/set", "context"), ("x/notes/taken", "context")]);
    let (before, asked) = (place.bytes(), server.requests().len());
    let words = format!("event {at} needs plugin `goal`");
    for go_on in [&["-c", "more"][..], &["-r", "s", "more"], &["-c"], &["-c", "--fork", "more"]] {
        place.run(&server.run(go_on)).exits(5).says(&words).says("safe");
    }
    let hint = format!("@{}", at - 1);
    place.run(&["fork", "s"]).exits(5).says(&words).says(&hint);
    assert_eq!(place.bytes(), before);
    assert_eq!(server.requests().len(), asked, "no model was asked");
    for read in ["log", "show", "verify", "doctor"] {
        place.ok(&[read, place.log().to_str().unwrap()]);
    }
    let shown = place.ok(&["sessions", "show", "s"]).text();
    assert!(shown.contains(&format!("needs    plugin `goal`, from event {at} on")), "{shown}");
    place.ok(&["fork", &format!("s@{}", at - 1), "--id", "before"]);
    place.ok(&server.run(&["-r", "before", "more"]));
}

#[test]
fn what_a_newer_terret_wrote_is_read_only_and_every_verb_says_which_side_to_upgrade() {
    let server = Server::start(|_, _| Reply::Stream(says("hello")));
    for (from, to) in [
        ("\"format\":1", "\"format\":2"),
        ("turn/start", "turn/begin"),
        ("\"type\":\"turn/end\",", "\"type\":\"turn/end\",\"v\":2,"),
    ] {
        let place = Place::new();
        place.ok(&server.run(&["--session-id", "s", "hi"]));
        let changed = String::from_utf8(place.bytes()).unwrap().replacen(from, to, 1);
        std::fs::write(place.log(), chain::recomputed(&changed)).unwrap();
        let (before, asked) = (kept(&place), server.requests().len());
        let log = place.log().to_str().unwrap().to_owned();
        for verb in [
            &["log", "s"][..],
            &["log", "s", "--json"],
            &["log", "s", "--follow"],
            &["show", "s"],
            &["verify", "s"],
            &["verify", "--all"],
            &["fork", "s"],
            &["doctor"],
            &["doctor", &log],
            &["doctor", "--sessions"],
            &["run", "-m", "script:demo", "-r", "s", "more"],
            &["queue", "s"],
        ] {
            let ran = place.run(verb).exits(5);
            let said = ran.text() + &ran.err;
            assert!(said.contains("upgrade terret"), "{to}, {verb:?}: {said}");
            assert!(!said.contains("damage:") && !said.contains("damaged log"), "{to}, {verb:?}: {said}");
        }
        assert!(place.ok(&["sessions"]).text().contains("of a newer terret"), "{to}");
        assert!(place.ok(&["sessions", "show", "s"]).text().contains("upgrade terret"), "{to}");
        let listed: serde_json::Value =
            serde_json::from_slice(&place.ok(&["sessions", "--json"]).out).unwrap();
        assert_eq!(listed["state"], "newer");
        assert!((kept(&place), server.requests().len()) == (before, asked), "{to}");
    }
}

/// Every file but the note of who had the lock last.
fn kept(place: &Place) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    place.kept().into_iter().filter(|(path, _)| !path.ends_with("lock")).collect()
}
