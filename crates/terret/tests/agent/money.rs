//! A budget in dollars: what it counts, what it does not let out, and that it never takes unknown for nothing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use terret::agent::{Agent, Builder, Outcome};
use terret::core::chunk::{Chunk, Failure, Usage, code};
use terret::core::fact::{CallMode, Cause, EndReason, Fact};
use terret::core::price::Usd;
use terret::core::project::{Gap, Spending};
use terret::hook::{Listener, Next, RequestPoint};
use terret::model::script::ScriptAdapter;
use terret::model::{ChunkStream, ModelSettings, Outgoing, Proposal, Providers};
use terret::policy::{Budget, Meter, Retry};
use terret::store::MemoryStore;

use crate::support::{Notes, events, nap, types};

/// Dollars per million tokens, in and out.
fn price(input: &str, output: &str) -> ModelSettings {
    let rate = |text: &str| Some(text.parse().unwrap());
    ModelSettings { input: rate(input), output: rate(output), ..ModelSettings::default() }
}

/// Plays `script` as two models of one provider: `test` has a price, `other` has none.
fn builder(script: &str) -> Builder {
    let player = ScriptAdapter::new().with("test", script).unwrap().with("other", script).unwrap();
    let models = Providers::new(Box::new(|_| None)).with_adapter("script", player).with_model(
        "script",
        "test",
        price("2", "8"),
    );
    let retry = Retry { max: 3, base_ms: 1, ..Retry::default() };
    Agent::builder(Arc::new(models)).model("script:test").unwrap().plugin(retry)
}

fn dollars(text: &str) -> Budget {
    Budget { cost: Some(text.parse().unwrap()), ..Budget::default() }
}

async fn outcome(builder: Builder) -> Outcome {
    builder.create(None).await.unwrap().prompt("go").await.unwrap()
}

async fn ending(builder: Builder) -> EndReason {
    outcome(builder).await.ending
}

/// One step: 100 × 2 + 50 × 8 millionths.
const STEP: &str =
    "call nap {\"note\": \"a\"}\nusage input=100 output=50\n---\nsay done\nusage input=100 output=50";

#[tokio::test(start_paused = true)]
async fn a_turn_that_has_cost_its_budget_takes_no_further_step() {
    let with = async |budget: &str| {
        let tool = nap(&Notes::default(), CallMode::Exclusive);
        let outcome = outcome(builder(STEP).tool(tool).plugin(dollars(budget))).await;
        (outcome.ending, outcome.steps)
    };
    let stopped = |limit| EndReason::Aborted { cause: Cause::Budget { which: "cost".into(), limit } };
    assert_eq!(with("0.0006").await, (stopped(600), 1));
    // The last step may go over it: nobody knows before what an answer costs.
    assert_eq!(with("0.000601").await, (EndReason::Completed, 2));
    assert_eq!(with("1").await, (EndReason::Completed, 2));
    assert_eq!(with("0").await, (stopped(0), 0));
}

struct Other;

impl Listener<RequestPoint, Result<Proposal, Failure>> for Other {
    fn call<'a>(
        &'a self,
        mut point: RequestPoint,
        next: Next<'a, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'a, Result<Proposal, Failure>> {
        if point.step > 1 {
            point.proposal.model = "other".into();
        }
        next.run(point)
    }
}

/// A plugin may choose another model in the middle of a turn. Without a price it is not asked.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_price_does_not_go_out() {
    let store = MemoryStore::default();
    let tool = nap(&Notes::default(), CallMode::Exclusive);
    let builder = builder(STEP).tool(tool).plugin(dollars("5")).store(store.clone());
    let agent = builder.seams(|seams| seams.request.add(Arc::new(Other))).create(None).await.unwrap();
    let EndReason::Error { failure } = agent.prompt("go").await.unwrap().ending else {
        panic!("it was asked")
    };
    assert_eq!(failure.code, code::NO_PRICE);
    assert!(failure.message.contains("[models.\"script/other\"]"), "{}", failure.message);
    agent.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    let last = types(&log);
    assert!(
        last.ends_with(&[
            "request/attempt",
            "seam/changed",
            "request/failed",
            "step/end",
            "turn/end",
            "writer/idle"
        ]),
        "{last:?}"
    );
    // The log says what was known of each route.
    let contexts = log.iter().filter_map(|event| match &event.fact {
        Fact::RequestContext(context) => {
            Some((context.model.as_str(), context.prices.is_some(), context.table.is_some()))
        }
        _ => None,
    });
    assert_eq!(contexts.collect::<Vec<_>>(), [("test", true, true), ("other", false, false)]);
    // And what was spent is the first step, worked out from it alone.
    let mut spending = Spending::default();
    log.iter().for_each(|event| spending.fold(event));
    assert_eq!(spending.whole(), Some(Usd::from_micros(600)));
}

