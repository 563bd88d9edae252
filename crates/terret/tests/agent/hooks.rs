//! What plugins change at the seams, and what the log says of it.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::core::chunk::Failure;
use terret::core::fact::{CallMode, Fact, Lane, Outcome};
use terret::core::line::Event;
use terret::core::message::{Block, Form, Message, Role, Source};
use terret::core::raw::Raw;
use terret::hook::{Executed, Listener, Next, PreStep, Print, RequestPoint, Seams, Verdict};
use terret::model::Proposal;
use terret::store::MemoryStore;
use terret::tool::{Call, Done, FunctionTool, tool_with_call};

use crate::failures::stored::conversation;
use crate::support::{Nap, Notes, builder, events, nap};

/// A listener from a function over the question and the rest of the chain.
struct By<F>(F);

impl<Q: Print + Send + 'static, A: Print + Send + 'static, F> Listener<Q, A> for By<F>
where
    F: for<'a> Fn(Q, Next<'a, Q, A>) -> BoxFuture<'a, A> + Send + Sync,
{
    fn call<'a>(&'a self, question: Q, next: Next<'a, Q, A>) -> BoxFuture<'a, A> {
        (self.0)(question, next)
    }
}

fn by<Q, A, F>(f: F) -> Arc<By<F>>
where
    F: for<'a> Fn(Q, Next<'a, Q, A>) -> BoxFuture<'a, A> + Send + Sync,
{
    Arc::new(By(f))
}

fn notice(id: &str, text: &str) -> Message {
    let source = Source::Plugin { plugin: "page".into(), form: Form::Notice };
    Message { id: id.into(), role: Role::User, content: vec![Block::text(text)], source }
}

/// What a turn whose model calls `nap` once leaves in the log.
async fn turn(tool: FunctionTool, install: impl FnOnce(&mut Seams)) -> Vec<Event> {
    let (store, script) =
        (MemoryStore::default(), "call nap {\"note\": \"a\"}\n---\nsay done\n---\nsay more");
    let agent = builder(script).store(store.clone()).tool(tool).seams(install).create(None).await.unwrap();
    assert_eq!(agent.prompt("go").await.unwrap().ending.word(), "completed");
    agent.shutdown().await.unwrap();
    events(store.bytes(agent.id().as_str()).unwrap())
}

fn a_nap() -> FunctionTool {
    nap(&Notes::default(), CallMode::Parallel)
}

