//! kill -9 at random moments: what was shown is in the log, nothing before the cut changes, no tool runs twice.

use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use crate::place::{Place, Running, contains, wait_until};
use crate::server::{Reply, Server, calls, says};

/// Processes that are killed, and the sessions they share.
const ROUNDS: u64 = 20;
const ROUNDS_A_SESSION: u64 = 5;
/// Calls of one prompt: more than a round lives to see.
const CALLS: usize = 25;

#[test]
fn kill_at_twenty_moments() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    // Shown when the test fails: `SEED=… cargo test -p terret-cli kill` plays the same moments.
    eprintln!("SEED={seed}");
    let mut random = Random(seed);
    let server = Server::start(|number, request| match request.prompt().as_str() {
        "go on" => Reply::Stream(says("went on")),
        _ if request.json()["messages"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .take_while(|m| m["role"] != "user")
            .count()
            / 2
            >= CALLS =>
        {
            Reply::Stream(says("enough"))
        }
        _ => {
            let command = format!("echo token-{number}- >> ran; sleep 0.0{}", number % 4);
            let arguments = serde_json::json!({"command": command}).to_string();
            Reply::Slow(calls("shell", &arguments), Duration::from_millis(3))
        }
    });
    let mut killed_in_turns = 0;
    for _ in 0..ROUNDS / ROUNDS_A_SESSION {
        let place = Place::new();
        for round in 0..ROUNDS_A_SESSION {
            let delay = Duration::from_micros(random.next() % 700_000);
            killed_in_turns += u32::from(one(&place, &server, round, delay));
        }
        let tokens: Vec<String> = place.read("ran").lines().map(str::to_owned).collect();
        let once: BTreeSet<&String> = tokens.iter().collect();
        assert_eq!(once.len(), tokens.len(), "a tool ran twice: {tokens:?}");
        let log = place.bytes();
        for token in &tokens {
            assert!(contains(&log, token.as_bytes()), "{token} ran and is not in the log");
        }
        for event in place.events().iter().filter(|e| e["type"] == "tool/call") {
            assert_eq!(event["data"]["run"], 1, "{event}");
        }
    }
    assert!(killed_in_turns > ROUNDS as u32 / 2, "only {killed_in_turns} kills met an open turn");
}

/// Kills one run after `delay`, goes on, and compares. Says whether the kill met an open turn.
fn one(place: &Place, server: &Server, round: u64, delay: Duration) -> bool {
    let before = place.bytes();
    let resumed: &[&str] = if before.is_empty() { &[] } else { &["-c"] };
    let shown = place.work().join(format!("shown-{round}.jsonl"));
    let mut args = server.run(&["--json", "loop"]);
    args.extend(resumed.iter().map(|word| (*word).to_owned()));
    let mut run = Running::with_stdout(place.command(&args), File::create(&shown).unwrap());
    std::thread::sleep(delay);
    run.kill();

    let shown = whole_lines(std::fs::read(&shown).unwrap());
    let cut = place.bytes();
    assert!(cut.starts_with(&before), "the dead writer changed what was there");
    if before.is_empty() {
        assert!(cut.starts_with(&shown), "round {round}: something was shown that is not in the log");
    } else if !shown.is_empty() {
        let header = before.iter().position(|b| *b == b'\n').unwrap() + 1;
        let (head, rest) = shown.split_at(header);
        assert_eq!(head, &before[..header]);
        assert!(cut[before.len()..].starts_with(rest), "round {round}: shown and not in the log");
    }
    if cut.is_empty() || !cut.contains(&b'\n') {
        return false;
    }
    let open = count(&cut, "turn/start") > count(&cut, "turn/end");
    let ran = place.run(&server.run(&["-c", "go on"])).exits(0);
    let good = whole_lines(cut.clone());
    let after = place.bytes();
    assert!(after.starts_with(&good), "round {round}: a byte before the cut is different");
    assert!(ran.err.starts_with("session "), "{}", ran.err);
    assert_eq!(ran.err.contains("closed turn "), open, "round {round}: {}", ran.err);
    if good.len() < cut.len() {
        let dir = place.log().parent().unwrap().to_owned();
        let torn = std::fs::read_dir(dir)
            .unwrap()
            .flatten()
            .filter(|e| e.file_name().to_string_lossy().starts_with("torn-"));
        let kept = torn.map(|e| std::fs::read(e.path()).unwrap()).any(|bytes| bytes == cut[good.len()..]);
        assert!(kept || after.starts_with(&cut), "round {round}: the torn bytes are not kept");
    }
    place.ok(&["verify", "latest"]);
    open
}

fn whole_lines(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1));
    bytes
}

fn count(log: &[u8], kind: &str) -> usize {
    let text = String::from_utf8_lossy(log);
    text.matches(&format!("\"type\":\"{kind}\"")).count()
}

/// A small generator: the moments only have to be spread and repeatable.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 32)
    }
}

#[test]
fn an_open_turn_counts() {
    let place = Place::new();
    let model = place.script("call shell {\"command\": \"echo x > ran; sleep 0.3\"}\n---\nsay Two.");
    let mut run = place.start(&["run", "-m", &model, "hi"]);
    wait_until("the tool runs", || place.work().join("ran").exists());
    run.kill();
    let shown = place.ok(&["sessions", "show", "latest"]).text();
    assert!(shown.contains("turns    1 (1 is open)\n"), "{shown}");
    place.ok(&["run", "-c", "more"]);
    assert!(place.ok(&["sessions", "show", "latest"]).text().contains("turns    2\n"));
}
