//! Every request, rebuilt at the moment it is sent: what goes out is what a stranger reads off the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use terret::agent::Builder;
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Cause, Fact, Header};
use terret::core::id::Digest;
use terret::core::input::Recovery;
use terret::core::project::Request;
use terret::hook::{Listener, Next, Plugin, RequestPoint, Seams, Section};
use terret::model::script::ScriptAdapter;
use terret::model::{ChunkStream, Outgoing, Proposal, Providers, codec, no_blobs};
use terret::policy::Retry;
use terret::store::{FileStore, Scan};
use terret::tool::Permissions;

use crate::support::{Notes, nap};

/// Answers in the order of the conversation, whichever model is asked.
const SCRIPT: &str = r#"
say let me look
call nap {"note": "slow", "ms": 30}
call nap {"note": "quick"}
---
say done one
---
fail SERVER once
say two
---
say three
---
say par
wait 60000
---
call nap {"note": "late"}
---
say six
"#;

/// What the requests are made of, changed between turns.
#[derive(Clone, Default)]
struct Choice {
    model: Arc<Mutex<Option<&'static str>>>,
    prompt: Arc<Mutex<String>>,
}

impl Plugin for Choice {
    fn name(&self) -> &str {
        "choice"
    }

    fn install(&self, seams: &mut Seams) {
        seams.request.add(Arc::new(self.clone()));
        seams.prompt.add(Arc::new(self.clone()));
    }
}

impl Listener<RequestPoint, Result<Proposal, Failure>> for Choice {
    fn call<'a>(
        &'a self,
        mut point: RequestPoint,
        next: Next<'a, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'a, Result<Proposal, Failure>> {
        if let Some(model) = *self.model.lock().unwrap() {
            point.proposal.model = model.to_owned();
        }
        next.run(point)
    }
}

impl Listener<Vec<Section>, Result<Vec<Section>, Failure>> for Choice {
    fn call<'a>(
        &'a self,
        mut sections: Vec<Section>,
        next: Next<'a, Vec<Section>, Result<Vec<Section>, Failure>>,
    ) -> BoxFuture<'a, Result<Vec<Section>, Failure>> {
        sections.push(Section { name: "own".into(), text: self.prompt.lock().unwrap().clone() });
        next.run(sections)
    }
}

/// Stands where requests leave and reads the file again, from its first byte, for each of them.
#[derive(Clone, Default)]
struct Witness {
    log: PathBuf,
    seen: Arc<Mutex<Vec<Value>>>,
    faults: Arc<Mutex<Vec<String>>>,
}

impl Plugin for Witness {
    fn name(&self) -> &str {
        "witness"
    }

    fn install(&self, seams: &mut Seams) {
        seams.stream.add(Arc::new(self.clone()));
    }
}

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Witness {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        let log = std::fs::read(&self.log).unwrap();
        let mut faults = by_hand(&log, &outgoing);
        faults.extend(by_projection(&log, &outgoing));
        let number = self.seen.lock().unwrap().len() + 1;
        self.faults.lock().unwrap().extend(faults.iter().map(|fault| format!("request {number}: {fault}")));
        self.seen.lock().unwrap().push(serde_json::from_slice(outgoing.body()).unwrap());
        next.run(outgoing).boxed()
    }
}

/// Compares with what the lines say when read as plain JSON, by rules written down a second time here.
fn by_hand(log: &[u8], outgoing: &Outgoing) -> Vec<String> {
    let sent: Value = serde_json::from_slice(outgoing.body()).unwrap();
    let (header, messages) = (conversation::header(log), conversation::messages(log));
    let mut faults = Vec::new();
    for (field, value) in sent["header"].as_object().unwrap() {
        if header.get(field) != Some(value) {
            faults.push(format!("header.{field}: sent {value}, in the log {:?}", header.get(field)));
        }
    }
    if header.as_object().unwrap().len() != sent["header"].as_object().unwrap().len() {
        faults.push("the header in the log has other fields".into());
    }
    let sent = sent["messages"].as_array().unwrap();
    if sent.len() != messages.len() {
        faults.push(format!("{} messages sent, {} in the log", sent.len(), messages.len()));
    }
    for (at, (sent, logged)) in sent.iter().zip(&messages).enumerate() {
        for field in ["id", "role", "content", "source"] {
            if sent[field] != logged[field] {
                faults.push(format!("message {at}.{field}: sent {}, logged {}", sent[field], logged[field]));
            }
        }
    }
    faults
}