struct Uncounted;

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Uncounted {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        async move {
            let stream = next.run(outgoing).await?;
            let counted = |chunk: &Chunk| matches!(chunk, Chunk::Usage { .. });
            let without = move |chunks: Vec<Chunk>| chunks.into_iter().filter(|c| !counted(c)).collect();
            Ok(stream.map(move |item| item.map(without)).boxed())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_counted_is_not_free() {
    let tool = nap(&Notes::default(), CallMode::Exclusive);
    let meter = Meter::default();
    let builder = builder(STEP).tool(tool).plugin(dollars("5")).seams(|seams| {
        meter.listen(seams);
        seams.stream.add(Arc::new(Uncounted));
    });
    let EndReason::Aborted { cause: Cause::Hook { plugin, reason } } = ending(builder).await else {
        panic!("it went on")
    };
    assert_eq!(plugin, "budget");
    assert!(reason.contains("without its tokens"), "{reason}");
    assert_eq!((meter.read().whole(), meter.read().gap()), (None, Some(Gap::NoUsage)));
}

/// Counts every stream before it says anything, as some wires do.
struct Counted;

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Counted {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        async move {
            let usage = Usage { input_tokens: 100, output_tokens: 50, ..Usage::default() };
            let first = futures_util::stream::iter([Ok(vec![Chunk::Usage { usage }])]);
            Ok(first.chain(next.run(outgoing).await?).boxed())
        }
        .boxed()
    }
}

/// An attempt that failed is paid for too, and the budget holds between attempts of one step.
#[tokio::test(start_paused = true)]
async fn failed_attempts_count() {
    let with = |budget: &str| {
        let meter = Meter::default();
        let builder = builder("fail SERVER times=9 broken").plugin(dollars(budget)).seams(|seams| {
            meter.listen(seams);
            seams.stream.add(Arc::new(Counted));
        });
        async move {
            let ended = ending(builder).await;
            // They were cut: what they counted is the least they cost.
            assert_eq!((meter.read().gap(), meter.read().whole()), (Some(Gap::Cut), None));
            (ended, meter.read().at_least())
        }
    };
    let (ended, spent) = with("0.0012").await;
    let cause = Cause::Budget { which: "cost".into(), limit: 1200 };
    assert_eq!((ended, spent), (EndReason::Aborted { cause }, Usd::from_micros(1200)));
    // Without the budget in its way the fourth attempt is the last.
    let (ended, spent) = with("1").await;
    assert_eq!((ended.word(), spent), ("error", Usd::from_micros(2400)));
}

/// The price may stand in the log from long ago; a budget that comes later still counts by it.
#[tokio::test(start_paused = true)]
async fn a_resumed_session_is_counted_by_the_price_in_its_log() {
    let store = MemoryStore::default();
    let make = || builder(STEP).tool(nap(&Notes::default(), CallMode::Exclusive)).store(store.clone());
    let agent = make().create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    let meter = Meter::default();
    let budget = dollars("0.0006");
    let again =
        make().plugin(budget).seams(|seams| meter.listen(seams)).resume(agent.id().as_str()).await.unwrap();
    let ended = again.prompt("go on").await.unwrap().ending;
    assert_eq!(ended, EndReason::Aborted { cause: Cause::Budget { which: "cost".into(), limit: 600 } });
    // What the first run spent is not this one's.
    assert_eq!(meter.read().whole(), Some(Usd::from_micros(600)));
    again.shutdown().await.unwrap();
    let log = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(types(&log).iter().filter(|name| **name == "request/context").count(), 1);
}
