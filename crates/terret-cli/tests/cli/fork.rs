//! `terret fork` and `terret run --fork`: a session goes on twice, and neither knows of the other.

use crate::place::{Place, contains, wait_until};

const SCRIPT: &str = "say Let me look.\ncall shell {\"command\": \"echo seen\"}\n---\nfail SERVER once\nsay First.\n---\nsay Second.\n---\nsay Third.";

/// A session `p` of two turns; the first has two steps, its second two attempts.
fn place() -> (Place, String) {
    let place = Place::new();
    let model = place.script(SCRIPT);
    place.ok(&["run", "-m", &model, "--session-id", "p", "one"]);
    place.ok(&["run", "-m", &model, "-r", "p", "two"]);
    (place, model)
}

fn log(place: &Place, id: &str) -> Vec<u8> {
    std::fs::read(place.home().join("sessions").join(id).join("log.jsonl")).unwrap()
}

fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|b| *b == b'\n').collect()
}

/// How many lines two logs share behind their headers.
fn shared(a: &[u8], b: &[u8]) -> usize {
    lines(a)[1..].iter().zip(&lines(b)[1..]).take_while(|(a, b)| a == b).count()
}

/// Seqs of a session's events of one type.
fn seqs(place: &Place, id: &str, kind: &str) -> Vec<usize> {
    let text = place.ok(&["log", id, "--type", kind]).text();
    text.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_fork_prints_its_id_is_proven_and_goes_on_by_itself() {
    let (place, model) = place();
    let before = log(&place, "p");
    let ran = place.ok(&["fork", "p"]).says("forked from p behind event").says("go on with: terret run -r ");
    let id = ran.text().trim_end().to_owned();
    assert!(ran.text().ends_with('\n') && !id.contains('\n'), "{}", ran.text());
    assert_eq!(shared(&before, &log(&place, &id)), lines(&before).len() - 1, "all of it");
    place.ok(&["verify", &id]).says("");
    assert_eq!(place.ok(&["run", "-m", &model, "-r", &id, "three"]).text(), "Third.\n");
    place.ok(&["verify", "--all"]);
    assert_eq!(log(&place, "p"), before, "the parent is as it was");

    // It is named where people look, and stands alone.
    let from = format!("forked from p behind event {}", lines(&before).len() - 2);
    assert!(place.ok(&["sessions", "show", &id]).text().contains(&format!("parent   {from}\n")));
    let shown = place.ok(&["show", &id]).text();
    assert!(shown.find("> two").unwrap() < shown.find(&from).unwrap(), "{shown}");
    assert!(shown.find(&from).unwrap() < shown.find("> three").unwrap(), "{shown}");
    assert!(place.ok(&["sessions", "--json"]).text().contains("\"parent\":{\"h\":\""));
    place.ok(&["sessions", "rm", "p"]);
    place.ok(&["verify", &id]);
    place.ok(&["show", &id]);
}

#[test]
fn a_point_is_taken_along_and_nothing_behind_it() {
    let (place, _) = place();
    let before = log(&place, "p");
    let (steps, turns) = (seqs(&place, "p", "step/end"), seqs(&place, "p", "turn/end"));
    let retry = seqs(&place, "p", "request/retry")[0];
    let points = [
        ("7", 7, "a seq"),
        ("1.1", steps[0], "a step that others follow"),
        ("1.2", turns[0], "the last step of a turn"),
        ("1.2#1", retry, "an attempt that was made again"),
        ("1.2#2", turns[0], "the last attempt"),
        ("2.1", turns[1], "the last turn"),
    ];
    for (n, (point, last, what)) in points.into_iter().enumerate() {
        let id = format!("at-{n}");
        let made = place.ok(&["fork", &format!("p@{point}"), "--id", &id]);
        assert_eq!(made.text(), format!("{id}\n"), "{what}");
        made.says(&format!("behind event {last} "));
        assert_eq!(shared(&before, &log(&place, &id)), last + 1, "{what}");
        place.ok(&["verify", &id]);
    }
    assert_eq!(log(&place, "p"), before);
}

#[test]
fn a_run_that_forks_prints_what_it_wrote_and_leaves_the_other_session_alone() {
    let (place, model) = place();
    let before = log(&place, "p");
    for address in [&["-r", "p@1.1"][..], &["-c"]] {
        let ran = place.ok(&[&["run", "-m", &model, "--fork", "--json", "and now?"], address].concat());
        let header: serde_json::Value = serde_json::from_slice(lines(&ran.out)[0]).unwrap();
        let (id, seq) = (header["id"].as_str().unwrap(), header["parent"]["seq"].as_u64().unwrap());
        let stored = place.ok(&["log", id, "--json", "--from", &(seq + 1).to_string()]).out;
        assert_eq!(String::from_utf8_lossy(&ran.out), String::from_utf8_lossy(&stored));
        assert!(contains(&stored, b"and now?"));
        ran.says(&format!("behind event {seq}"));
    }
    assert_eq!(log(&place, "p"), before);
    place.ok(&["verify", "--all"]);
}

#[test]
fn a_running_session_is_forked_while_its_tool_works() {
    let place = Place::new();
    let script = "call shell {\"command\": \"touch began; while ! test -e go; do sleep 0.02; done; echo x >> ran\"}\n---\nsay Done.\n---\nsay More.";
    let model = place.script(script);
    let running = place.start(&["run", "-m", &model, "--session-id", "p", "one"]);
    wait_until("the tool runs", || place.work().join("began").exists());
    place.run(&["run", "-r", "p", "-m", &model, "two"]).exits(6).says("branch with `terret fork p`");
    place.ok(&["fork", "p", "--id", "c"]);
    let child = log(&place, "c");
    assert!(place.ok(&["show", "c"]).text().contains("unknown"));
    assert_eq!(place.ok(&["run", "-r", "c", "-m", &model, "two"]).text(), "Done.\n");
    assert_eq!(place.read("ran"), "", "the tool runs for the parent, and still does");
    place.file("go", "");
    assert_eq!(running.end().exits(0).text(), "Done.\n");
    assert_eq!(place.read("ran"), "x\n", "once");
    let parent = log(&place, "p");
    assert!(shared(&parent, &child) < lines(&parent).len() - 1);
    place.ok(&["verify", "--all"]);
}

#[test]
fn a_file_from_elsewhere_is_forked_into_the_store() {
    let (place, model) = place();
    let mailed = place.work().join("mailed.jsonl");
    std::fs::rename(place.home().join("sessions/p/log.jsonl"), &mailed).unwrap();
    std::fs::remove_dir_all(place.home().join("sessions/p")).unwrap();
    let before = std::fs::read(&mailed).unwrap();
    place.ok(&["fork", "mailed.jsonl", "--id", "mine"]);
    assert_eq!(place.ok(&["run", "-m", &model, "-r", "mine", "three"]).text(), "Third.\n");
    assert_eq!(
        place.ok(&["run", "-m", &model, "-r", "./mailed.jsonl@1.1", "--fork", "x"]).text(),
        "First.\n"
    );
    assert_eq!(std::fs::read(&mailed).unwrap(), before);
    place.run(&["run", "-m", &model, "-r", "./mailed.jsonl", "x"]).exits(2).says("read or forked");
}

#[test]
fn what_cannot_be_forked_says_what_can_be_typed() {
    let (place, model) = place();
    let whole = log(&place, "p");
    let last = lines(&whole).len() - 2;
    place.run(&["fork", "p@999"]).exits(2).says(&format!("last event {last}"));
    place.run(&["fork", "p@9.1"]).exits(2).says("names no step");
    place.run(&["fork", "p@-1"]).exits(2);
    place.run(&["fork", "p@1.5.2"]).exits(2);
    place.run(&["fork", "nobody"]).exits(2).says("terret sessions");
    place.run(&["fork", "p", "--id", "p"]).exits(2).says("exists already");
    place.run(&["fork", "p", "--id", "latest"]).exits(2).says("cannot be the id");
    place.run(&["run", "-m", &model, "--fork", "x"]).exits(2).says("terret run -c --fork");
    place.run(&["run", "-m", &model, "-r", "p@1.1", "x"]).exits(2).says("terret run -r p@1.1 --fork");
    place.run(&["run", "-m", &model, "-c", "--fork", "--resume-turn", "x"]).exits(2);
    assert_eq!(place.logs().len(), 1, "nothing was made");

    let path = place.home().join("sessions/p/log.jsonl");
    let mut damaged = whole.clone();
    damaged[lines(&whole)[..21].concat().len() + 20] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let refused = place.run(&["fork", "p"]).exits(5);
    let hint = refused
        .err
        .lines()
        .find_map(|line| line.strip_prefix("hint: go on before it: terret "))
        .unwrap()
        .to_owned();
    assert!(hint.ends_with("log.jsonl@19"), "{hint}");
    let words: Vec<&str> = hint.split_whitespace().collect();
    let id = place.ok(&words).text().trim_end().to_owned();
    assert_eq!(shared(&whole, &log(&place, &id)), 20);
    place.ok(&["verify", &id]);
    place.ok(&["run", "-m", &model, "-r", &id, "go on"]);
    assert_eq!(std::fs::read(&path).unwrap(), damaged);
}
