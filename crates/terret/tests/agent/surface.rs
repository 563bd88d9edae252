//! Replacing the past: whole closed steps or nothing.

use std::collections::{BTreeMap, BTreeSet};

use terret::Agent;
use terret::core::fact::{CallMode, Fact, SurfaceReplaced};
use terret::core::id::Seq;
use terret::core::input::Record;
use terret::core::line::Event;
use terret::core::message::{Block, Message, Role};
use terret::core::project::Request;
use terret::error::Error;
use terret::store::MemoryStore;

use crate::support::{Notes, builder, events, nap};

// A batch whose results come in another order than its calls.
const SCRIPT: &str = r#"
call nap {"note": "a", "ms": 30}
call nap {"note": "b", "ms": 20}
call nap {"note": "c", "ms": 10}
---
call nap {"note": "d", "ms": 1000}
---
say done
---
say more
"#;

/// The seqs of messages, by turn and step, as the facts themselves say.
fn steps(events: &[Event]) -> BTreeMap<(u32, u32), BTreeSet<Seq>> {
    let mut steps = BTreeMap::<_, BTreeSet<Seq>>::new();
    for event in events {
        let at = match &event.fact {
            Fact::UserMessage(user) => (user.turn, user.step),
            Fact::AssistantMessage(answer) => (answer.turn, answer.step),
            Fact::ToolResult(result) => (result.turn, result.step),
            _ => continue,
        };
        steps.entry(at).or_default().insert(event.seq);
    }
    steps
}

fn summary(id: &str) -> Message {
    Message::user(id, "what was before")
}

async fn replace(agent: &Agent, range: [Seq; 2], message: Message) -> Result<(), Error> {
    agent.record(Record::Surface(SurfaceReplaced { range, message, by: "test".into() })).await
}

/// Every pair of message seqs, and whether what lies between is whole steps.
fn ranges(steps: &BTreeMap<(u32, u32), BTreeSet<Seq>>) -> Vec<([Seq; 2], bool)> {
    let all: BTreeSet<Seq> = steps.values().flatten().copied().collect();
    let whole = |first: Seq, last: Seq| {
        let inside = |seq: &Seq| (first..=last).contains(seq);
        first <= last && steps.values().all(|step| step.iter().all(inside) || !step.iter().any(inside))
    };
    all.iter().flat_map(|a| all.iter().map(move |b| ([*a, *b], whole(*a, *b)))).collect()
}

async fn begun(store: &MemoryStore, id: &str) -> Agent {
    let tool = nap(&Notes::default(), CallMode::Parallel);
    builder(SCRIPT).store(store.clone()).tool(tool).create(Some(id.parse().unwrap())).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn of_every_range_exactly_those_of_whole_closed_steps_are_taken() {
    let store = MemoryStore::default();
    let agent = begun(&store, "s").await;
    agent.prompt("one").await.unwrap();
    agent.prompt("two").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = store.bytes("s").unwrap();
    let (mut taken, mut refused) = (0, 0);
    for (n, (range, whole)) in ranges(&steps(&events(log.clone()))).into_iter().enumerate() {
        let id = format!("copy{n}");
        store.put(&id, log.clone());
        let agent = builder(SCRIPT).store(store.clone()).resume(&id).await.unwrap();
        let answer = replace(&agent, range, summary("s")).await;
        assert_eq!(answer.is_ok(), whole, "{range:?}: {answer:?}");
        agent.shutdown().await.unwrap();
        let recorded =
            events(store.bytes(&id).unwrap()).iter().any(|e| matches!(e.fact, Fact::SurfaceReplaced(_)));
        assert_eq!(recorded, whole, "{range:?}");
        *(if whole { &mut taken } else { &mut refused }) += 1;
    }
    // Four steps make ten runs of whole steps.
    assert_eq!(taken, 10);
    assert!(refused > 100, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn no_request_after_a_replacement_has_a_call_without_its_result_or_the_other_way_round() {
    let store = MemoryStore::default();
    let agent = begun(&store, "s").await;
    agent.prompt("one").await.unwrap();
    let steps = steps(&events(store.bytes("s").unwrap()));
    let bounds = |at| [*steps[&at].first().unwrap(), *steps[&at].last().unwrap()];
    replace(&agent, bounds((1, 1)), summary("s1")).await.unwrap();
    // The summary itself is one message of a whole step; what it stands for is no longer there.
    let inner = [*steps[&(1, 1)].iter().nth(1).unwrap(), bounds((1, 2))[1]];
    assert!(matches!(replace(&agent, inner, summary("s2")).await, Err(Error::Refused(_))));
    replace(&agent, [bounds((1, 1))[0], bounds((1, 2))[1]], summary("s2")).await.unwrap();
    agent.prompt("two").await.unwrap();
    agent.shutdown().await.unwrap();
    let mut request = Request::default();
    events(store.bytes("s").unwrap()).iter().for_each(|event| request.fold(event));
    let texts: Vec<String> = request.messages().list().iter().map(|p| p.message.text()).collect();
    assert_eq!(texts[..2], ["what was before", "done"]);
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for block in request.messages().list().iter().flat_map(|p| &p.message.content) {
        match block {
            Block::ToolCall { call: Some(call), .. } => calls.push(*call),
            Block::ToolResult { call, .. } => results.push(*call),
            _ => {}
        }
    }
    // The script counts answers, so it plays its second step once more.
    assert_eq!((calls.len(), &calls), (1, &results));
}

#[tokio::test(start_paused = true)]
async fn the_open_step_and_replacements_that_call_are_refused() {
    let store = MemoryStore::default();
    let agent = begun(&store, "s").await;
    let one = agent.followup(agent.user("one")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let steps = steps(&events_of_open(&store));
    assert_eq!(steps.len(), 2, "the second step is open");
    let closed = [*steps[&(1, 1)].first().unwrap(), *steps[&(1, 1)].last().unwrap()];
    let open = *steps[&(1, 2)].last().unwrap();
    for range in [[open, open], [closed[0], open]] {
        let refused = replace(&agent, range, summary("s")).await.unwrap_err();
        assert!(refused.to_string().contains("the open step"), "{refused}");
    }
    let content = events_of_open(&store).into_iter().rev().find_map(|event| match event.fact {
        Fact::AssistantMessage(answer) => Some(answer.message.content),
        _ => None,
    });
    let calls = Message { role: Role::Assistant, content: content.unwrap(), ..summary("s") };
    let refused = replace(&agent, closed, calls).await.unwrap_err();
    assert!(refused.to_string().contains("neither calls nor results"), "{refused}");
    replace(&agent, closed, summary("s")).await.unwrap();
    one.settled().await.unwrap();
}

/// The events of a log that is still written.
fn events_of_open(store: &MemoryStore) -> Vec<Event> {
    events(store.bytes("s").unwrap())
}
