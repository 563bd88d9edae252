//! A turn with a tool over the Responses protocol: what the model thought goes back to it, byte by byte.

use serde_json::{Value, json};

use crate::place::Place;
use crate::server::{Reply, Server, plain};

/// A key of encrypted reasoning may hold anything; these bytes must come back as they are.
const REASONING: &str = concat!(
    r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA\/+\u003d= ","#,
    r#""summary":[{"type":"summary_text","text":"look first"}]}"#
);

fn stream(events: &[(&str, String)]) -> Reply {
    let event =
        |(kind, rest): &(&str, String)| format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{rest}}}\n\n");
    plain(200, "text/event-stream", &events.iter().map(event).collect::<String>())
}

fn done(at: usize, item: &str) -> (&'static str, String) {
    ("response.output_item.done", format!(r#""output_index":{at},"item":{item}"#))
}

fn completed() -> (&'static str, String) {
    let usage = r#"{"input_tokens":100,"output_tokens":10,"total_tokens":110}"#;
    ("response.completed", format!(r#""response":{{"id":"resp_1","model":"m","output":[],"usage":{usage}}}"#))
}

fn asks() -> Reply {
    let message = r#"{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","status":"completed",
        "content":[{"type":"output_text","text":"Looking.","annotations":[]}]}"#;
    let call = r#"{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","status":"completed",
        "arguments":"{\"path\": \"a.txt\"}"}"#;
    stream(&[
        done(0, REASONING),
        done(1, &message.replace('\n', "")),
        done(2, &call.replace('\n', "")),
        completed(),
    ])
}

fn answers() -> Reply {
    let message =
        r#"{"id":"msg_2","type":"message","content":[{"type":"output_text","text":"It says hello."}]}"#;
    stream(&[done(0, message), completed()])
}

#[test]
fn a_tool_loop_carries_the_thoughts_of_the_model_back() {
    let place = Place::new();
    place.file("a.txt", "hello\n");
    let server = Server::start(|number, _| if number == 0 { asks() } else { answers() });
    let wire = ["--set", "providers.test.wire=openai-responses", "--set", "providers.test.dialect=openai"];
    let ran = place.ok(&server.run(&[&wire[..], &["what is in a.txt?"]].concat()));
    assert_eq!(ran.text(), "It says hello.\n");

    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[0].head.starts_with("POST /v1/responses HTTP/1.1"), "{}", requests[0].head);
    let (first, second) =
        (String::from_utf8_lossy(&requests[0].body), String::from_utf8_lossy(&requests[1].body));
    assert!(second.starts_with(first.strip_suffix("]}").unwrap()), "{first}\n{second}");
    assert!(second.contains(&format!(",{REASONING},")), "{second}");
    let body = requests[1].json();
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    let items = body["input"].as_array().unwrap();
    let from = items.iter().position(|item| item["type"] == "reasoning").unwrap();
    let ids: Vec<(&Value, &Value)> = items[from..].iter().map(|item| (&item["type"], &item["id"])).collect();
    let (of, none) = (|kind: &str, id: &str| (json!(kind), json!(id)), Value::Null);
    let expected = [
        of("reasoning", "rs_1"),
        of("message", "msg_1"),
        of("function_call", "fc_1"),
        (json!("function_call_output"), none),
    ];
    assert_eq!(ids, expected.iter().map(|(kind, id)| (kind, id)).collect::<Vec<_>>());
    assert_eq!(items[from + 1]["phase"], "commentary");
    assert_eq!(items[from + 2]["arguments"], r#"{"path": "a.txt"}"#);
    assert_eq!(items[from + 3]["call_id"], "call_1");
    assert!(items[from + 3]["output"].as_str().unwrap().contains("hello"));
    place.ok(&["verify", "latest"]);
}
