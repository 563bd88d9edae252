//! Summaries in the place of history (`surface/replaced`): what a range may cover, and what a summary that fails or
//! comes late leaves behind.

use std::time::Duration;

use terret::core::fact::{CallMode, Cause, Fact, SurfaceReplaced};
use terret::core::id::Seq;
use terret::core::input::Record;
use terret::core::message::{Block, Form, Message, Role, Source};
use terret::error::Error;
use terret::store::MemoryStore;

use super::server::Server;
use super::stored::{self, ID, conversation};
use crate::support::{Notes, builder, events, nap};

const ANSWER: &str = include_str!("018/r2.sse");

fn summary(range: [Seq; 2], text: &str) -> Record {
    let source = Source::Plugin { plugin: "compact".into(), form: Form::Notice };
    let (id, content) = (format!("summary-{}-{}", range[0], range[1]), vec![Block::text(text)]);
    let message = Message { id: id.as_str().into(), role: Role::User, content, source };
    Record::Surface(SurfaceReplaced { range, message, by: "compact".into() })
}

/// A step with two calls side by side. Every range that would part a call from its results, or one result from the
/// other, is refused and changes nothing; every range of whole steps gives a request a server takes.
#[tokio::test]
async fn case_063_no_cut_inside_a_batch_of_calls() {
    let log = stored::log(include_str!("063.facts"));
    let told = events(log.clone());
    let place =
        |wanted: &'static str| told.iter().filter(move |e| e.fact.type_name() == wanted).map(|e| e.seq);
    let (prompt, answers) = (place("user/message").next().unwrap(), place("assistant/message"));
    let [batch, last] = answers.collect::<Vec<_>>()[..] else { panic!("two answers") };
    let [one, two] = place("tool/result").collect::<Vec<_>>()[..] else { panic!("two results") };
    let messages = [prompt, batch, one, two, last];
    // The first step is one unit: the prompt that opened it, the answer, both results. The second is another.
    let whole = [[prompt, two], [prompt, last], [last, last]];
    for first in messages {
        for end in messages.into_iter().filter(|end| first <= *end) {
            let store = MemoryStore::default();
            store.put(ID, log.clone());
            let server = Server::playing([ANSWER]).await;
            let agent = server.agent().store(store.clone()).resume(ID).await.unwrap();
            let recorded = agent.record(summary([first, end], "so far")).await;
            if whole.contains(&[first, end]) {
                recorded.unwrap();
            } else {
                assert!(matches!(recorded, Err(Error::Refused(_))), "{first}..{end}: {recorded:?}");
            }
            agent.prompt("next").await.unwrap();
            agent.shutdown().await.unwrap();
            // `requests` checks that calls and results are paired.
            let sent = server.requests()[0]["messages"].as_array().unwrap().clone();
            let summed = sent.iter().any(|m| m["content"] == "so far");
            assert_eq!(summed, whole.contains(&[first, end]), "{first}..{end}");
            assert_eq!(sent.last().unwrap()["content"], "next");
        }
    }
}

/// A result that recovery wrote belongs to its call like any other: the same ranges are refused.
#[tokio::test(start_paused = true)]
async fn case_063_a_result_of_recovery_is_part_of_the_batch() {
    let store = MemoryStore::default();
    store.put(ID, stored::log(include_str!("012.facts")));
    let agent = builder("say hi").store(store.clone()).resume(ID).await.unwrap();
    agent.recover(terret::core::input::Recovery::Close).await.unwrap();
    let told = events(store.bytes(ID).unwrap());
    let results: Vec<Seq> =
        told.iter().filter(|e| matches!(e.fact, Fact::ToolResult(_))).map(|e| e.seq).collect();
    let prompt = told.iter().find(|e| matches!(e.fact, Fact::UserMessage(_))).unwrap().seq;
    let recorded = agent.record(summary([prompt, results[0]], "so far")).await;
    assert!(matches!(recorded, Err(Error::Refused(_))), "{recorded:?}");
    agent.record(summary([prompt, results[1]], "so far")).await.unwrap();
    agent.prompt("next").await.unwrap();
    agent.shutdown().await.unwrap();
    let request = conversation(&events(store.bytes(ID).unwrap()));
    assert_eq!(request.messages().list()[0].message.text(), "so far");
}

