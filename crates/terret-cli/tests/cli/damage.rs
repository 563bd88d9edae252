//! Logs that were torn, changed, or carried elsewhere.

use std::io::Write;
use std::process::Command;

use crate::chain;
use crate::place::{Place, Ran, id_of, wait_until};

/// A session of two finished turns.
fn session() -> Place {
    let place = Place::new();
    let model =
        place.script("say One.\ncall shell {\"command\": \"echo out\"}\n---\nsay Two.\n---\nsay Three.");
    place.ok(&["run", "-m", &model, "hi"]);
    place.ok(&["run", "-c", "more"]);
    place
}

fn torn_files(place: &Place) -> Vec<Vec<u8>> {
    let dir = place.log().parent().unwrap().to_owned();
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let torn = entries.filter(|e| e.file_name().to_string_lossy().starts_with("torn-"));
    torn.map(|e| std::fs::read(e.path()).unwrap()).collect()
}

#[test]
fn a_file_carried_elsewhere_can_be_read() {
    let place = session();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(place.log(), elsewhere.path().join("from a colleague.jsonl")).unwrap();
    let run = |args: &[&str]| -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terret"));
        let out = command.args(args).env_clear().current_dir(elsewhere.path()).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        Ran { code: out.status.code().unwrap_or(-1), out: out.stdout, err }.exits(0)
    };
    assert_eq!(run(&["show", "from a colleague.jsonl"]).text(), place.ok(&["show", "latest"]).text());
    assert_eq!(run(&["log", "from a colleague.jsonl", "--json"]).out, place.bytes());
    assert!(run(&["verify", "./from a colleague.jsonl"]).text().starts_with("OK "));
    let body = run(&["show", "from a colleague.jsonl@2.1", "--request"]).text();
    assert!(serde_json::from_str::<serde_json::Value>(&body).unwrap()["messages"].is_array(), "{body}");
    // What lies beside it was not touched, and nothing was made.
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[test]
fn a_torn_line_is_warned_about_kept_and_then_gone() {
    let place = session();
    let whole = place.bytes();
    let start = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for cut in [start + 1, start + 9, whole.len() - 2] {
        std::fs::write(place.log(), &whole[..cut]).unwrap();
        for verb in [&["show", "latest"][..], &["log", "latest"], &["log", "latest", "--json"]] {
            place.ok(verb).says(&format!("the last {} bytes are a torn line", cut - start));
        }
        let verified = place.run(&["verify", "latest"]).exits(5).text();
        assert!(verified.contains("torn tail") && !verified.contains("damage"), "{verified}");
        assert!(place.ok(&["sessions"]).text().contains(&format!("torn tail ({} bytes)", cut - start)));
        assert_eq!(place.bytes(), &whole[..cut], "readers change nothing");
        assert!(torn_files(&place).is_empty());

        let ran = place
            .ok(&["run", "-c", "go on"])
            .says(&format!("set {} bytes of a torn line aside", cut - start));
        assert!(ran.err.starts_with("session "), "{}", ran.err);
        assert!(place.bytes().starts_with(&whole[..start]));
        assert_eq!(torn_files(&place), [&whole[start..cut]]);
        assert_eq!(place.all("writer/opened").last().unwrap()["cut_bytes"], cut - start);
        assert_eq!(place.ok(&["show", "latest"]).err, "");
        place.ok(&["verify", "latest"]);
        assert!(!place.ok(&["run", "-c", "again"]).err.contains("torn"));
        for entry in std::fs::read_dir(place.log().parent().unwrap()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("torn-") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

#[test]
fn a_missing_last_newline_is_put_back() {
    let place = session();
    let whole = place.bytes();
    std::fs::write(place.log(), &whole[..whole.len() - 1]).unwrap();
    place.ok(&["show", "latest"]);
    assert_eq!(place.bytes().len(), whole.len() - 1);
    place.ok(&["run", "-c", "go on"]);
    assert!(place.bytes().starts_with(&whole));
    assert!(torn_files(&place).is_empty());
    place.ok(&["verify", "latest"]);
    // Another byte in its place is damage, not a cut.
    let mut other = whole.clone();
    *other.last_mut().unwrap() = b'\r';
    std::fs::write(place.log(), &other).unwrap();
    place.run(&["run", "-c", "go on"]).exits(5);
    assert_eq!(place.bytes(), other);
}

#[test]
fn damage_in_the_middle_stops_writers_and_hides_nothing_else() {
    let place = session();
    let model = place.script("say Other.");
    place.ok(&["run", "-m", &model, "--cwd", "/", "--session-id", "other", "hi"]);
    let log = place.logs().into_iter().find(|log| id_of(log) != "other").unwrap();
    let id = id_of(&log);
    let whole = std::fs::read(&log).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    let middle = lines.len() / 2;
    let without = [&lines[..middle], &lines[middle + 1..]].concat().concat();
    let mut flipped = whole.clone();
    let at = lines[..middle].concat().len() + 10;
    flipped[at] ^= 1;
    let twice = [&lines[..=middle], &lines[middle..]].concat().concat();
    for (what, bytes, line) in
        [("flipped", flipped, middle), ("removed", without, middle), ("twice", twice, middle + 1)]
    {
        std::fs::write(&log, &bytes).unwrap();
        let said = format!("line {}", line + 1);
        place
            .run(&["run", "-r", &id, "go on"])
            .exits(5)
            .says("error:")
            .says(&said)
            .says(&format!("seq {}", line - 1));
        place.run(&["run", "-c", "go on"]).exits(5);
        place.run(&["show", &id]).exits(5).says(&said);
        let verified = place.run(&["verify", &id]).exits(5).text();
        assert!(verified.contains(&format!("damage: {said}, ")), "{what}: {verified}");
        assert!(verified.contains(&format!("at seq {}:", line - 1)), "{what}: {verified}");
        assert_eq!(std::fs::read(&log).unwrap(), bytes, "{what}: the file is as it was");
        assert!(torn_files_of(&log).is_empty());
        // The list and the other session are there all the same.
        let listed = place.ok(&["sessions"]).text();
        assert!(listed.contains("damaged  ") && listed.contains("other"), "{listed}");
        assert!(!listed.contains("line "), "the table stays a table: {listed}");
        assert!(place.ok(&["sessions", "show", &id]).text().contains(&said));
        assert!(place.run(&["doctor"]).exits(5).text().contains(&said));
        place.ok(&["verify", "other"]);
        place.run(&["verify", "--all"]).exits(5);
    }
    std::fs::write(&log, &whole).unwrap();
    place.ok(&["verify", "--all"]);
}

fn torn_files_of(log: &std::path::Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(log.parent().unwrap()).unwrap().flatten().map(|e| e.file_name());
    entries.filter(|name| name.to_string_lossy().starts_with("torn-")).collect()
}

#[test]
fn a_changed_line_with_a_new_checksum_breaks_the_chain() {
    let place = session();
    let text = String::from_utf8(place.bytes()).unwrap();
    let changed = text.replacen("\"text\":\"hi\"", "\"text\":\"ho\"", 1);
    assert_ne!(changed, text);
    std::fs::write(place.log(), chain::with_checksums(&changed)).unwrap();
    let verified = place.run(&["verify", "latest"]).exits(5).text();
    assert!(verified.contains("damage: line 3,"), "{verified}");
    place.run(&["run", "-c", "go on"]).exits(5);
}

#[test]
fn what_is_no_log_is_refused() {
    let place = session();
    let file = place.file("notes.jsonl", "{\"type\":\"something\"}\n");
    let newer = place.file("newer.jsonl", "");
    let text = String::from_utf8(place.bytes()).unwrap();
    std::fs::write(&newer, chain::with_checksums(&text.replacen("\"format\":1", "\"format\":2", 1))).unwrap();
    for path in [file, newer, place.file("empty.jsonl", "")] {
        for verb in ["show", "log", "verify"] {
            place.run(&[verb, path.to_str().unwrap()]).exits(5).says("error:").says(path.to_str().unwrap());
        }
    }
    place.run(&["show", "nowhere.jsonl"]).exits(2).says("nowhere.jsonl");
}

#[test]
fn a_foreign_line_in_a_session_that_runs_is_said() {
    for format in ["text", "json", "stream-json"] {
        let place = Place::new();
        let model = place.script("call shell {\"command\": \"echo > ran; sleep 0.5\"}\n---\nsay Done.");
        let run = place.start(&["run", "-m", &model, "--output-format", format, "hi"]);
        wait_until("the tool runs", || place.work().join("ran").exists());
        let mut log = std::fs::OpenOptions::new().append(true).open(place.log()).unwrap();
        log.write_all(b"junk\n").unwrap();
        let ran = run.end().exits(1).says("error: ").says("nothing more was done");
        assert!(!ran.err.contains("go on with"), "{}", ran.err);
        assert!(!ran.text().contains("Done."));
    }
}

#[test]
fn a_request_before_the_damage_is_shown_and_the_damage_is_said() {
    let place = session();
    let whole = place.bytes();
    let asked = place.all("request/attempt").len();
    assert_eq!(asked, 3);
    let last = place.events().iter().rev().find(|e| e["type"] == "request/attempt").unwrap()["seq"].clone();
    let shown = place.ok(&["show", "latest@1.1", "--request"]).out;
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    let at = 1 + last.as_u64().unwrap() as usize;
    let mut damaged = whole.clone();
    damaged[lines[..at].concat().len() + 10] ^= 1;
    std::fs::write(place.log(), &damaged).unwrap();
    let said = format!("line {}", at + 1);
    // The last request is not the last any more, and that is said.
    let ran = place.run(&["show", "latest", "--request"]).exits(5).says(&said);
    assert!(!ran.out.is_empty());
    place.run(&["show", "latest@2.1", "--request"]).exits(5).says(&said);
    // One that lies wholly before it is shown as ever.
    assert_eq!(place.ok(&["show", "latest@1.1", "--request"]).out, shown);
    // A torn tail is told of, too.
    std::fs::write(place.log(), &whole[..whole.len() - 3]).unwrap();
    place.ok(&["show", "latest", "--request"]).says("torn line");
}

#[test]
fn a_head_behind_the_damage_is_not_said_to_be_missing() {
    let place = session();
    let whole = place.bytes();
    let heads: Vec<String> = {
        let err = place.ok(&["run", "-c", "more"]).err;
        err.lines().filter_map(|line| line.strip_prefix("head ")).map(str::to_owned).collect()
    };
    let now = place.bytes();
    let mut damaged = now.clone();
    damaged[whole.len() + 10] ^= 1;
    std::fs::write(place.log(), &damaged).unwrap();
    let text = place.run(&["verify", "latest", "--head", &heads[0]]).exits(5).text();
    assert!(text.contains("behind the last good line") && text.contains("damage: line"), "{text}");
    std::fs::write(place.log(), &whole).unwrap();
    let text = place.run(&["verify", "latest", "--head", &heads[0]]).exits(5).text();
    assert!(text.contains("its tail was removed"), "{text}");
}

/// A pipe where a log should be is one bad entry: nobody waits for its other end.
#[test]
fn a_pipe_instead_of_a_log_stops_no_list() {
    let place = Place::new();
    place.ok(&["run", "-m", "script:demo", "--session-id", "good", "hi"]);
    let dir = place.home().join("sessions/pipe");
    std::fs::create_dir(&dir).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("log.jsonl")).status().unwrap().success());
    let listed = place.ok(&["sessions"]).text();
    assert!(listed.contains("good") && listed.contains("pipe"), "{listed}");
    assert!(place.run(&["doctor", "--sessions"]).exits(5).text().contains("it is not a regular file"));
    place.run(&["verify", "--all"]).exits(5);
}

/// A limit on the size of files is a full disk, told in words.
#[test]
fn a_limit_on_file_sizes_is_told_and_does_not_kill() {
    let place = Place::new();
    let terret = place.command(&["run", "-m", "script:demo", "--session-id", "small", "show me"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]).arg(terret.get_program()).args(terret.get_args());
    limited.current_dir(terret.get_current_dir().unwrap_or(std::path::Path::new(".")));
    for (name, value) in terret.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let ran = limited.output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("disk is full"),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
