//! An agent in a program: a tool made from a function, a prompt whose own outcome is awaited, every event
//! observed, the endings counted, one turn cancelled, and its log shown to be closed.
//!
//! `cargo run --example hello_agent`

// A poisoned lock here means that an observer panicked: nothing is left to show.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use terret::core::fact::{Cause, Fact};
use terret::testing::scripted;
use terret::tool::tool;

/// What the tool takes; its schema is made from this.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

const SCRIPT: &str =
    "call add {\"a\": 2, \"b\": 3}\n---\nsay 2 + 3 is 5.\n---\nsay Let me think\nwait 60000\nsay .";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let add =
        tool(
            "add",
            "Adds two numbers.",
            |add: Add| async move { Ok::<_, String>((add.a + add.b).to_string()) },
        );
    let endings = Arc::new(Mutex::new(BTreeMap::<&str, i32>::new()));
    let seen = endings.clone();
    let agent = scripted(SCRIPT)?
        .tool(add)
        .observe(move |event| match &event.fact {
            Fact::TurnStart(_) => *seen.lock().unwrap().entry("open").or_default() += 1,
            Fact::TurnEnd(end) => {
                *seen.lock().unwrap().entry("open").or_default() -= 1;
                *seen.lock().unwrap().entry(end.reason.word()).or_default() += 1;
            }
            _ => {}
        })
        .create(None)
        .await?;

    let sum = agent.prompt("What is 2 + 3?").await?;
    println!("{} ({}, {} steps)", sum.text, sum.ending.word(), sum.steps);

    let waiting = agent.followup(agent.user("Take your time.")).await?;
    agent.cancel(Cause::User { text: Some("not today".into()) }).await?;
    println!("the cancelled turn: {:?}", waiting.settled().await?);

    agent.shutdown().await?;
    println!("endings: {:?}", endings.lock().unwrap());
    assert_eq!(endings.lock().unwrap()["open"], 0, "every turn that opened is closed");
    Ok(())
}
