#![allow(clippy::unwrap_used)]

use serde::Deserialize;

use super::*;
use crate::tool::tests::support::{code, text};

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What to run.
    command: String,
    timeout_ms: Option<u64>,
    title: Option<Inner>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Inner {
    level: u8,
}

fn refusal(arguments: &str) -> String {
    let done = parse_text::<Args>("shell", arguments).err().unwrap();
    assert_eq!(code(&done), "invalid-arguments");
    text(&done).to_owned()
}

#[test]
fn schema_is_closed_inlined_and_plain() {
    let schema = schema::<Args>();
    assert_eq!(
        schema.get(),
        r#"{"additionalProperties":false,"properties":{"command":{"description":"What to run.","type":"string"},"timeout_ms":{"minimum":0,"type":["integer","null"]},"title":{"additionalProperties":false,"properties":{"level":{"maximum":255,"minimum":0,"type":"integer"}},"required":["level"],"type":["object","null"]}},"required":["command"],"type":"object"}"#
    );
}

#[test]
fn a_struct_without_fields_is_an_object() {
    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}
    assert_eq!(
        schema::<Nothing>().get(),
        r#"{"additionalProperties":false,"properties":{},"type":"object"}"#
    );
    assert!(parse_text::<Nothing>("now", " \n").is_ok());
    assert!(parse_text::<Nothing>("now", "").is_ok());
}

#[test]
fn the_error_names_the_argument_and_what_is_taken() {
    let takes = "The tool takes command (string, required), timeout_ms (integer), title (object).";
    let cases = [
        ("", "shell: missing field `command`."),
        (r#"{"command":5}"#, "shell: argument `command`: invalid type: integer `5`, expected a string."),
        (
            "{\n \"command\": \"ls\",\n \"timeout_ms\": \"soon\"\n}",
            "shell: argument `timeout_ms`: invalid type: string \"soon\", expected u64.",
        ),
        (
            r#"{"command":"ls","title":{"level":900}}"#,
            "shell: argument `title`: invalid value: integer `900`",
        ),
        (r#"{"command":"ls","timeout":1}"#, "shell: unknown field `timeout`, expected one of"),
        (r#"["ls"]"#, "shell: the arguments must be one JSON object."),
        (r#"{"command":"ls"#, "shell: the arguments are not valid JSON: EOF while parsing a string"),
    ];
    for (arguments, expected) in cases {
        let said = refusal(arguments);
        assert!(said.starts_with(expected), "{arguments} gave {said}");
        assert!(said.ends_with(takes), "{arguments} gave {said}");
    }
}
