//! `terret doctor` on logs: what is wrong, where, what to do; and the way on.

use std::path::{Path, PathBuf};

use crate::chain;
use crate::place::{Place, Ran, wait_until};

/// A home with a session `p` of two turns, which is at rest.
fn place() -> Place {
    let place = Place::new();
    let model =
        place.script("say One.\ncall shell {\"command\": \"echo out\"}\n---\nsay Two.\n---\nsay Three.");
    place.ok(&["run", "-m", &model, "--session-id", "p", "hi"]);
    place.ok(&["run", "-r", "p", "more"]);
    place
}

fn log(place: &Place, id: &str) -> PathBuf {
    place.home().join("sessions").join(id).join("log.jsonl")
}

fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|b| *b == b'\n').collect()
}

fn doctor(place: &Place, path: &Path) -> Ran {
    place.run(&["doctor".as_ref(), path.as_os_str()])
}

/// What it says under one label.
fn said<'a>(text: &'a str, label: &str) -> &'a str {
    let mut of = text.lines().filter_map(|line| line.trim_start().strip_prefix(label)?.strip_prefix("  "));
    of.next().unwrap_or_else(|| panic!("no `{label}`: {text}")).trim_start()
}

/// Does what it says is to be done.
fn follow(place: &Place, text: &str) -> Ran {
    let todo = said(text, "do").split_once("terret ").unwrap().1;
    place.ok(&todo.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn damage_is_told_with_its_place_and_both_sides_and_the_way_on_works() {
    let place = place();
    let log = log(&place, "p");
    let whole = std::fs::read(&log).unwrap();
    let lines = lines(&whole);
    let good = 12;
    let offset = lines[..=good].concat().len();
    let mut flipped = whole.clone();
    flipped[offset + 10] ^= 1;
    let without = [&lines[..=good], &lines[good + 2..]].concat().concat();
    let twice = [&lines[..=good], &lines[good..]].concat().concat();
    let cases = [
        ("flipped", flipped, "checksum ".to_owned(), "checksum ".to_owned()),
        ("removed", without, format!("seq {good}"), format!("seq {}", good + 1)),
        ("twice", twice, format!("seq {good}"), format!("seq {}", good - 1)),
    ];
    for (what, bytes, expected, found) in cases {
        std::fs::write(&log, &bytes).unwrap();
        let before = place.kept();
        let text = doctor(&place, &log).exits(5).text();
        assert!(text.starts_with(&format!("damaged  {}\n", log.display())), "{what}: {text}");
        let at = format!("line {}, offset {offset}, at seq {good}\n", good + 2);
        assert!(text.contains(&at), "{what}: {text}");
        assert!(said(&text, "expected").starts_with(&expected), "{what}: {text}");
        assert!(said(&text, "found").starts_with(&found), "{what}: {text}");
        assert_ne!(said(&text, "expected"), said(&text, "found"), "{what}");
        assert_eq!(said(&text, "intact"), format!("{good} events before it"), "{what}");
        // However it is named, it is the same log.
        for path in [log.parent().unwrap(), &place.home()] {
            let again = doctor(&place, path).exits(5).text();
            assert_eq!(again.matches("damaged  ").count(), 1, "{what}: {again}");
            assert!(again.contains(&at), "{what}: {again}");
        }
        assert_eq!(place.run(&["doctor", "--sessions"]).exits(5).text(), text, "{what}");
        assert_eq!(place.kept(), before, "{what}: looking changes nothing");

        let ran = follow(&place, &text);
        let id = ran.text().trim_end().to_owned();
        assert_eq!(ran.text(), format!("{id}\n"), "{what}: the id and nothing else");
        assert_eq!(std::fs::read(&log).unwrap(), bytes, "{what}: the damaged log is as it was");
        let path = log.parent().unwrap().with_file_name(&id).join("log.jsonl");
        let child = std::fs::read(&path).unwrap();
        let kept = lines[1..=good].concat();
        let start = self::lines(&child)[0].len();
        assert_eq!(child[start..start + kept.len()], kept, "{what}: every event before it");
        assert!(self::lines(&child)[good + 1].windows(13).any(|w| w == b"writer/opened"), "{what}");
        place.ok(&["verify", &id]);
        place.ok(&["run", "-r", &id, "go on"]);
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}

#[test]
fn a_torn_tail_is_no_damage() {
    let place = place();
    let log = log(&place, "p");
    let whole = std::fs::read(&log).unwrap();
    let lines = lines(&whole);
    let (events, offset) = (lines.len() - 2, whole.len() - lines[lines.len() - 1].len());
    std::fs::write(&log, &whole[..offset + 20]).unwrap();
    let before = place.kept();
    for path in [&log, log.parent().unwrap(), &place.home()] {
        let text = doctor(&place, path).exits(0).text();
        assert!(text.starts_with(&format!("torn     {}\n", log.display())), "{text}");
        let at = format!("line {}, offset {offset}, at seq {events}\n", events + 2);
        assert!(text.contains(&at) && said(&text, "found").contains("20 bytes"), "{text}");
    }
    let fork = ["doctor", log.to_str().unwrap(), "--fork-at-last-good"];
    place.run(&fork).exits(2).says("is not damaged").says("terret fork");
    assert_eq!(place.kept(), before, "looking changes nothing");
    place.ok(&["run", "-r", "p", "go on"]);
    let text = doctor(&place, &log).exits(0).text();
    assert!(text.starts_with("ok       "), "{text}");
}

#[test]
fn what_is_no_log_at_all_says_so_and_nothing_can_be_forked_from_it() {
    let place = place();
    let whole = std::fs::read(log(&place, "p")).unwrap();
    let mut headless = whole.clone();
    headless[2] ^= 1;
    let mut none_left = whole.clone();
    none_left[lines(&whole)[0].len() + 10] ^= 1;
    for (name, bytes, found) in [
        ("empty.jsonl", &b""[..], "the file is empty"),
        ("notes.txt", b"milk\neggs\n", "checksum"),
        ("cut.jsonl", &whole[..20], "the header line is cut"),
        ("headless.jsonl", &headless, "checksum"),
        ("none-left.jsonl", &none_left, "checksum"),
    ] {
        let path = place.file(name, "");
        std::fs::write(&path, bytes).unwrap();
        let text = doctor(&place, &path).exits(5).text();
        assert!(text.starts_with("damaged  ") && said(&text, "found").contains(found), "{name}: {text}");
        assert!(said(&text, "do").starts_with("look for a copy"), "{name}: {text}");
        let fork = ["doctor", path.to_str().unwrap(), "--fork-at-last-good"];
        let refused = place.run(&fork).exits(5).says("no event before that");
        assert_eq!(refused.out, b"", "{name}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
    }
    assert_eq!(place.logs().len(), 1, "nothing was made");
    // What a newer terret wrote is not damaged by anybody: it needs another reader.
    let newer = String::from_utf8(whole).unwrap().replacen("turn/start", "turn/begin", 1);
    let path = place.file("newer.jsonl", &chain::with_checksums(&newer));
    let text = doctor(&place, &path).exits(5).text();
    assert!(said(&text, "found").contains("turn/begin"), "{text}");
    assert!(said(&text, "do").contains("upgrade terret"), "{text}");
}

#[test]
fn one_bad_log_among_many_hides_no_other() {
    let place = place();
    for id in ["q", "r"] {
        place.ok(&["fork", "p", "--id", id]);
    }
    let bad = log(&place, "q");
    let mut bytes = std::fs::read(&bad).unwrap();
    bytes[900] ^= 1;
    std::fs::write(&bad, &bytes).unwrap();
    std::fs::create_dir_all(place.home().join("sessions/begun")).unwrap();
    let text = doctor(&place, &place.home()).exits(5).text();
    assert_eq!(text, place.run(&["doctor", "--sessions"]).exits(5).text());
    for (word, id) in [("ok", "p"), ("damaged", "q"), ("ok", "r"), ("empty", "begun")] {
        let line = format!("{word:<9}{}\n", log(&place, id).display());
        assert!(text.contains(&line), "{line} is missing: {text}");
    }
    assert!(text.ends_with("4 logs, 1 damaged\n"), "{text}");
    let some = ["doctor".into(), log(&place, "p"), log(&place, "r")];
    assert!(place.ok(&some).text().ends_with("2 logs, 0 damaged\n"));
    std::fs::remove_file(&bad).unwrap();
    std::fs::remove_dir_all(bad.parent().unwrap()).unwrap();
    place.ok(&["doctor", "--sessions"]);
}

#[test]
fn a_log_that_is_being_written_is_not_called_damaged_or_torn() {
    let place = Place::new();
    let model = place.script(
        "call shell {\"command\": \"touch began; while ! test -e go; do sleep 0.02; done\"}\n---\nsay Done.",
    );
    let running = place.start(&["run", "-m", &model, "--session-id", "p", "one"]);
    wait_until("the tool runs", || place.work().join("began").exists());
    let text = doctor(&place, &log(&place, "p")).exits(0).text();
    assert!(text.contains(&format!("open in process {}", running.pid())), "{text}");
    place.file("go", "");
    running.end().exits(0);
}

#[test]
fn what_cannot_be_looked_at_says_what_can_be_typed() {
    let place = place();
    let home = place.home();
    place.run(&["doctor", "nowhere"]).exits(2).says("there is no `nowhere`").says("--sessions");
    let work = place.work();
    doctor(&place, &work).exits(2).says("holds no sessions");
    place.run(&["doctor", "--fork-at-last-good"]).exits(2);
    place.run(&["doctor", home.to_str().unwrap(), "--config"]).exits(2);
    place.run(&["doctor", home.to_str().unwrap(), "--sessions"]).exits(2);
    place.ok(&["fork", "p", "--id", "q"]);
    place.run(&["doctor", home.to_str().unwrap(), "--fork-at-last-good"]).exits(2).says("takes one log");
}

/// A byte that rots changes no time of the file, and may be one that nobody needs any more: the doctor looks at it all
/// the same.
#[test]
fn a_byte_that_rots_where_nobody_looks_any_more_is_found() {
    let place = place();
    let log = log(&place, "p");
    let (mut bytes, then) = (std::fs::read(&log).unwrap(), log.metadata().unwrap().modified().unwrap());
    let kind = br#""type":"assistant/chunk""#;
    let at = bytes.windows(kind.len()).position(|w| w == kind).unwrap() + kind.len() + 30;
    bytes[at] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    std::fs::File::options().write(true).open(&log).unwrap().set_modified(then).unwrap();
    assert!(place.run(&["doctor", "--sessions"]).exits(5).text().contains("damaged"));
    doctor(&place, &log).exits(5);
    assert!(place.run(&["doctor"]).text().contains("damaged"));
    place.run(&["verify", "p"]).exits(5);
    // Nothing that is needed is wrong: the session goes on.
    place.ok(&["run", "-r", "p", "on"]);
}
