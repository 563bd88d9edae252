//! Performs one effect: asks the hooks, the adapter or the tool, and brings the answer back.
//!
//! It knows nothing of the log and decides nothing about the loop.

mod consent;
mod prompt;
mod tools;

pub use prompt::Context;
pub(crate) use prompt::{Surroundings, surroundings};
pub(crate) use tools::words_of;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use terret_core::chunk::{Failure, code};
use terret_core::fact::{Header, RequestAttempt, RequestContext, SeamChanged, ToolSpec};
use terret_core::id::SessionId;
use terret_core::input::{Answer, Record};
use terret_core::message::Message;
use terret_core::raw::Raw;
use tokio::sync::oneshot;

use crate::call::Permissions;
use crate::clock::Clock;
use crate::hook::{
    self, Approver, FailedAttempt, PreStep, Recovery, Registry, RequestPoint, Seams, Stop, Stopping, Trace,
    Verdict,
};
use crate::mail::Handle;
use crate::model::{Adapter, Models, Prepared};
use crate::request::{ChunkStream, Outgoing, Proposal, not_the_logged};
use crate::store::Durable;
use crate::tool::Tool;

/// Everything outside that one agent reaches.
pub(crate) struct World {
    pub(crate) session: SessionId,
    pub(crate) cwd: Arc<PathBuf>,
    pub(crate) permissions: Permissions,
    pub(crate) identity: Option<String>,
    pub(crate) hidden_env: Arc<[String]>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) specs: Vec<ToolSpec>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// How long a tool that was asked to stop may take.
    pub(crate) grace: Duration,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) surroundings: Surroundings,
    pub(crate) idle_timeout: Duration,
}

/// The frozen prompt of a step: a retry does not assemble it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembly {
    pub(crate) system: Option<String>,
    pub(crate) tools: Vec<ToolSpec>,
}

/// A request accepted by its adapter, before the log has a say.
pub(crate) struct Accepted {
    pub(crate) header: Header,
    pub(crate) context: RequestContext,
    /// The exact adapter that accepted it; `None` when a plugin must serve it.
    pub(crate) adapter: Option<Arc<dyn Adapter>>,
}

/// What an effect brings back.
pub(crate) enum Reply {
    Answer(Answer),
    /// Pre-step: the answer, and the prompt that was assembled for it.
    Entered(Answer, Assembly),
    Accepted(Box<Accepted>),
    /// The stream is over.
    StreamEnd(Result<(), Failure>),
    /// What plugins changed on the way, and then the reply itself.
    Noted(Vec<SeamChanged>, Box<Reply>),
    /// To be recorded while the question stays open; the sender hears when it is written.
    Record(Record, oneshot::Sender<()>),
}

impl Reply {
    fn noted(self, notes: Vec<SeamChanged>) -> Reply {
        match notes.is_empty() {
            true => self,
            false => Reply::Noted(notes, Box::new(self)),
        }
    }
}

/// What of the context the log already holds.
pub(crate) type Known = BTreeMap<String, String>;

