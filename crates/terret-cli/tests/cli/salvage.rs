//! `terret doctor --salvage`: a new session of what is intact, which is proven, told to the model, and gone on with.

use std::path::PathBuf;

use serde_json::Value;

use crate::chain;
use crate::place::{Place, Ran};
use crate::server::{Reply, Server, calls, says};

/// A home with a session `p` of three turns: a tool in the second.
fn place() -> (Place, Server) {
    let (place, server) = (Place::new(), Server::start(|_, request| answer(&request.prompt(), request)));
    for (at, prompt) in ["first question", "second question", "third question"].into_iter().enumerate() {
        let how: &[&str] = if at == 0 { &["--session-id", "p", prompt] } else { &["-r", "p", prompt] };
        place.ok(&server.run(how));
    }
    (place, server)
}

fn answer(prompt: &str, request: &crate::server::Request) -> Reply {
    let has_result = request.json()["messages"].as_array().unwrap().last().unwrap()["role"] == "tool";
    Reply::Stream(match prompt {
        "second question" if !has_result => {
            calls("shell", &serde_json::json!({"command": "echo of the tool"}).to_string())
        }
        _ => says(&format!("The answer to the {prompt}.")),
    })
}

fn log(place: &Place, id: &str) -> PathBuf {
    place.home().join("sessions").join(id).join("log.jsonl")
}

