//! What every test here needs: an agent over a script, tools that record, logs read back.

use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terret::agent::{Agent, Builder};
use terret::core::fact::{CallMode, EffectClass, Fact};
use terret::core::line::Event;
use terret::core::project::Brackets;
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::policy::Retry;
use terret::store::Scan;
use terret::tool::{Call, Done, FunctionTool, tool_with_call};

pub(crate) type Notes = Arc<Mutex<Vec<String>>>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nap {
    /// What to note.
    pub(crate) note: String,
    /// How long to take.
    #[serde(default)]
    pub(crate) ms: u64,
}

/// A tool that notes when it starts and when it ends; deaf to being asked to stop.
pub(crate) fn nap(notes: &Notes, mode: CallMode) -> FunctionTool {
    let notes = notes.clone();
    tool_with_call("nap", "Takes its time.", move |nap: Nap, _call: Call| {
        let notes = notes.clone();
        async move {
            notes.lock().unwrap().push(format!("+{}", nap.note));
            tokio::time::sleep(Duration::from_millis(nap.ms)).await;
            notes.lock().unwrap().push(format!("-{}", nap.note));
            Done::ok(nap.note)
        }
    })
    .effect(EffectClass::Unsafe)
    .mode(mode)
}

/// An agent that plays `script`, with quick retries.
pub(crate) fn builder(script: &str) -> Builder {
    let player = ScriptAdapter::new().with("test", script).unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    let retry = Retry { max: 3, base_ms: 1, ..Retry::default() };
    Agent::builder(Arc::new(models)).model("script:test").unwrap().plugin(retry)
}

/// Every event of a log; the log is whole and its brackets are right.
pub(crate) fn events(log: Vec<u8>) -> Vec<Event> {
    let mut scan = Scan::new(Cursor::new(log), Path::new("test")).unwrap();
    let mut events = Vec::new();
    let mut brackets = Brackets::default();
    while let Some(next) = scan.next_event().unwrap() {
        let event = next.unwrap();
        brackets.fold(&event);
        events.push(event);
    }
    assert_eq!(brackets.faults(), &[]);
    events
}

/// The types of the events, chunks left out.
pub(crate) fn types(events: &[Event]) -> Vec<&str> {
    events.iter().map(|e| e.fact.type_name()).filter(|name| *name != "assistant/chunk").collect()
}

/// How each turn ended, in one word.
pub(crate) fn endings(events: &[Event]) -> Vec<&'static str> {
    events
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::TurnEnd(end) => Some(end.reason.word()),
            _ => None,
        })
        .collect()
}
