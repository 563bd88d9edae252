#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use terret_core::fact::Outcome;

use super::*;
use crate::tool::tests::support::{call, code, run, run_call, started, text};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn add() -> FunctionTool {
    tool("add", "Adds.", |args: Add| async move { args.a.checked_add(args.b).ok_or("too large") })
        .effect(EffectClass::Read)
        .mode(CallMode::Parallel)
}

#[tokio::test]
async fn values_become_json_and_errors_sentences() {
    let add = add();
    let tool: &dyn Tool = &add;
    assert_eq!(tool.effect(), EffectClass::Read);
    let done = run(tool, Path::new("/"), json!({"a": 1, "b": 2})).await;
    assert_eq!(done.content, [Block::Json { value: Raw::parse("3").unwrap() }]);
    let done = run(tool, Path::new("/"), json!({"a": i64::MAX, "b": 2})).await;
    assert_eq!((text(&done), code(&done), done.outcome), ("too large", "failed", Outcome::Error));
}

#[tokio::test]
async fn text_stays_text_and_nothing_is_done() {
    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}
    let hello = tool("hello", "Says.", |_: Nothing| async { Ok::<_, String>("hi \"you\"") });
    assert_eq!(text(&run(&hello, Path::new("/"), json!({})).await), "hi \"you\"");
    let unit = tool("unit", "Does.", |_: Nothing| async { Ok::<(), String>(()) });
    assert_eq!(text(&run(&unit, Path::new("/"), json!({})).await), "done");
}

#[tokio::test]
async fn a_struct_keeps_its_field_order() {
    #[derive(Serialize)]
    struct Pair {
        z: u8,
        a: u8,
    }
    let pair = tool("pair", "Pairs.", |_: Add| async { Ok::<_, String>(Pair { z: 1, a: 2 }) });
    let done = run(&pair, Path::new("/"), json!({"a": 1, "b": 2})).await;
    assert_eq!(done.content, [Block::Json { value: Raw::parse(r#"{"z":1,"a":2}"#).unwrap() }]);
}

#[tokio::test]
async fn the_call_is_there_for_who_wants_it() {
    let tool = tool_with_call("whose", "Says whose.", |_: Add, call: Call| async move { Done::ok(call.key) });
    assert_eq!(text(&run(&tool, Path::new("/"), json!({"a": 1, "b": 2})).await), "test/1.1.0");
}

#[tokio::test]
async fn invalid_arguments_never_start_and_run_alone() {
    let add = add();
    let tool: &dyn Tool = &add;
    assert_eq!(tool.mode(r#"{"a":1,"b":2}"#), CallMode::Parallel);
    assert_eq!(tool.mode(r#"{"a":1}"#), CallMode::Exclusive);
    let call = call(Path::new("/"), "add", &json!({"a": 1}));
    assert_eq!(code(&tool.admit(&call).unwrap_err()), "invalid-arguments");
    assert_eq!(code(&tool.run(started(call.clone())).await), "invalid-arguments");
    assert_eq!(code(&run_call(tool, call).await), "invalid-arguments");
}
