use std::io::Read;
use std::sync::atomic::AtomicUsize;

use super::*;

/// Sends one body and reads until the reply's end.
fn post(stream: &mut TcpStream, framing: &str, body: &str) -> String {
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).expect("loopback");
    let mut reply = Vec::new();
    let mut part = [0; 4096];
    while !reply.ends_with(b"\r\n0\r\n\r\n") {
        let read = stream.read(&mut part).expect("loopback");
        assert!(read > 0, "closed early");
        reply.extend_from_slice(&part[..read]);
    }
    String::from_utf8(reply).expect("the script is ASCII")
}

fn quiet(scenario: Scenario) -> Server {
    Server::start(0, scenario, Box::new(|_| ())).expect("loopback")
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(("127.0.0.1", server.port())).expect("loopback")
}

#[test]
fn the_step_follows_from_the_request() {
    let seen = Arc::new(AtomicUsize::new(0));
    let lasts = seen.clone();
    let watcher = Box::new(move |arrival: Arrival| {
        lasts.fetch_add(usize::from(arrival.last), Ordering::Relaxed);
    });
    let server = Server::start(0, Scenario::Loop(1), watcher).expect("loopback");
    let mut stream = connect(&server);

    let first = r#"{"messages":[{"role":"user","content":"\"role\":\"assistant\""}]}"#;
    let reply = post(&mut stream, &format!("content-length: {}", first.len()), first);
    assert_eq!(reply.matches(r#"{"content":"word "}"#).count(), 4);
    assert!(reply.contains(r#""arguments":"{\"command\":\"true\"}""#));
    assert!(reply.contains(r#""finish_reason":"tool_calls""#));

    let second = r#"{"messages":[{"role":"assistant","content":"x"}]}"#;
    let chunked = format!("{:x}\r\n{second}\r\n0\r\n\r\n", second.len());
    let reply = post(&mut stream, "transfer-encoding: chunked", &chunked);
    assert!(reply.contains(r#""finish_reason":"stop""#) && !reply.contains("tool_calls"));
    assert!(reply.contains(r#""choices":[],"usage":{"prompt_tokens":1000"#));
    assert!(reply.contains("data: [DONE]\n\n"));

    let records = server.records();
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].connection, records[1].connection), (0, 0), "one connection, kept alive");
    assert_eq!((records[0].body_bytes, records[1].body_bytes), (first.len(), second.len()));
    assert_eq!(gaps_ms(&records).len(), 1);
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[test]
fn a_burst_is_whole_and_coalesced() {
    let server = quiet(Scenario::Burst(5000));
    let reply = post(&mut connect(&server), "content-length: 2", "{}");
    assert_eq!(reply.matches(r#"{"content":"word "}"#).count(), 5000);
    let writes = Scenario::Burst(5000).reply(0);
    assert!(writes.len() < reply.len() / (32 * 1024), "{} writes", writes.len());
}

#[test]
fn every_event_is_json() {
    for scenario in [Scenario::Text, Scenario::Loop(2), Scenario::History(2)] {
        let bytes = scenario.reply(1).concat();
        let text = String::from_utf8(bytes).expect("the script is ASCII");
        for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            assert!(data == "[DONE]" || serde_json::from_str::<serde_json::Value>(data).is_ok(), "{data}");
        }
    }
}

#[test]
fn other_paths_are_refused_and_the_connection_stays() {
    let server = quiet(Scenario::Text);
    let mut stream = connect(&server);
    stream.write_all(b"GET /v1/models HTTP/1.1\r\n\r\n").expect("loopback");
    let mut reply = vec![0; http::NOT_FOUND.len()];
    stream.read_exact(&mut reply).expect("loopback");
    assert!(reply.ends_with(b"}"));
    assert!(post(&mut stream, "content-length: 2", "{}").contains("stop"));
}

#[test]
fn scenarios_are_named() {
    assert_eq!("text".parse(), Ok(Scenario::Text));
    assert_eq!("history:3".parse(), Ok(Scenario::History(3)));
    assert!("loop".parse::<Scenario>().is_err());
    assert!("loop:x".parse::<Scenario>().is_err());
}
