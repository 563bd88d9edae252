//! `--output-schema`: what is printed, what is kept, and how it ends.

use serde_json::{Value, json};

use crate::place::Place;
use crate::server::{Reply, Server, says};

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": { "degrees": { "type": "number" } },
  "required": ["degrees"]
}"#;

const COMPACT: &str =
    r#"{"type":"object","properties":{"degrees":{"type":"number"}},"required":["degrees"]}"#;

fn place() -> Place {
    let place = Place::new();
    place.file("weather v1.json", SCHEMA);
    place
}

/// The arguments of a run with the schema.
fn run<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "-m", model, "--output-schema", "weather v1.json"], more, &["weather?"]].concat()
}

#[test]
fn text_is_the_json_and_nothing_else_also_out_of_a_fence() {
    let place = place();
    let model =
        place.script("say Let me think.\nsay 12\n---\nsay ```json\nsay {\"degrees\": 12.50}\nsay ```");
    let ran = place.ok(&run(&model, &["-o", "answer.json"]));
    assert_eq!(ran.text(), "{\"degrees\": 12.50}\n");
    assert_eq!(place.read("answer.json").trim_end(), "{\"degrees\": 12.50}");
    let parameter = &place.all("request/header")[0]["header"]["parameters"]["output_schema"];
    assert_eq!(parameter["name"], "weather_v1");
    assert!(String::from_utf8(place.bytes()).unwrap().contains(COMPACT));
    place.ok(&["verify", "latest"]);
}

#[test]
fn json_has_the_value_beside_the_text() {
    let place = place();
    let model = place.script("say ```\nsay {\"degrees\": 3}\nsay ```");
    let object: Value =
        serde_json::from_str(&place.ok(&run(&model, &["--output-format", "json"])).text()).unwrap();
    assert_eq!(object["output"], json!({"degrees": 3}));
    assert_eq!(object["text"], "```\n{\"degrees\": 3}\n```");
    let without = place.ok(&["run", "-m", &model, "--output-format", "json", "hi"]);
    let object: Value = serde_json::from_str(&without.text()).unwrap();
    assert!(object.get("output").is_none(), "{object}");
}

#[test]
fn an_answer_that_never_fits_is_an_error_prints_nothing_and_stays_in_the_log() {
    let place = place();
    place.file("answer.json", "of yesterday");
    let model = place.script("say cold\n---\nsay {\"degrees\":\"cold\"}");
    let ran = place.run(&run(&model, &["-o", "answer.json"])).exits(1).says("OUTPUT_SCHEMA");
    assert_eq!(ran.text(), "");
    assert_eq!(place.read("answer.json"), "of yesterday");
    assert_eq!(place.reason()["failure"]["code"], "OUTPUT_SCHEMA", "{}", place.reason());
    assert_eq!(place.all("assistant/message").len(), 2);
    assert!(String::from_utf8(place.bytes()).unwrap().contains(r#"{\"degrees\":\"cold\"}"#));
    // What was mended, and by whom, is a question to the log.
    let by = json!({"type": "plugin", "plugin": "output-schema", "form": "notice"});
    let notices = place.all("user/message").into_iter().filter(|m| m["message"]["source"] == by);
    assert_eq!(notices.count(), 1);
    // What was cut is no answer, also where it could be one: 1 may have been 15.
    let model = place.script("say {\"degrees\":1}\nfinish max-tokens");
    let cut = place.run(&run(&model, &["--output-format", "json"])).exits(4);
    let object: Value = serde_json::from_str(&cut.text()).unwrap();
    assert_eq!((&object["output"], &object["text"]), (&Value::Null, &json!("{\"degrees\":1}")));
}

#[test]
fn the_schema_is_of_this_run() {
    let place = place();
    let model = place.script("say {\"degrees\":1}\n---\nsay warm\n---\nsay {\"degrees\":2}");
    place.ok(&run(&model, &[]));
    assert_eq!(place.ok(&["run", "-c", "and in words?"]).text(), "warm\n");
    let again = place.ok(&["run", "-c", "--output-schema", "weather v1.json", "again"]);
    assert_eq!(again.text(), "{\"degrees\":2}\n");
    let has = |header: &Value| header["header"]["parameters"].get("output_schema").is_some();
    assert_eq!(place.all("request/header").iter().map(has).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_before_anything_is_asked() {
    let place = place();
    let model = place.script("say {}");
    for (schema, says) in [
        (r#"{"properties":{"a":{"type":"strin"}}}"#, "/properties/a/type"),
        (r#"{"$ref":"https://example.com/other.json"}"#, "https://example.com/other.json"),
        (r#"{"$ref":"file:///etc/passwd"}"#, "its own parts only"),
        ("{\"type\":", "not JSON"),
        ("7", "schema"),
        (&format!("\"{}\"", "x".repeat(200_000)), "too large"),
    ] {
        place.file("bad.json", schema);
        place
            .run(&["run", "-m", &model, "--output-schema", "bad.json", "hi"])
            .exits(2)
            .says(says)
            .says("bad.json");
    }
    place.run(&["run", "-m", &model, "--output-schema", "none.json", "hi"]).exits(2).says("none.json");
    assert_eq!(place.logs().len(), 0);
}

#[test]
fn a_server_never_sees_our_name_for_it_and_a_resumed_turn_is_mended_once() {
    let place = place();
    let server = Server::start(|n, _| match n {
        0 => Reply::Stream(says("cold")),
        1 => Reply::Stall(Vec::new()),
        2 => Reply::Stream(says("{\"degrees\":\"cold\"}")),
        _ => Reply::Stream(says("{\"degrees\":1}")),
    });
    let schema = ["--output-schema", "weather v1.json"];
    let mut running = place.start(&server.run(&[&schema[..], &["weather?"]].concat()));
    crate::place::wait_until("the second request", || server.requests().len() == 2);
    running.kill();
    running.end();
    place.run(&server.run(&[&schema[..], &["-c", "--resume-turn"]].concat())).exits(1).says("OUTPUT_SCHEMA");
    assert_eq!(server.requests().len(), 3);
    assert!(server.requests().iter().all(|request| request.json().get("output_schema").is_none()));
    let told = server.requests()[0].json()["messages"].to_string();
    assert!(told.contains("weather_v1"), "{told}");
}