fn lines(log: &[u8]) -> Vec<Vec<u8>> {
    log.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

/// The line, from 0, of the nth event of a type.
fn nth(lines: &[Vec<u8>], kind: &str, n: usize) -> usize {
    let kind = format!("\"type\":\"{kind}\"");
    let of = |line: &[u8]| String::from_utf8_lossy(line).contains(&kind);
    lines.iter().enumerate().filter(|(_, line)| of(line)).nth(n).unwrap().0
}

/// Makes the log of `p` these lines and salvages it; gives the lines of the new session and what was said.
fn salvaged(place: &Place, damaged: &[Vec<u8>]) -> (String, Vec<Vec<u8>>, Ran) {
    let path = log(place, "p");
    std::fs::write(&path, damaged.concat()).unwrap();
    let ran = place.ok(&["doctor", path.to_str().unwrap(), "--salvage"]);
    assert_eq!(std::fs::read(&path).unwrap(), damaged.concat(), "the original is as it was");
    let id = ran.text().trim().to_owned();
    assert!(ran.err.ends_with(&format!("go on with: terret run -r {id} \"…\"\n")), "{}", ran.err);
    let lines = lines(&std::fs::read(log(place, &id)).unwrap());
    let report: Value = serde_json::from_slice(&place.ok(&["verify", &id, "--json"]).out).unwrap();
    assert_eq!((&report["unproven"], report["proven"].clone()), (&0.into(), report["requests"].clone()));
    (id, lines, ran)
}

/// Payloads of one type.
fn all(lines: &[Vec<u8>], kind: &str) -> Vec<Value> {
    let events = lines[1..].iter().map(|line| serde_json::from_slice::<Value>(line).unwrap());
    events.filter(|e| e["type"] == kind).map(|e| e["data"].clone()).collect()
}

/// The lines kept as data, as they stood, with their newlines; each is where it says.
fn kept(lines: &[Vec<u8>], source: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let whole = source.concat();
    let kept = all(lines, "x/salvage/line").into_iter().map(|data| {
        let raw = data["raw"].as_str().unwrap().as_bytes().to_vec();
        let at = data["offset"].as_u64().unwrap() as usize;
        assert_eq!(whole[at..at + raw.len()], raw, "byte for byte");
        [raw, b"\n".to_vec()].concat()
    });
    kept.collect()
}

/// The message for the model.
fn told(lines: &[Vec<u8>]) -> String {
    let added = all(lines, "inbox/added");
    let of_salvage: Vec<_> =
        added.iter().filter(|added| added["message"]["source"]["plugin"] == "salvage").collect();
    assert_eq!(of_salvage.len(), 1);
    assert_eq!((&of_salvage[0]["lane"], &of_salvage[0]["wake"]), (&"next-step".into(), &false.into()));
    assert_eq!(of_salvage[0]["message"]["source"]["form"], "recall");
    of_salvage[0]["message"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Goes on, and gives the messages of the request.
fn gone_on(place: &Place, server: &Server, id: &str) -> String {
    place.ok(&server.run(&["-r", id, "what now"]));
    place.ok(&["verify", id]);
    String::from_utf8(server.requests().last().unwrap().body.clone()).unwrap()
}

#[test]
fn a_flipped_byte_in_the_first_turn_costs_one_line() {
    let (place, server) = place();
    let mut source = lines(&std::fs::read(log(&place, "p")).unwrap());
    let at = nth(&source, "assistant/chunk", 2);
    let good = source.clone();
    source[at][30] ^= 1;
    let (id, made, ran) = salvaged(&place, &source);
    assert_eq!(made[1..at], source[1..at], "a fork up to the last good event");
    let header: Value = serde_json::from_slice(&made[0]).unwrap();
    assert_eq!((&header["parent"]["id"], &header["parent"]["seq"]), (&"p".into(), &(at - 2).into()));
    assert_eq!(kept(&made, &source), source[at + 1..]);
    let damages = all(&made, "x/salvage/damage");
    assert_eq!(damages.len(), 1);
    assert_eq!(damages[0]["line"], at + 1);
    assert_eq!(damages[0]["offset"], source[..at].concat().len());
    assert_eq!(damages[0]["bytes"], source[at].len());
    let (lost, events) = (source[at].len(), at - 1);
    ran.says(&format!("kept      {events} events as they were, {} lines behind", source.len() - at - 1))
        .says(&format!("lost      {lost} bytes, in 1 place\n  line {}, ", at + 1));
    let told = told(&made);
    for said in [
        "assistant: The answer to the first question.",
        "user: second question",
        "call of shell: {\"command\":\"echo of the tool\"}",
        "result of shell (ok): of the tool",
        "assistant: The answer to the second question.",
        "user: third question",
        "assistant: The answer to the third question.",
    ] {
        assert_eq!(told.matches(said).count(), 1, "{said}: {told}");
    }
    let request = gone_on(&place, &server, &id);
    assert!(request.contains("The answer to the third question.") && request.contains("what now"));
    assert_eq!(place.ok(&["show", &id]).err, "", "what it wrote itself is known");
    // Another one is another session, of the same.
    let (second, again, _) = salvaged(&place, &source);
    assert_ne!(second, id);
    assert_eq!(kept(&again, &source), kept(&made, &source));
    assert_eq!(good.len(), source.len());
}

#[test]
fn without_a_first_event_or_a_header_it_begins_anew() {
    let (place, server) = place();
    let good = lines(&std::fs::read(log(&place, "p")).unwrap());
    for line in [0, 1] {
        let mut source = good.clone();
        source[line][20] ^= 1;
        let (id, made, ran) = salvaged(&place, &source);
        ran.says("begun anew").says("kept      0 events");
        let header: Value = serde_json::from_slice(&made[0]).unwrap();
        assert_eq!(header.get("parent"), None);
        assert_eq!(header["cwd"], place.work().to_str().unwrap());
        assert_eq!(kept(&made, &source), source[line + 1..]);
        assert_eq!(all(&made, "x/salvage/damage").len(), 1);
        let told = told(&made);
        assert!(told.contains("user: first question") && told.contains("The answer to the third"), "{told}");
        assert!(gone_on(&place, &server, &id).contains("The answer to the third question."));
        let text = place.run(&["doctor".as_ref(), log(&place, "p").as_os_str()]).exits(5).text();
        assert!(text.contains("--salvage"), "{text}");
    }
}

#[test]
fn two_damages_are_two_places_and_the_model_is_told_where_something_is_missing() {
    let (place, server) = place();
    let mut source = lines(&std::fs::read(log(&place, "p")).unwrap());
    let (first, second) = (nth(&source, "turn/end", 0), nth(&source, "assistant/message", 3));
    for line in [first, second, second + 1] {
        source[line].truncate(20);
        source[line].push(b'\n');
    }
    let (id, made, ran) = salvaged(&place, &source);
    ran.says("lost      63 bytes, in 2 places\n");
    assert_eq!(kept(&made, &source), [&source[first + 1..second], &source[second + 2..]].concat());
    let damages = all(&made, "x/salvage/damage");
    let bytes: Vec<_> = damages.iter().map(|damage| damage["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [21, 42]);
    let told = told(&made);
    // The message is lost; its pieces are there.
    assert!(
        told.contains("[something is missing here]\n\nassistant, in part: The answer to the third"),
        "{told}"
    );
    assert!(gone_on(&place, &server, &id).contains("in part: The answer to the third question."));
}

#[test]
fn a_line_that_is_missing_or_lost_its_newline_costs_no_other() {
    let (place, _server) = place();
    let good = lines(&std::fs::read(log(&place, "p")).unwrap());
    let at = nth(&good, "tool/call", 0);
    let mut missing = good.clone();
    missing.remove(at + 6);
    missing.remove(at);
    let (_, made, _) = salvaged(&place, &missing);
    assert_eq!(kept(&made, &missing), missing[at..]);
    let damages = all(&made, "x/salvage/damage");
    let bytes: Vec<_> = damages.iter().map(|damage| damage["bytes"].clone()).collect();
    assert_eq!(bytes, [0, 0]);
    let expected: Vec<_> = damages.iter().map(|damage| damage["expected"].clone()).collect();
    assert_eq!(expected, [format!("seq {}", at - 1), format!("seq {}", at + 5)]);
    assert!(told(&made).contains("result of 2.1.0 (ok): of the tool"));

    let mut joined = good.clone();
    *joined[at].last_mut().unwrap() = b'?';
    let (_, made, ran) = salvaged(&place, &joined);
    let source = lines(&joined.concat());
    assert_eq!(kept(&made, &source), good[at..]);
    ran.says("lost      1 bytes, in 1 place");

    // A line that was changed and given a new checksum breaks the chain, further on.
    let text = String::from_utf8(good.concat()).unwrap();
    let changed = chain::with_checksums(&text.replacen("second question", "second demand", 1));
    let changed = lines(changed.as_bytes());
    let (_, made, ran) = salvaged(&place, &changed);
    ran.says("chain value");
    assert!(kept(&made, &changed).len() > 10 && all(&made, "x/salvage/damage").len() == 1);
}

#[test]
fn a_line_too_long_to_keep_is_named() {
    let (place, _server) = place();
    let good = lines(&std::fs::read(log(&place, "p")).unwrap());
    let at = nth(&good, "turn/end", 0);
    // Quotes take two bytes within a string, and so do backslashes.
    let long = "\\\"".repeat(2_500_000);
    let line = format!(
        "{{\"seq\":{at},\"time\":1,\"type\":\"x/test/long\",\"rel\":\"view\",\"data\":{{\"x\":\"{long}\"}},\"crc\":\"00000000\"}}"
    );
    let sealed = chain::with_checksums(&line).into_bytes();
    let mut source = good[..at + 1].to_vec();
    source[at][20] ^= 1;
    let length = sealed.len();
    source.extend([sealed, good[at + 2].clone()]);
    let (_, made, ran) = salvaged(&place, &source);
    ran.says("too long  1 intact lines").says(&format!("{length} bytes"));
    let damages = all(&made, "x/salvage/damage");
    let last = damages.last().unwrap();
    assert_eq!((&last["line"], &last["bytes"]), (&(at + 2).into(), &length.into()));
    assert!(last["found"].as_str().unwrap().contains("too long to keep"));
    assert!(kept(&made, &source).ends_with(&[good[at + 2].clone()]));
}

#[test]
fn what_is_whole_or_holds_nothing_is_not_salvaged() {
    let (place, _server) = place();
    let whole = std::fs::read(log(&place, "p")).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let newer = chain::with_checksums(&text.replacen("turn/start", "turn/begin", 1)).into_bytes();
    for (name, bytes, code, words) in [
        ("whole.jsonl", &whole[..], 2, "is not damaged"),
        ("torn.jsonl", &whole[..whole.len() - 9], 2, "is not damaged"),
        ("empty.jsonl", b"", 5, "the file is empty"),
        ("notes.txt", b"milk\neggs\n", 5, "checksum"),
        ("newer.jsonl", &newer, 5, "upgrade terret"),
    ] {
        let path = place.file(name, "");
        std::fs::write(&path, bytes).unwrap();
        let ran = place.run(&["doctor", path.to_str().unwrap(), "--salvage"]).exits(code).says(words);
        assert_eq!(ran.out, b"", "{name}");
    }
    assert_eq!(place.logs().len(), 1, "nothing was made");
}
