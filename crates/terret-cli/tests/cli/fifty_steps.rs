//! Fifty steps of real tools against a server: files, log, requests, proof; and a planted difference.

use std::process::Command;

use serde_json::json;

use crate::chain;
use crate::place::Place;
use crate::server::{Reply, Request, Server, calls, says};

const STEPS: usize = 50;
const LISTING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/fifty_steps.log");

/// What the model asks for in each step: a round of six tools over its own file. Keys are sorted, so that the
/// bytes are the same whichever way the JSON library keeps them.
fn ask(step: usize) -> Reply {
    let file = format!("src/part{:02}.txt", step / 6);
    let (tool, arguments) = match step % 6 {
        0 => ("write", json!({"content": format!("part {}\nsecond line\n", step / 6), "path": file})),
        1 => ("edit", json!({"new": format!("changed in step {step}"), "old": "second line", "path": file})),
        2 => ("read", json!({ "path": file })),
        3 => ("grep", json!({"path": "src", "pattern": "changed in"})),
        4 => ("glob", json!({"pattern": "src/*.txt"})),
        _ => ("shell", json!({"command": format!("echo step {step} >> steps.txt; wc -l < {file}")})),
    };
    Reply::Stream(calls(tool, &arguments.to_string()))
}

fn fifty() -> (Place, Server) {
    let place = Place::new();
    let server =
        Server::start(|n, _| if n < STEPS { ask(n) } else { Reply::Stream(says("All fifty done.")) });
    (place, server)
}

fn git(place: &Place, args: &[&str]) -> Option<String> {
    let run = Command::new("git")
        .args(args)
        .current_dir(place.work())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output();
    run.ok().filter(|out| out.status.success()).map(|out| String::from_utf8(out.stdout).unwrap())
}

#[test]
fn fifty_steps_in_a_repository() {
    let (place, server) = fifty();
    let in_git = git(&place, &["init", "-q"]).is_some();
    let ran = place.ok(&server.run(&["fix everything"]));
    assert_eq!(ran.text(), "All fifty done.\n");

    for part in 0..8 {
        let text = format!("part {part}\nchanged in step {}\n", part * 6 + 1);
        assert_eq!(place.read(&format!("src/part{part:02}.txt")), text);
    }
    assert_eq!(place.read("src/part08.txt"), "part 8\nchanged in step 49\n");
    let steps: String = (0..8).map(|round| format!("step {}\n", round * 6 + 5)).collect();
    assert_eq!(place.read("steps.txt"), steps);
    if in_git {
        let changed = git(&place, &["status", "--porcelain", "-uall"]).unwrap();
        assert_eq!(changed.lines().count(), 10, "nine parts and the steps: {changed}");
    }

    let requests = server.requests();
    assert_eq!((requests.len(), server.connections()), (STEPS + 1, 1));
    for (n, pair) in requests.windows(2).enumerate() {
        let prefix = up_to_the_end_of_messages(&pair[0]);
        assert!(pair[1].body.starts_with(prefix), "request {} does not begin as request {n} did", n + 1);
    }
    // What `show --request` rebuilds is what was sent.
    for step in [1, 2, 26, 51] {
        let rebuilt = place.ok(&["show", &format!("latest@1.{step}"), "--request"]).out;
        assert_eq!(rebuilt.strip_suffix(b"\n").unwrap(), requests[step - 1].body);
    }

    let verified = place.ok(&["verify", "latest"]).text();
    assert!(verified.contains("51 requests, 51 rebuilt byte for byte"), "{verified}");
    compare(&masked(&place));
}

/// The body's bytes without those that close the array of messages and what stands behind it.
fn up_to_the_end_of_messages(request: &Request) -> &[u8] {
    let end = request.body.windows(2).rposition(|two| two == b"]}").unwrap();
    assert_eq!(end + 2, request.body.len(), "the messages come last");
    &request.body[..end]
}