/// Compares digests and bytes with a fresh fold of the file.
fn by_projection(log: &[u8], outgoing: &Outgoing) -> Vec<String> {
    let mut scan = Scan::new(log, Path::new("log")).unwrap();
    let (mut request, mut last) = (Request::default(), None);
    while let Some(event) = scan.next_event().unwrap() {
        let event = event.unwrap();
        request.fold(&event);
        last = Some(event);
    }
    let header: Arc<Header> = request.header().unwrap().clone();
    let mut body = codec(&header.wire).unwrap().begin(&header).unwrap();
    request.messages().list().iter().for_each(|projected| body.push(&projected.message, &no_blobs).unwrap());
    let Some(Fact::RequestAttempt(attempt)) = last.map(|event| event.fact) else {
        return vec!["the file does not end with the attempt".into()];
    };
    let checks = [
        ("header", *header == **outgoing.header()),
        ("bytes", body.bytes() == *outgoing.body()),
        ("attempt", attempt == *outgoing.attempt()),
        ("digest", attempt.digest == request.digest(&header)),
        ("wire digest", attempt.wire_digest == Some(Digest::of(outgoing.body()))),
        ("length", attempt.bytes == Some(outgoing.body().len() as u64)),
    ];
    checks.iter().filter(|(_, same)| !same).map(|(what, _)| format!("{what} differs")).collect()
}

/// A reader of logs that shares no code with the one it checks.
mod conversation {
    use super::{BTreeMap, Value};

    fn lines(log: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(log).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) fn header(log: &[u8]) -> Value {
        let of = |line: &Value| line["type"] == "request/header";
        lines(log).iter().rfind(|line| of(line)).unwrap()["data"]["header"].clone()
    }

    /// Messages of steps that were admitted whole; results stand behind their answer, in the order of its calls.
    pub(super) fn messages(log: &[u8]) -> Vec<Value> {
        let (mut out, mut step, mut owed) = (Vec::new(), Vec::new(), 0);
        let mut results: BTreeMap<String, Value> = BTreeMap::new();
        let mut calls: Vec<String> = Vec::new();
        for line in lines(log) {
            let data = &line["data"];
            match line["type"].as_str().unwrap() {
                "step/start" => (step, owed) = (Vec::new(), data["admits"].as_u64().unwrap()),
                "user/message" => {
                    step.push(data["message"].clone());
                    if step.len() as u64 == owed {
                        out.append(&mut step);
                    }
                }
                "assistant/message" => {
                    // What says nothing is not sent again.
                    if !data["message"]["content"].as_array().unwrap().is_empty() {
                        out.push(data["message"].clone());
                    }
                    let called = data["calls"].as_array().unwrap().iter();
                    calls = called.map(|call| call["call"].as_str().unwrap().to_owned()).collect();
                }
                "tool/result" => {
                    results.insert(data["call"].as_str().unwrap().to_owned(), data.clone());
                }
                "step/end" => {
                    for call in std::mem::take(&mut calls) {
                        out.push(result(&call, &results[&call]));
                    }
                }
                _ => {}
            }
        }
        out
    }

    fn result(call: &str, data: &Value) -> Value {
        let mut block = serde_json::json!({
            "type": "tool-result", "call": call, "content": data["content"], "is_error": data["outcome"] != "ok",
        });
        if data["outcome"] == "ok" {
            block.as_object_mut().unwrap().remove("is_error");
        }
        serde_json::json!({
            "id": format!("result-{call}"), "role": "user", "content": [block],
            "source": {"type": "tool", "call": call},
        })
    }
}

