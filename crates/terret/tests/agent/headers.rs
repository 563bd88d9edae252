//! What stands in a request's header, when it is written again, and what a restart takes over.

use std::sync::Arc;

use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Fact, HeaderReason, RequestHeader};
use terret::core::line::Event;
use terret::core::raw::Raw;
use terret::hook::{Listener, Next, Print, RequestPoint, Section};
use terret::model::script::ScriptAdapter;
use terret::model::{Adapter, ChunkStream, Outgoing, Prepared, Proposal, Providers};
use terret::store::MemoryStore;

use crate::failures::stored::conversation;
use crate::support::{Notes, builder, events, nap};

/// Changes the question.
struct Change<F>(F);

impl<Q: Print + Send + 'static, A: Print + Send + 'static, F: Fn(&mut Q) + Send + Sync> Listener<Q, A>
    for Change<F>
{
    fn call<'a>(&'a self, mut question: Q, next: Next<'a, Q, A>) -> futures_util::future::BoxFuture<'a, A> {
        (self.0)(&mut question);
        next.run(question)
    }
}

fn headers(log: &[Event]) -> Vec<RequestHeader> {
    let of = |e: &Event| match &e.fact {
        Fact::RequestHeader(header) => Some(header.clone()),
        _ => None,
    };
    log.iter().filter_map(of).collect()
}