impl World {
    pub(crate) fn pre_step(
        self: Arc<Self>,
        agent: Handle,
        (turn, step): (u32, u32),
        batch: Vec<Message>,
        known: Known,
        stop: Stop,
    ) -> BoxFuture<'static, Reply> {
        let seams = self.registry.now();
        async move {
            let mut notes = Vec::new();
            let assembly = match self.assemble(&seams, &mut notes).await {
                Ok(assembly) => assembly,
                Err(failure) => return Reply::Answer(Answer::Broken(failure)).noted(notes),
            };
            let trace = Trace::default();
            let due = |c: Context| {
                let last = known.get(&c.plugin);
                c.due(last)
            };
            // Rules and surroundings are looked at where input may change them: when a turn begins.
            let contexts = if step == 1 || !batch.is_empty() {
                (self.surroundings)(&self.cwd, self.clock.epoch_ms())
            } else {
                Vec::new()
            };
            let messages = contexts
                .into_iter()
                .filter_map(due)
                .map(|c| c.into_message(turn, step))
                .chain(batch)
                .collect();
            let question = PreStep { agent, turn, step, messages, stop };
            let last = |q: PreStep| std::future::ready(Ok(Verdict::Enter(q.messages))).boxed();
            let answer = match seams.pre_step.ask(question, &trace, last).await {
                Ok(Verdict::Enter(messages)) => Answer::Enter(messages),
                // Who rejected is in what the machine decides.
                Ok(Verdict::Reject { by, reason, keep }) => {
                    return Reply::Entered(Answer::Reject { by, reason, keep }, assembly).noted(notes);
                }
                Err(failure) => Answer::Broken(failure),
            };
            notes.extend(trace.facts(hook::PRE_STEP));
            Reply::Entered(answer, assembly).noted(notes)
        }
        .boxed()
    }

    async fn assemble(&self, seams: &Seams, notes: &mut Vec<SeamChanged>) -> Result<Assembly, Failure> {
        let trace = Trace::default();
        let sections = prompt::sections(self.identity.as_deref(), !self.specs.is_empty());
        let last = |sections| std::future::ready(Ok(sections)).boxed();
        let sections = seams.prompt.ask(sections, &trace, last).await;
        notes.extend(trace.facts(hook::PROMPT));
        let sections = sections?;
        let system = Some(prompt::render(&sections)).filter(|text| !text.is_empty());
        Ok(Assembly { system, tools: self.specs.clone() })
    }

    pub(crate) fn prepare(
        self: Arc<Self>,
        agent: Handle,
        (turn, step, attempt): (u32, u32, u32),
        delay_ms: u64,
        proposal: Proposal,
        assembly: Option<Assembly>,
        stop: Stop,
    ) -> BoxFuture<'static, Reply> {
        async move {
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            let mut notes = Vec::new();
            let point = RequestPoint { agent, turn, step, attempt, proposal, stop };
            let accepted = self.accept(point, assembly, &mut notes).await;
            let reply = match accepted {
                Ok(accepted) => Reply::Accepted(Box::new(accepted)),
                Err(failure) => Reply::Answer(Answer::Broken(failure)),
            };
            reply.noted(notes)
        }
        .boxed()
    }

    async fn accept(
        &self,
        point: RequestPoint,
        assembly: Option<Assembly>,
        notes: &mut Vec<SeamChanged>,
    ) -> Result<Accepted, Failure> {
        // The wait before is over: the question is asked of those who are there now.
        let seams = self.registry.now();
        let Assembly { system, tools } = match assembly {
            Some(assembly) => assembly,
            // Lost with the process that assembled it.
            None => self.assemble(&seams, notes).await?,
        };
        let last = |p: RequestPoint| std::future::ready(Ok(p.proposal)).boxed();
        let trace = Trace::default();
        let proposal = seams.request.ask(point, &trace, last).await;
        notes.extend(trace.facts(hook::REQUEST));
        let proposal = proposal?;
        let (adapter, prepared) = match self.models.adapter(&proposal.provider) {
            Ok(adapter) => {
                let prepared = adapter.prepare(&proposal)?;
                (Some(adapter), prepared)
            }
            Err(failure) if seams.served.contains(&proposal.provider) && failure.code == code::NO_ADAPTER => {
                (None, as_proposed(&proposal))
            }
            Err(failure) => return Err(failure),
        };
        let Prepared { wire, dialect, parameters, defaults, context_window } = prepared;
        let Proposal { provider, model, .. } = proposal;
        let known = self.models.known(&provider, &model).unwrap_or_default();
        let context = RequestContext {
            provider: provider.clone(),
            model: model.clone(),
            context_window: context_window.or(known.context_window),
            prices: known.prices,
            table: known.table,
        };
        let header = Header { provider, model, wire, dialect, parameters, defaults, system, tools };
        Ok(Accepted { header, context, adapter })
    }

    /// Sends a request the log durably knows.
    pub(crate) fn stream(
        self: Arc<Self>,
        asked: (u32, u32, u32),
        proof: Durable<RequestAttempt>,
        (header, context): (Arc<Header>, Option<Arc<RequestContext>>),
        body: Bytes,
        adapter: Option<Arc<dyn Adapter>>,
    ) -> BoxStream<'static, Reply> {
        let outgoing = match Outgoing::new(proof, header, body, self.idle_timeout) {
            Ok(outgoing) => outgoing.within(context),
            Err(failure) => return one(Reply::Answer(Answer::Broken(failure))),
        };
        let (seams, session) = (self.registry.now(), self.session.clone());
        let open = async move {
            let last = move |outgoing: Outgoing| {
                let stream = match adapter {
                    // A proof of something else proves nothing here, even of the same bytes and behind every hook.
                    _ if !proves(&outgoing, &session, asked) => Err(not_the_logged()),
                    Some(adapter) => Ok(adapter.stream(outgoing)),
                    None => Err(Failure::new(code::NO_ADAPTER, "nobody serves this route")),
                };
                std::future::ready(stream).boxed()
            };
            let trace = Trace::default();
            let stream = seams.stream.ask(outgoing, &trace, last).await;
            let mut notes = trace.facts(hook::STREAM);
            let stream = match stream {
                Ok(stream) => replies(stream),
                Err(failure) => one(Reply::Answer(Answer::Broken(failure))),
            };
            // Who stepped in stands before what came of it.
            stream.map(move |reply| reply.noted(std::mem::take(&mut notes)))
        };
        open.flatten_stream().boxed()
    }

    pub(crate) fn recover(self: Arc<Self>, question: FailedAttempt) -> BoxFuture<'static, Reply> {
        let seams = self.registry.now();
        async move {
            let (trace, last) = (Trace::default(), |_| std::future::ready(Ok(Recovery::GiveUp)).boxed());
            let answer = match seams.request_error.ask(question, &trace, last).await {
                // Who retries is in the fact.
                Ok(Recovery::Retry { by, delay_ms }) => {
                    return Reply::Answer(Answer::Retry { by, delay_ms });
                }
                Ok(Recovery::GiveUp) => Answer::GiveUp,
                Err(failure) => Answer::Broken(failure),
            };
            Reply::Answer(answer).noted(trace.facts(hook::REQUEST_ERROR))
        }
        .boxed()
    }

    pub(crate) fn stopping(self: Arc<Self>, question: Stopping) -> BoxFuture<'static, Reply> {
        let seams = self.registry.now();
        async move {
            let mut broken = None;
            for listener in seams.stopping.iter() {
                // Everybody votes, also behind one that breaks down; the first failure is the one that counts.
                let vote = AssertUnwindSafe(listener.vote(&question)).catch_unwind().await;
                let vote = vote.unwrap_or_else(|panic| {
                    Err(Failure::new(code::HOOK, format!("a vote broke down: {}", words_of(&*panic))))
                });
                if let Err(failure) = vote {
                    broken.get_or_insert(failure);
                }
            }
            Reply::Answer(broken.map_or(Answer::Voted, Answer::Broken))
        }
        .boxed()
    }
}