#[test]
fn a_planted_difference_is_found_in_the_first_request_that_has_it() {
    let (place, server) = fifty();
    place.ok(&server.run(&["fix everything"]));
    let honest = String::from_utf8(place.bytes()).unwrap();
    assert_eq!(chain::recomputed(&honest), honest, "our own sums are those of the log");

    // One byte of a result in the middle, with every sum after it made right again.
    let results: Vec<_> = place.events().into_iter().filter(|e| e["type"] == "tool/result").collect();
    let result = &results[24];
    let line =
        honest.lines().find(|line| line.starts_with(&format!("{{\"seq\":{},", result["seq"]))).unwrap();
    let changed = line.replacen("\"text\":\"created ", "\"text\":\"Created ", 1);
    assert_ne!(changed, line);
    let planted = chain::recomputed(&honest.replacen(line, &changed, 1));
    std::fs::write(place.log(), &planted).unwrap();
    let first = place
        .events()
        .into_iter()
        .find(|e| e["type"] == "request/attempt" && e["seq"].as_u64() > result["seq"].as_u64());
    let first = first.unwrap()["seq"].as_u64().unwrap();
    let verified = place.run(&["verify", "latest"]).exits(5).text();
    let named = verified.lines().find(|line| line.trim_start().starts_with("seq ")).unwrap();
    assert!(named.contains(&format!("seq {first}:")), "{verified}");
    assert_eq!(place.bytes(), planted.as_bytes());

    // The same byte without the sums: the line itself is named.
    std::fs::write(place.log(), honest.replacen(line, &changed, 1)).unwrap();
    let verified = place.run(&["verify", "latest"]).exits(5).text();
    let number = honest.lines().position(|l| l == line).unwrap() + 1;
    assert!(verified.contains(&format!("damage: line {number},")), "{verified}");
    assert!(verified.contains(&format!("at seq {}:", result["seq"])), "{verified}");
}

/// The log without what differs from run to run.
fn masked(place: &Place) -> String {
    let text = String::from_utf8(place.bytes()).unwrap().replace(&place.work().display().to_string(), "WORK");
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for key in [
            "created",
            "time",
            "pid",
            "host",
            "boot",
            "by",
            "header_hash",
            "digest",
            "wire_digest",
            "bytes",
            "h",
            "crc",
        ] {
            line = without_value(&line, key);
        }
        out.push_str(&without_uuids(&without_sync(&line)));
        out.push('\n');
    }
    masked_environment(&out)
}

/// The value of every such key becomes `*`. Quotes inside texts are escaped, so texts are left alone.
fn without_value(line: &str, key: &str) -> String {
    let key = format!("\"{key}\":");
    let (mut out, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once(&key) {
        let length = match after.strip_prefix('"') {
            Some(text) => text.find('"').unwrap() + 2,
            None => after.find([',', '}']).unwrap(),
        };
        out.push_str(&format!("{before}{key}*"));
        rest = &after[length..];
    }
    out + rest
}

/// Where a sync ended up depends on the disk.
fn without_sync(line: &str) -> String {
    match line.rsplit_once("},\"d\":") {
        Some((before, after)) => format!("{before}}}{}", &after[after.find(',').unwrap()..]),
        None => line.to_owned(),
    }
}

fn without_uuids(line: &str) -> String {
    let is_uuid = |text: &str| {
        text.char_indices().all(|(i, c)| match i {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
    };
    let (mut out, mut rest) = (String::new(), line);
    while let Some(c) = rest.chars().next() {
        match rest.get(..36).filter(|text| is_uuid(text)) {
            Some(_) => {
                out.push_str("UUID");
                rest = &rest[36..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// Machine and day in the message that describes the surroundings.
fn masked_environment(text: &str) -> String {
    let mut text = text.to_owned();
    for (from, to) in [("\\nplatform: ", "\\n"), ("\\ndate: ", "\\n")] {
        let start = text.find(from).unwrap() + from.len();
        let end = start + text[start..].find(to).unwrap();
        text.replace_range(start..end, "*");
    }
    text
}

fn compare(listing: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(LISTING, listing).unwrap();
    }
    let expected = std::fs::read_to_string(LISTING).unwrap();
    for (n, (expected, found)) in expected.lines().zip(listing.lines()).enumerate() {
        assert_eq!(expected, found, "line {} of {LISTING}; UPDATE=1 rewrites it", n + 1);
    }
    assert_eq!(
        expected.lines().count(),
        listing.lines().count(),
        "number of lines; UPDATE=1 rewrites the listing"
    );
}
