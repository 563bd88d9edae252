//! Who may write a session: one process, and only while it lives.

use std::time::{Duration, Instant};

use crate::place::{Place, wait_until};

/// Two processes want one session. The second is refused at once and told who has it, and may read; a dead owner is
/// no owner, nor is a process that merely has its number; a stopped one stays the owner.
#[test]
fn case_088_the_second_writer_is_refused_as_long_as_the_first_lives() {
    let place = Place::new();
    let wait = |name: &str| {
        format!("call shell {{\"command\": \"touch began-{name}; while ! test -e go; do sleep 0.02; done\"}}")
    };
    let script = format!("{}\n---\n{}\n---\nsay Done.\n---\nsay More.", wait("one"), wait("two"));
    let model = place.script(&script);
    let began = |name: &str| place.work().join(format!("began-{name}")).exists();
    let refused = |pid: u32| {
        let (since, before) = (Instant::now(), place.bytes());
        place.run(&["run", "-m", &model, "-r", "p", "no"]).exits(6).says(&format!("pid {pid}"));
        assert!(since.elapsed() < Duration::from_secs(10), "at once");
        assert_eq!(place.bytes(), before, "nothing was written");
        place.ok(&["show", "p"]);
        place.ok(&["log", "p"]);
    };

    let mut first = place.start(&["run", "-m", &model, "--session-id", "p", "one"]);
    wait_until("the first tool runs", || began("one"));
    refused(first.pid());
    first.kill();

    let second = place.start(&["run", "-m", &model, "-r", "p", "two"]);
    wait_until("the second tool runs", || began("two"));
    second.signal("STOP");
    refused(second.pid());
    second.signal("CONT");
    place.file("go", "");
    let pid = second.pid();
    assert_eq!(second.end().exits(0).text(), "Done.\n");

    // The owner's number now belongs to a process that lives: this one.
    let lock = place.log().with_file_name("lock");
    let note = std::fs::read_to_string(&lock).unwrap();
    let reused = note.replace(&format!("\"pid\":{pid},"), &format!("\"pid\":{},", std::process::id()));
    assert_ne!(reused, note);
    std::fs::write(&lock, reused).unwrap();
    assert_eq!(place.ok(&["run", "-m", &model, "-r", "p", "three"]).text(), "More.\n");
    // Every seq once, and every line behind the one it was written behind.
    place.ok(&["verify", "p"]);
    assert_eq!(place.all("writer/opened").len(), 3);
}