/// Whether a request is the one that was asked for.
fn proves(outgoing: &Outgoing, session: &SessionId, asked: (u32, u32, u32)) -> bool {
    let attempt = outgoing.attempt();
    outgoing.proof().session() == session && (attempt.turn, attempt.step, attempt.attempt) == asked
}

fn replies(stream: ChunkStream) -> BoxStream<'static, Reply> {
    futures_util::stream::unfold(Some(stream), |open| async move {
        let mut stream = open?;
        Some(match stream.next().await {
            Some(Ok(chunks)) => (Reply::Answer(Answer::Chunks(chunks)), Some(stream)),
            Some(Err(failure)) => (Reply::StreamEnd(Err(failure)), None),
            None => (Reply::StreamEnd(Ok(())), None),
        })
    })
    .boxed()
}

fn one(reply: Reply) -> BoxStream<'static, Reply> {
    futures_util::stream::once(std::future::ready(reply)).boxed()
}

#[cfg(test)]
mod tests;

/// A route without an adapter goes into the header as it was proposed.
fn as_proposed(proposal: &Proposal) -> Prepared {
    Prepared {
        wire: String::new(),
        dialect: Raw::string(""),
        parameters: proposal.parameters.clone(),
        defaults: Vec::new(),
        context_window: None,
    }
}
