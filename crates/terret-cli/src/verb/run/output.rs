//! What a run prints on stdout: the answer, one object, or the log itself.

use serde_json::{Value, json};
use terret::agent::{Agent, Reading, Subscription};
use terret::core::chunk::Usage;
use terret::core::price::Usd;
use terret::core::project::TurnSummary;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::args::{self, Format};
use crate::problem::{Problem, exit};
use crate::render;

/// What goes to stdout.
pub(super) enum Output {
    Text,
    /// Whether a schema says what the answer has to be.
    Json {
        has_schema: bool,
    },
    Stream(JoinHandle<Result<(), Problem>>),
}

impl Output {
    pub(super) async fn start(args: &args::Run, agent: &Agent) -> Result<Self, Problem> {
        let format = if args.json { Format::StreamJson } else { args.output_format };
        Ok(match format {
            Format::Text => Output::Text,
            Format::Json => Output::Json { has_schema: args.output_schema.is_some() },
            Format::StreamJson => {
                let header = agent.header_line().await?;
                let lines = match agent.header().parent.as_ref().filter(|_| args.fork) {
                    // What closed the fork was written by this run too.
                    Some(parent) => agent.subscribe_from(parent.taken()).await?,
                    None => agent.subscribe().await?,
                };
                let runtime = Handle::current();
                Output::Stream(spawn_blocking(move || along(&runtime, &header, lines)))
            }
        })
    }

    /// Prints what was kept for the end, once the agent is put away.
    pub(super) async fn finish(
        self,
        agent: &Agent,
        turns: &[TurnSummary],
        answer: Option<&str>,
        cost: Option<Usd>,
        reading: Option<&Reading>,
    ) -> Result<(), Problem> {
        let printing = match self {
            Output::Text => {
                let answer = answer.map(str::trim_end).filter(|t| !t.is_empty());
                let text = answer.map(|text| format!("{text}\n")).unwrap_or_default();
                spawn_blocking(move || render::out_exact(text.as_bytes()).map(|_| ()))
            }
            Output::Json { has_schema } => {
                let mut object = object(agent, turns, cost, reading);
                if has_schema {
                    object["output"] =
                        answer.and_then(|json| serde_json::from_str::<Value>(json).ok()).into();
                }
                let text = format!("{object}\n");
                spawn_blocking(move || render::out(text).map(|_| ()))
            }
            // The printer ends by itself once everything written was printed.
            Output::Stream(printer) => printer,
        };
        joined(printing).await
    }
}

/// Prints the log as it grows. On a thread of its own, at the reader's pace: one that stalls stops neither the
/// turn nor the signals.
fn along(runtime: &Handle, header: &[u8], mut lines: Subscription) -> Result<(), Problem> {
    let mut going = render::out(header)?;
    while going && let Some(bytes) = runtime.block_on(lines.next())? {
        going = render::out(bytes)?;
    }
    Ok(())
}

pub(super) async fn joined(printer: JoinHandle<Result<(), Problem>>) -> Result<(), Problem> {
    printer.await.unwrap_or_else(|e| Err(Problem::new(exit::FAILED, format!("the printer broke: {e}"))))
}

fn object(agent: &Agent, turns: &[TurnSummary], cost: Option<Usd>, reading: Option<&Reading>) -> Value {
    // Programs read a number; the log has what it was worked out from.
    let cost = cost.and_then(|cost| cost.to_string().parse::<f64>().ok());
    let last = turns.last();
    let usage = turns.iter().filter_map(|t| t.usage.as_ref()).fold(None, |sum: Option<Usage>, usage| {
        let mut sum = sum.unwrap_or_default();
        sum.add(usage);
        Some(sum)
    });
    json!({
        "session": agent.id(),
        "ending": last.and_then(|t| t.reason.clone()),
        "text": last.map(|t| t.text.clone()).unwrap_or_default(),
        "usage": usage,
        "cost": cost,
        "steps": turns.iter().map(|t| u64::from(t.steps)).sum::<u64>(),
        "parked": reading.map_or(0, |r| r.pending.len()),
        "head": reading.and_then(|r| r.head).map(|(seq, h)| format!("{seq}:{h}")),
        "log": reading.map(|r| r.log.clone()),
    })
}