fn log_of(store: &MemoryStore, agent: &terret::Agent) -> Vec<Event> {
    events(store.bytes(agent.id().as_str()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn system_text_that_changes_between_turns_is_a_new_header_and_a_whole_one() {
    let (store, turn) = (MemoryStore::default(), Arc::new(std::sync::atomic::AtomicU32::new(1)));
    let now = turn.clone();
    let add = move |sections: &mut Vec<Section>| {
        let text = format!("Turn {}.", now.load(std::sync::atomic::Ordering::SeqCst));
        sections.push(Section { name: "turn".into(), text });
    };
    let agent = builder("say hi")
        .store(store.clone())
        .identity("Be brief.")
        .seams(|s| s.prompt.add(Arc::new(Change(add))));
    let agent = agent.create(None).await.unwrap();
    for round in [1, 1, 2] {
        turn.store(round, std::sync::atomic::Ordering::SeqCst);
        agent.prompt("go").await.unwrap();
    }
    agent.shutdown().await.unwrap();
    let found: Vec<_> = headers(&log_of(&store, &agent))
        .into_iter()
        .map(|h| (h.turn, h.reason, h.header.system.unwrap()))
        .collect();
    let whole = |n: u32| format!("Be brief.\n\nTurn {n}.");
    assert_eq!(found, [(1, HeaderReason::Initial, whole(1)), (3, HeaderReason::Change, whole(2))]);
}

#[tokio::test(start_paused = true)]
async fn the_system_text_is_identity_then_tools_and_what_is_empty_is_absent() {
    let system = async |identity: &str, tool: bool| {
        let store = MemoryStore::default();
        let mut builder = builder("say hi").store(store.clone()).identity(identity);
        if tool {
            builder = builder.tool(nap(&Notes::default(), CallMode::Parallel));
        }
        let agent = builder.create(None).await.unwrap();
        agent.prompt("go").await.unwrap();
        agent.shutdown().await.unwrap();
        let log = store.bytes(agent.id().as_str()).unwrap();
        let line = String::from_utf8(log.clone()).unwrap();
        let line = line.lines().find(|l| l.contains("request/header")).unwrap().to_owned();
        (headers(&events(log)).remove(0).header.system, line)
    };
    // Text is text: nothing in it is filled in.
    let (both, _) = system("I am {{x}}.", true).await;
    assert!(both.unwrap().starts_with("I am {{x}}.\n\nTools:"));
    assert_eq!(system("I am.", false).await.0.as_deref(), Some("I am."));
    let (tools, _) = system("", true).await;
    assert!(tools.unwrap().starts_with("Tools:"), "an empty section leaves no gap");
    let (nothing, line) = system("", false).await;
    assert_eq!(nothing, None);
    assert!(!line.contains("\"system\"") && !line.contains("\"tools\""), "{line}");
}

/// Derives a limit where nobody names one.
struct Derives(&'static str);

impl Adapter for Derives {
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure> {
        let mut prepared = ScriptAdapter::new().with("test", "say hi")?.prepare(proposal)?;
        if !proposal.parameters.contains_key("limit") {
            prepared.parameters.insert("limit".into(), Raw::parse(self.0.to_owned()).unwrap());
            prepared.defaults.push("limit".into());
        }
        Ok(prepared)
    }
    fn stream(&self, request: Outgoing) -> ChunkStream {
        ScriptAdapter::new().with("test", "say hi").unwrap().stream(request)
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_adapter_derived_is_marked_and_derived_again() {
    let (store, mut id) = (MemoryStore::default(), None::<String>);
    for limit in ["1", "2"] {
        let models = Providers::new(Box::new(|_| None)).with_adapter("script", Derives(limit));
        let builder =
            terret::Agent::builder(Arc::new(models)).model("script:test").unwrap().store(store.clone());
        let agent = match id.take() {
            None => builder.create(None).await.unwrap(),
            Some(id) => builder.resume(&id).await.unwrap(),
        };
        agent.prompt("one").await.unwrap();
        agent.prompt("two").await.unwrap();
        agent.shutdown().await.unwrap();
        let found = headers(&log_of(&store, &agent));
        // One for each writer: the second request is the first one's equal.
        let last = &found.last().unwrap().header;
        assert_eq!((last.parameters["limit"].get(), &last.defaults[..]), (limit, &["limit".to_owned()][..]));
        assert_eq!(found.len() as u64, limit.parse::<u64>().unwrap());
        id = Some(agent.id().to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_takes_over_what_was_chosen_and_nothing_that_was_derived() {
    let store = MemoryStore::default();
    let choose = |point: &mut RequestPoint| {
        point.proposal.parameters.insert("top_p".into(), Raw::parse("0.5".to_owned()).unwrap());
    };
    let agent = builder("say hi")
        .store(store.clone())
        .parameter("temperature", Raw::parse("0.25".to_owned()).unwrap())
        .seams(|s| s.request.add(Arc::new(Change(choose))))
        .create(None)
        .await
        .unwrap();
    agent.prompt("one").await.unwrap();
    agent.shutdown().await.unwrap();
    let again = builder("say hi").store(store.clone()).resume(agent.id().as_str()).await.unwrap();
    again.prompt("two").await.unwrap();
    again.shutdown().await.unwrap();
    let found = headers(&log_of(&store, &agent));
    let [first, second] = &found[..] else { panic!("two headers") };
    assert_eq!(second.reason, HeaderReason::Resume);
    assert_eq!(first.header, second.header);
    for (name, value) in [("temperature", "0.25"), ("top_p", "0.5")] {
        assert_eq!(second.header.parameters[name].get(), value);
    }
}

#[tokio::test(start_paused = true)]
async fn rules_of_a_directory_are_told_once_when_they_change_and_when_they_are_gone() {
    let (store, dir) = (MemoryStore::default(), tempfile::tempdir().unwrap());
    let rules = dir.path().join("AGENTS.md");
    let agent = builder("say hi").store(store.clone()).cwd(dir.path()).create(None).await.unwrap();
    for text in [None, Some("A"), Some("A"), Some("B"), Some("B"), None, None, Some("B")] {
        match text {
            Some(text) => std::fs::write(&rules, text).unwrap(),
            None => drop(std::fs::remove_file(&rules)),
        }
        agent.prompt("go").await.unwrap();
    }
    agent.shutdown().await.unwrap();
    let log = log_of(&store, &agent);
    let told = log.iter().filter_map(|e| match &e.fact {
        Fact::UserMessage(user) if user.message.id.to_string().starts_with("instructions-") => {
            let text = user.message.text();
            let found = ["\nA\n", "\nB\n", "no longer applies"].map(|words| text.contains(words));
            Some((user.turn, found))
        }
        _ => None,
    });
    let (a, b, gone) = ([true, false, false], [false, true, false], [false, false, true]);
    // Of rules that never were there is nothing to say; of those that are gone there is, once.
    assert_eq!(told.collect::<Vec<_>>(), [(2, a), (4, b), (6, gone), (8, b)]);
    assert_eq!(conversation(&log).messages().rewrites(), 0, "what was told stays told");
}