fn builder(home: &Path, choice: &Choice, witness: &Witness) -> Builder {
    let player = ScriptAdapter::new().with("test", SCRIPT).unwrap().with("other", SCRIPT).unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
    terret::Agent::builder(Arc::new(models))
        .default_model("script:test")
        .unwrap()
        .store(FileStore::new(home))
        .permissions(Permissions::Full)
        .plugin(Retry { max: 3, base_ms: 1, ..Retry::default() })
        .plugin(choice.clone())
        .plugin(witness.clone())
}

#[tokio::test]
async fn what_is_sent_is_what_the_file_says_at_that_moment() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("s/log.jsonl");
    let (choice, notes) = (Choice::default(), Notes::default());
    let witness = Witness { log: log.clone(), ..Witness::default() };

    let first = builder(home.path(), &choice, &witness).tool(nap(&notes, CallMode::Parallel));
    let agent = first.create(Some("s".parse().unwrap())).await.unwrap();
    assert_eq!(agent.prompt("across tool steps").await.unwrap().text, "done one");
    *choice.prompt.lock().unwrap() = "Be brief.".into();
    assert_eq!(agent.prompt("a changed prompt, and a retry").await.unwrap().text, "two");
    *choice.model.lock().unwrap() = Some("other");
    assert_eq!(agent.prompt("another route").await.unwrap().text, "three");
    let cut = agent.followup(agent.user("to be cancelled")).await.unwrap();
    while !std::fs::read_to_string(&log).unwrap().contains("\"par\"") {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    agent.cancel(Cause::User { text: None }).await.unwrap();
    cut.settled().await.unwrap();
    agent.shutdown().await.unwrap();

    // Another process, with other tools.
    let more = || {
        let other =
            terret::tool::tool("other", "Not there before.", |_: Nothing| async { Ok::<_, String>("") });
        builder(home.path(), &choice, &witness).tool(nap(&notes, CallMode::Parallel)).tool(other)
    };
    let agent = more().resume("s").await.unwrap();
    assert_eq!(agent.prompt("after a resume, with other tools").await.unwrap().text, "six");
    agent.shutdown().await.unwrap();

    // The same once more, dead between a call and its result.
    let text = std::fs::read_to_string(&log).unwrap();
    let at = text.rfind("\"type\":\"tool/result\"").unwrap();
    let crashed = &text[..text[..at].rfind('\n').unwrap() + 1];
    std::fs::write(&log, crashed).unwrap();
    let agent = more().resume("s").await.unwrap();
    agent.recover(Recovery::ResumeTurn { keyed: Vec::new() }).await.unwrap();
    let outcome = agent.when_idle().await.unwrap().last.unwrap();
    assert_eq!(outcome.text, "six");
    agent.shutdown().await.unwrap();

    assert_eq!(*witness.faults.lock().unwrap(), Vec::<String>::new());
    let seen = witness.seen.lock().unwrap();
    assert_eq!(seen.len(), 9, "2 + 2 + 1 + 1 + 2 + 1 requests");
    let field = |name: &str| seen.iter().map(|body| body["header"][name].clone()).collect::<Vec<_>>();
    assert_ne!(field("system")[1], field("system")[2], "the prompt changed");
    assert_ne!(field("model")[3], field("model")[4], "the route changed");
    assert_ne!(field("tools")[5], field("tools")[6], "the tools changed");
    assert_eq!(seen[2], seen[3], "a retry asks the same");
    let failed =
        |body: &Value| body["messages"].as_array().unwrap().last().unwrap()["content"][0]["is_error"] == true;
    assert!(failed(&seen[8]) && !failed(&seen[7]), "nobody knows how the orphaned call ended");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}
