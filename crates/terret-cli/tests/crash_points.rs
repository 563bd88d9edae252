//! The real binary dies before each step of its disk, and in the middle of each write. Built with a feature of its own:
//! `cargo test -p terret-cli --features crash-points --test crash_points`.

#![allow(clippy::unwrap_used, dead_code)]

#[path = "cli/place.rs"]
mod place;
#[path = "cli/server.rs"]
mod server;

use std::collections::BTreeSet;

use place::{Place, Ran, Running, contains};
use server::{Reply, Request, Server, calls, says};

const PROMPT: &str = "do the work";
/// Calls of the turn.
const CALLS: usize = 3;
/// What a network read brings together decides how many writes there are: of two runs that do the same, one may
/// need some steps less.
const SLACK: u64 = 12;

#[test]
fn a_death_at_every_step_loses_nothing_and_repeats_nothing() {
    let server = Server::start(reply);
    let counted = died(&Place::new(), &server, "count").exits(0);
    let steps = counted.err.lines().find_map(|line| line.strip_suffix(" steps")?.parse::<u64>().ok());
    let steps = steps.expect("it says how many steps there were");
    assert!(steps > 40, "only {steps} steps");
    eprintln!("{steps} steps");
    let mut seen = Seen::default();
    for at in 1..=steps {
        let place = Place::new();
        let first = died(&place, &server, &at.to_string());
        if first.code == 0 {
            assert!(at + SLACK > steps, "step {at} of {steps} was never reached");
            continue;
        }
        assert_eq!(first.code, -1, "step {at}: it ended by itself: {}", first.err);
        gone_on(&place, &server, at, &first, &mut seen);
    }
    // Every kind of death came up.
    assert!(seen.unborn > 3 && seen.told > 20 && seen.torn > 5, "{seen:?}");
    assert!(seen.ran > 10, "{seen:?}");
}

#[derive(Debug, Default)]
struct Seen {
    /// Deaths before there was a session.
    unborn: u32,
    /// Deaths behind an acknowledged prompt.
    told: u32,
    /// Deaths in the middle of a line.
    torn: u32,
    /// Calls that ran.
    ran: usize,
}

/// One call after the other; and an end, also for who only asks to go on.
fn reply(_: usize, request: &Request) -> Reply {
    let json = request.json();
    let messages = json["messages"].as_array().unwrap();
    let since = messages.iter().rev().take_while(|message| message["role"] != "user").count();
    if request.prompt() == "go on" {
        return Reply::Stream(says("Went on."));
    }
    if since / 2 >= CALLS {
        return Reply::Stream(says("All done."));
    }
    // Outside the session, and without a look at it.
    let command = format!("echo call-{since}- >>ran");
    Reply::Stream(calls("shell", &serde_json::json!({ "command": command }).to_string()))
}

fn died(place: &Place, server: &Server, at: &str) -> Ran {
    let mut command = place.command(&server.run(&["--session-id", "s", "--json", PROMPT]));
    command.env("TERRET_CRASH_AT", at);
    Running::start(command).end()
}

/// The second run and the third, and what must hold of them.
fn gone_on(place: &Place, server: &Server, at: u64, first: &Ran, seen: &mut Seen) {
    let cut = place.bytes();
    assert!(cut.starts_with(&first.out), "step {at}: something was shown that is not in the log");
    // Named on stderr, the session and its prompt are acknowledged.
    let told = first.err.starts_with("session s ");
    seen.told += u32::from(told);
    let whole = cut.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    seen.torn += u32::from(whole > 0 && whole < cut.len());
    if whole == 0 {
        assert!(!told && first.out.is_empty(), "step {at}: there is no session, and it was named");
        seen.unborn += 1;
        // Its name is free.
        place.ok(&server.run(&["--session-id", "s", PROMPT]));
    }
    let second = place.ok(&server.run(&["-r", "s", "go on"]));
    assert_eq!(second.text(), "Went on.\n", "step {at}");
    let asked = server.requests().last().unwrap().json()["messages"].to_string();
    let prompts = asked.matches(PROMPT).count();
    // What is in the log is never lost, whether or not anybody was told; and who was told finds it there.
    let kept = whole == 0 || contains(&cut[..whole], PROMPT.as_bytes());
    assert!(kept || !told, "step {at}: an acknowledged prompt is lost");
    assert_eq!(prompts, usize::from(kept), "step {at}: {asked}");
    let after = place.bytes();
    assert!(after.starts_with(&cut[..whole]), "step {at}: an old line changed");
    place.ok(&["verify", "s"]);

    let third = place.ok(&server.run(&["-r", "s", "go on"]));
    assert!(!third.err.contains("closed turn"), "step {at}: {}", third.err);
    let last = place.bytes();
    assert!(last.starts_with(&after), "step {at}: the third run changed an old line");
    place.ok(&["verify", "s"]);
    let ran = place.read("ran");
    let calls: Vec<&str> = ran.lines().collect();
    assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len(), "step {at}: twice: {calls:?}");
    for call in &calls {
        assert!(contains(&last, call.as_bytes()), "step {at}: {call} ran and is not in the log");
    }
    seen.ran += calls.len();
}