/// A summary of an earlier turn that comes while later steps run touches nothing behind its range; one that comes when
/// the turn is closing is refused. Either way the turn is what it was.
#[tokio::test(start_paused = true)]
async fn case_066_a_summary_that_comes_late_leaves_the_running_turn_alone() {
    let script = "say one\n---\ncall nap {\"note\": \"a\", \"ms\": 1000}\n---\ncall nap {\"note\": \"b\", \"ms\": 1000}\n---\nsay done";
    for cancelled in [false, true] {
        let store = MemoryStore::default();
        let tool = nap(&Notes::default(), CallMode::Parallel);
        let agent = builder(script).store(store.clone()).tool(tool).create(None).await.unwrap();
        agent.prompt("first").await.unwrap();
        let told = events(store.bytes(agent.id().as_str()).unwrap());
        let inside = |e: &&terret::core::line::Event| {
            matches!(e.fact, Fact::UserMessage(_) | Fact::AssistantMessage(_))
        };
        let range = [told.iter().find(inside).unwrap().seq, told.iter().rfind(inside).unwrap().seq];

        let receipt = agent.followup(agent.user("work")).await.unwrap();
        // The summary was asked for before the turn, and is there when its second step runs.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        if cancelled {
            agent.cancel(Cause::User { text: None }).await.unwrap();
            let recorded = agent.record(summary(range, "late")).await;
            assert!(matches!(recorded, Err(Error::Refused(_))), "{recorded:?}");
        } else {
            agent.record(summary(range, "late")).await.unwrap();
        }
        let terret::agent::Settlement::Ended(outcome) = receipt.settled().await.unwrap() else { panic!() };
        assert_eq!(outcome.ending.word(), if cancelled { "aborted" } else { "completed" });
        agent.shutdown().await.unwrap();
        let log = events(store.bytes(agent.id().as_str()).unwrap());
        let request = conversation(&log);
        let ids: Vec<String> = request.messages().list().iter().map(|p| p.message.id.to_string()).collect();
        assert_eq!(ids.iter().any(|id| id.starts_with("summary-")), !cancelled);
        // Everything of the second turn is there, in its order.
        let second = ["answer-2.1.1", "result-2.1.0", "answer-2.2.1", "result-2.2.0"];
        let found: Vec<&str> = ids.iter().map(String::as_str).filter(|id| second.contains(id)).collect();
        assert_eq!(found, second);
    }
}

/// A summary that came out empty is refused, however empty it is: what it should stand for is still there.
#[tokio::test(start_paused = true)]
async fn case_066_a_summary_that_came_out_empty_erases_nothing() {
    let store = MemoryStore::default();
    let agent = builder("say one\n---\nsay two").store(store.clone()).create(None).await.unwrap();
    agent.prompt("first").await.unwrap();
    let log = || events(store.bytes(agent.id().as_str()).unwrap());
    let seqs: Vec<Seq> = conversation(&log()).messages().list().iter().map(|p| p.seq).collect();
    let range = [seqs[0], seqs[2]];
    let thought = Block::Reasoning { text: "what was it about?".into(), provider: None };
    let empty = [vec![], vec![Block::text("")], vec![Block::text(" \n"), Block::text("")], vec![thought]];
    for content in empty {
        let Record::Surface(mut replaced) = summary(range, "so far") else { panic!() };
        replaced.message.content = content.clone();
        let refused = agent.record(Record::Surface(replaced)).await.unwrap_err();
        assert!(
            matches!(refused, Error::Refused(why) if why.contains("says something")),
            "{content:?}: {refused}"
        );
    }
    agent.prompt("second").await.unwrap();
    let kept: Vec<Seq> = conversation(&log()).messages().list().iter().map(|p| p.seq).take(3).collect();
    assert_eq!(kept, seqs);
    agent.record(summary(range, "so far")).await.unwrap();
    agent.shutdown().await.unwrap();
    assert_eq!(conversation(&log()).messages().list()[0].message.text(), "so far");
}

/// What a summary took away and the model still needs is told again: here the environment, which stood in the first
/// turn.
#[tokio::test(start_paused = true)]
async fn case_063_context_that_a_summary_took_away_is_told_again() {
    let store = MemoryStore::default();
    let agent = builder("say one\n---\nsay two").store(store.clone()).create(None).await.unwrap();
    agent.prompt("first").await.unwrap();
    let told = events(store.bytes(agent.id().as_str()).unwrap());
    let message =
        |e: &&terret::core::line::Event| matches!(e.fact, Fact::UserMessage(_) | Fact::AssistantMessage(_));
    let range = [told.iter().find(message).unwrap().seq, told.iter().rfind(message).unwrap().seq];
    agent.record(summary(range, "so far")).await.unwrap();
    agent.prompt("second").await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let request = conversation(&log);
    let texts: Vec<String> = request.messages().list().iter().map(|p| p.message.text()).collect();
    assert_eq!((texts[0].as_str(), texts[2].as_str()), ("so far", "second"));
    assert!(texts[1].contains("<environment>"), "{texts:?}");
}
