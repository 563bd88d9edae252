//! A turn with tools over Anthropic's messages, from the command line to the proof of its log.

use serde_json::{Value, json};

use crate::place::Place;
use crate::server::{Reply, Server};

fn start(id: &str) -> Value {
    let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1});
    json!({"type": "message_start", "message": {"id": id, "model": "claude-z", "usage": usage}})
}

fn block(index: u32, start: Value, deltas: &[Value]) -> Vec<Value> {
    let delta = |delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": start})];
    events.extend(deltas.iter().map(delta));
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn ending(reason: &str) -> Vec<Value> {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    vec![
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
}

fn thinks_and_calls() -> Vec<Value> {
    let thinking = [
        json!({"type": "thinking_delta", "thinking": "I \u{00e9} \"look\"\n"}),
        json!({"type": "thinking_delta", "thinking": "first. "}),
        json!({"type": "signature_delta", "signature": "EqoB/+S1=="}),
    ];
    let arguments = [
        json!({"type": "input_json_delta", "partial_json": ""}),
        json!({"type": "input_json_delta", "partial_json": "{\"command\": \"echo"}),
        json!({"type": "input_json_delta", "partial_json": " hi\"}"}),
    ];
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {}});
    let mut events = vec![start("msg_1")];
    events.extend(block(0, json!({"type": "thinking", "thinking": "", "signature": ""}), &thinking));
    events.extend(block(1, call, &arguments));
    events.extend(ending("tool_use"));
    events
}

fn says(text: &str) -> Vec<Value> {
    let mut events = vec![start("msg_2")];
    events.extend(block(
        0,
        json!({"type": "text", "text": ""}),
        &[json!({"type": "text_delta", "text": text})],
    ));
    events.extend(ending("end_turn"));
    events
}

#[test]
fn a_turn_with_tools_is_answered_and_proven() {
    for suffix in ["", "/v1", "/v1/"] {
        let place = Place::new();
        let server = Server::start(|n, _| match n {
            0 => Reply::Stream(thinks_and_calls()),
            _ => Reply::Stream(says("All done.")),
        });
        let run = |more: &[&str]| {
            let mut command = place.command(&[&["run", "-m", "anthropic/claude-z"], more].concat());
            command.env("ANTHROPIC_BASE_URL", server.url() + suffix).env("ANTHROPIC_API_KEY", "key-12345678");
            let ran = command.output().unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            String::from_utf8(ran.stdout).unwrap()
        };
        assert_eq!(run(&["hi"]).trim(), "All done.");
        assert_eq!(run(&["-c", "again"]).trim(), "All done.");
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        let head = requests[0].head.to_lowercase();
        for line in ["post /v1/messages http/1.1", "x-api-key: key-12345678", "anthropic-version: 2026-10-21"]
        {
            assert!(head.lines().any(|got| got == line), "{line} is missing in\n{head}");
        }
        assert!(!head.contains("authorization"));
        let sent = String::from_utf8(requests[1].body.clone()).unwrap();
        let exact = concat!(
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"I é \"look\"\nfirst. ","#,
            r#""signature":"EqoB/+S1=="},{"type":"tool_use","id":"toolu_1","name":"shell","#,
            r#""input":{"command":"echo hi"}}]}"#
        );
        assert!(sent.contains(exact), "{sent}");
        let result = &requests[1].json()["messages"][2]["content"][0];
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with("hi"), "{result}");
        // The log alone gives every body that was sent.
        place.ok(&["verify", "latest"]);
        let proven: Vec<Value> = place.all("request/attempt").iter().map(|a| a["bytes"].clone()).collect();
        let lengths: Vec<Value> = requests.iter().map(|request| json!(request.body.len())).collect();
        assert_eq!(proven, lengths);
        assert!(!place.bytes().windows(12).any(|window| window == b"key-12345678"));
    }
}
