//! An agent in a program: a tool made from a function, a prompt whose own outcome is awaited, every event
//! observed, the endings counted, one turn cancelled, and its log shown to be closed.
//!
//! `cargo run --example hello_agent`

// A poisoned lock here means that an observer panicked: nothing is left to show.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use terret::agent::Agent;
use terret::core::fact::{Cause, Fact};
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::tool::tool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

const SCRIPT: &str = "
call add {\"a\": 2, \"b\": 3}
---
say 2 + 3 is 5.
---
say Let me think
wait 60000
say about that.
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endings = Arc::new(Mutex::new(BTreeMap::<&str, u32>::new()));
    let (count, open) = (endings.clone(), Arc::new(Mutex::new(0)));
    let brackets = open.clone();
    let models = Providers::new(Box::new(|_| None))
        .with_adapter("script", ScriptAdapter::new().with("hello", SCRIPT)?);
    let agent = Agent::builder(Arc::new(models))
        .model("script:hello")?
        .tool(tool("add", "Adds two numbers.", |add: Add| async move {
            Ok::<_, String>((add.a + add.b).to_string())
        }))
        .observe(move |event| match &event.fact {
            Fact::TurnStart(_) => *brackets.lock().unwrap() += 1,
            Fact::TurnEnd(end) => {
                *brackets.lock().unwrap() -= 1;
                *count.lock().unwrap().entry(end.reason.word()).or_default() += 1;
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
    assert_eq!(*open.lock().unwrap(), 0, "every turn that opened is closed");
    Ok(())
}