fn texts(log: &[Event]) -> Vec<String> {
    conversation(log).messages().list().iter().map(|p| p.message.text()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pre_step_rewrites_and_adds_and_the_original_stays_in_the_queue_event() {
    fn rewrite(
        mut q: PreStep,
        next: Next<'_, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'_, Result<Verdict, Failure>> {
        if q.step == 1 {
            q.messages = vec![Message::user(&*q.messages[1].id.0, "rewritten"), notice("more", "and more")];
        }
        next.run(q)
    }
    let log = turn(a_nap(), |s| s.pre_step.add(by(rewrite))).await;
    assert_eq!(texts(&log)[..2], ["rewritten", "and more"]);
    let added = log.iter().find_map(|e| match &e.fact {
        Fact::InboxAdded(added) => Some(added.message.text()),
        _ => None,
    });
    assert_eq!(added.as_deref(), Some("go"));
    let who = log.iter().any(|e| matches!(&e.fact, Fact::SeamChanged(s) if &*s.seam == "agent/pre-step"));
    assert!(who, "who did it is in the log");
}

#[tokio::test(start_paused = true)]
async fn a_message_keeps_its_source_and_its_bytes_on_the_way_to_the_model() {
    let store = MemoryStore::default();
    let agent = builder("say hi").store(store.clone()).create(None).await.unwrap();
    let relay = Source::Plugin { plugin: "mail".into(), form: Form::Relay };
    let sent = Message { source: relay, ..notice("letter", "dear  \"you\"\n") };
    agent.handle().send(sent.clone(), Lane::NextTurn, true).await.unwrap().settled().await.unwrap();
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let found = log.iter().filter_map(|e| match &e.fact {
        Fact::InboxAdded(added) => Some(&added.message),
        Fact::UserMessage(user) if &*user.message.id.0 == "letter" => Some(&user.message),
        _ => None,
    });
    let found: Vec<Vec<u8>> = found.map(|m| serde_json::to_vec(m).unwrap()).collect();
    assert_eq!(found, [serde_json::to_vec(&sent).unwrap(), serde_json::to_vec(&sent).unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn what_is_injected_while_a_request_is_made_joins_the_next_step() {
    fn inject(
        q: RequestPoint,
        next: Next<'_, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'_, Result<Proposal, Failure>> {
        let (agent, step, rest) = (q.agent.clone(), q.step, next.run(q));
        async move {
            if step == 2 {
                agent.send(notice("late", "late"), Lane::NextStep, false).await.unwrap();
            }
            rest.await
        }
        .boxed()
    }
    let log = turn(a_nap(), |s| s.request.add(by(inject))).await;
    let entered = log.iter().find_map(|e| match &e.fact {
        Fact::UserMessage(user) if &*user.message.id.0 == "late" => Some((user.turn, user.step)),
        _ => None,
    });
    assert_eq!(entered, Some((1, 3)), "not in the request it came in");
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_says_nothing_leaves_it_to_the_next_and_one_denial_is_enough() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (asked.clone(), asked.clone());
    let log = turn(a_nap(), |s| {
        s.guards.add(Arc::new(move |_| {
            first.lock().unwrap().push("first");
            None
        }));
        s.guards.add(Arc::new(move |_| {
            second.lock().unwrap().push("second");
            Some("not today".into())
        }));
        s.guards.add(Arc::new(|_| panic!("nobody is asked behind a denial")));
    })
    .await;
    let result = log.iter().find_map(|e| match &e.fact {
        Fact::ToolResult(result) => Some((result.outcome, texts_of(&result.content))),
        _ => None,
    });
    assert_eq!(result, Some((Outcome::Denied, "not today".into())));
    assert_eq!(*asked.lock().unwrap(), ["first", "second"]);
}

fn texts_of(content: &[Block]) -> String {
    let text = |block: &Block| match block {
        Block::Text { text, .. } => text.clone(),
        other => format!("{other:?}"),
    };
    content.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_result_can_be_replaced_and_its_contexts_come_inner_ones_first() {
    fn outer(executed: Executed, next: Next<'_, Executed, Executed>) -> BoxFuture<'_, Executed> {
        let rest = next.run(executed);
        async move {
            let mut executed = rest.await;
            executed.done = Done::error("gate", "withheld", "you may not see this");
            executed.contexts.push(notice("outer", "outer"));
            executed
        }
        .boxed()
    }
    fn inner(mut executed: Executed, next: Next<'_, Executed, Executed>) -> BoxFuture<'_, Executed> {
        executed.contexts.push(notice("inner", "inner"));
        next.run(executed)
    }
    let log = turn(a_nap(), |s| {
        s.post_execute.add(by(outer));
        s.post_execute.add(by(inner));
    })
    .await;
    assert_eq!(texts(&log)[4..6], ["inner", "outer"]);
    let result = log.iter().find_map(|e| match &e.fact {
        Fact::ToolResult(r) => Some((r.outcome, texts_of(&r.content), r.error.clone().unwrap().code)),
        _ => None,
    });
    assert_eq!(result, Some((Outcome::Error, "you may not see this".into(), "withheld".into())));
}

#[tokio::test(start_paused = true)]
async fn what_programs_read_of_a_result_is_in_the_log_and_not_in_the_request() {
    let tool = tool_with_call("nap", "Answers with data.", |_: Nap, _: Call| async {
        Done::ok("two files").with_data(Raw::parse(r#"{"files":2}"#.to_owned()).unwrap())
    });
    let log = turn(tool, |_| {}).await;
    let data = log.iter().find_map(|e| match &e.fact {
        Fact::ToolResult(result) => result.data.clone(),
        _ => None,
    });
    assert_eq!(data.unwrap().get(), r#"{"files":2}"#);
    let sent = format!("{:?}", conversation(&log).messages().list());
    assert!(sent.contains("two files") && !sent.contains("\"files\""), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn two_contexts_of_one_id_cost_no_result() {
    fn twice(mut executed: Executed, next: Next<'_, Executed, Executed>) -> BoxFuture<'_, Executed> {
        executed.contexts = vec![notice("same", "first"), notice("same", "second")];
        next.run(executed)
    }
    let log = turn(a_nap(), |s| s.post_execute.add(by(twice))).await;
    let results = log.iter().filter(|e| matches!(e.fact, Fact::ToolResult(_))).count();
    assert_eq!(results, 1);
    let ids: Vec<String> = log
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::InboxAdded(added) => Some(added.message.id.to_string()),
            _ => None,
        })
        .collect();
    let mut once = ids.clone();
    once.dedup();
    assert_eq!(ids, once, "ids are unique over a session");
}
