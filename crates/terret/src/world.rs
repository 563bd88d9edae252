//! Performs one effect: asks the hooks, the adapter or the tool, and brings the answer back.
//!
//! It knows nothing of the log and decides nothing about the loop.

mod prompt;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use terret_core::chunk::{Failure, code};
use terret_core::fact::{
    CallMode, EffectClass, Header, Outcome, RequestAttempt, SeamChanged, ToolCall, ToolSpec,
};
use terret_core::id::CallId;
use terret_core::input::Answer;
use terret_core::message::{Block, Message};
use terret_core::raw::Raw;
use tokio::sync::watch;

use crate::call::{Call, Done, Permissions};
use crate::clock::Clock;
use crate::hook::{self, Executed, FailedAttempt, PreStep, Recovery, RequestPoint, Seams, Trace, Verdict};
use crate::limits::{MAX_RESULT_BYTES, TOOL_GRACE_MS};
use crate::mail::Handle;
use crate::model::{Adapter, Models, Prepared};
use crate::request::{ChunkStream, Outgoing, Proposal};
use crate::store::Durable;
use crate::tool::Tool;
use prompt::Context;

/// Everything outside that one agent reaches.
pub(crate) struct World {
    pub(crate) session: String,
    pub(crate) cwd: Arc<PathBuf>,
    pub(crate) permissions: Permissions,
    pub(crate) identity: Option<String>,
    pub(crate) hidden_env: Arc<[String]>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) specs: Vec<ToolSpec>,
    pub(crate) seams: Seams,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) clock: Arc<dyn Clock>,
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
    pub(crate) context_window: Option<u64>,
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
    ) -> BoxFuture<'static, Reply> {
        async move {
            let mut notes = Vec::new();
            let assembly = match self.assemble(&mut notes).await {
                Ok(assembly) => assembly,
                Err(failure) => return Reply::Answer(Answer::Broken(failure)).noted(notes),
            };
            let trace = Trace::default();
            let due = |c: &Context| known.get(c.plugin) != Some(&c.text);
            // Rules and surroundings are looked at where input may change them: when a turn begins.
            let contexts = if step == 1 || !batch.is_empty() {
                prompt::contexts(&self.cwd, self.clock.epoch_ms())
            } else {
                Vec::new()
            };
            let messages =
                contexts.into_iter().filter(due).map(|c| c.into_message(turn, step)).chain(batch).collect();
            let question = PreStep { agent, turn, step, messages };
            let last = |q: PreStep| std::future::ready(Ok(Verdict::Enter(q.messages))).boxed();
            let answer = match self.seams.pre_step.ask(question, &trace, last).await {
                Ok(Verdict::Enter(messages)) => {
                    notes.extend(trace.facts(hook::PRE_STEP));
                    Answer::Enter(messages)
                }
                // Who rejected is in what the machine decides.
                Ok(Verdict::Reject { by, reason, keep }) => Answer::Reject { by, reason, keep },
                Err(failure) => Answer::Broken(failure),
            };
            Reply::Entered(answer, assembly).noted(notes)
        }
        .boxed()
    }

    async fn assemble(&self, notes: &mut Vec<SeamChanged>) -> Result<Assembly, Failure> {
        let trace = Trace::default();
        let sections = prompt::sections(self.identity.as_deref(), !self.specs.is_empty());
        let last = |sections| std::future::ready(Ok(sections)).boxed();
        let sections = self.seams.prompt.ask(sections, &trace, last).await;
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
    ) -> BoxFuture<'static, Reply> {
        async move {
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            let mut notes = Vec::new();
            let accepted = self.accept(agent, (turn, step, attempt), proposal, assembly, &mut notes).await;
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
        agent: Handle,
        (turn, step, attempt): (u32, u32, u32),
        proposal: Proposal,
        assembly: Option<Assembly>,
        notes: &mut Vec<SeamChanged>,
    ) -> Result<Accepted, Failure> {
        let Assembly { system, tools } = match assembly {
            Some(assembly) => assembly,
            // Lost with the process that assembled it.
            None => self.assemble(notes).await?,
        };
        let point = RequestPoint { agent, turn, step, attempt, proposal };
        let last = |p: RequestPoint| std::future::ready(Ok(p.proposal)).boxed();
        let trace = Trace::default();
        let proposal = self.seams.request.ask(point, &trace, last).await;
        notes.extend(trace.facts(hook::REQUEST));
        let proposal = proposal?;
        let (adapter, prepared) = match self.models.adapter(&proposal.provider) {
            Ok(adapter) => {
                let prepared = adapter.prepare(&proposal)?;
                (Some(adapter), prepared)
            }
            Err(failure)
                if self.seams.served.contains(&proposal.provider) && failure.code == code::NO_ADAPTER =>
            {
                (None, as_proposed(&proposal))
            }
            Err(failure) => return Err(failure),
        };
        let Prepared { wire, dialect, parameters, defaults, context_window } = prepared;
        let Proposal { provider, model, .. } = proposal;
        let header = Header { provider, model, wire, dialect, parameters, defaults, system, tools };
        Ok(Accepted { header, context_window, adapter })
    }

    /// Sends a request the log durably knows.
    pub(crate) fn stream(
        self: Arc<Self>,
        _durable: Durable<RequestAttempt>,
        header: Arc<Header>,
        body: Bytes,
        adapter: Option<Arc<dyn Adapter>>,
    ) -> BoxStream<'static, Reply> {
        let outgoing = Outgoing { header, body, idle_timeout: self.idle_timeout };
        let open = async move {
            let last = move |outgoing: Outgoing| {
                let stream = match adapter {
                    Some(adapter) => Ok(adapter.stream(outgoing)),
                    None => Err(Failure::new(code::NO_ADAPTER, "nobody serves this route")),
                };
                std::future::ready(stream).boxed()
            };
            match self.seams.stream.ask(outgoing, &Trace::default(), last).await {
                Ok(stream) => replies(stream),
                Err(failure) => one(Reply::Answer(Answer::Broken(failure))),
            }
        };
        open.flatten_stream().boxed()
    }

    pub(crate) fn recover(self: Arc<Self>, question: FailedAttempt) -> BoxFuture<'static, Reply> {
        async move {
            let last = |_| std::future::ready(Ok(Recovery::GiveUp)).boxed();
            Reply::Answer(match self.seams.request_error.ask(question, &Trace::default(), last).await {
                Ok(Recovery::Retry { by, delay_ms }) => Answer::Retry { by, delay_ms },
                Ok(Recovery::GiveUp) => Answer::GiveUp,
                Err(failure) => Answer::Broken(failure),
            })
        }
        .boxed()
    }

    pub(crate) fn stopping(self: Arc<Self>, agent: Handle, turn: u32) -> BoxFuture<'static, Reply> {
        async move {
            let mut broken = None;
            for listener in &self.seams.stopping {
                // Everybody votes; the first failure is the one that counts.
                if let Err(failure) = listener.vote(&agent, turn).await {
                    broken.get_or_insert(failure);
                }
            }
            Reply::Answer(broken.map_or(Answer::Voted, Answer::Broken))
        }
        .boxed()
    }

    /// Whether this call may run beside others.
    pub(crate) fn mode(&self, name: &str, arguments: &str) -> CallMode {
        self.tool(name).map_or(CallMode::Exclusive, |tool| tool.mode(arguments))
    }

    fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().zip(&self.specs).find(|(_, spec)| spec.name == name).map(|(tool, _)| tool)
    }

    fn call(&self, id: CallId, name: &str, arguments: &str, stop: watch::Receiver<bool>) -> Call {
        Call {
            id,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            key: format!("{}/{id}", self.session),
            cwd: self.cwd.clone(),
            permissions: self.permissions,
            hidden_env: self.hidden_env.clone(),
            stop,
        }
    }

    pub(crate) fn admit(
        self: Arc<Self>,
        id: CallId,
        name: String,
        arguments: String,
        stop: watch::Receiver<bool>,
    ) -> BoxFuture<'static, Reply> {
        async move {
            let call = self.call(id, &name, &arguments, stop);
            let key = call.key.clone();
            let mut notes = Vec::new();
            let answer = match self.judge(call, &mut notes).await {
                Ok(effect) => Answer::Admitted { name, arguments, effect, key },
                Err(done) => Answer::Refused(done),
            };
            Reply::Answer(answer).noted(notes)
        }
        .boxed()
    }

    async fn judge(&self, call: Call, notes: &mut Vec<SeamChanged>) -> Result<EffectClass, Done> {
        let Some(tool) = self.tool(&call.name).cloned() else {
            let offered: Vec<&str> = self.specs.iter().map(|s| s.name.as_str()).collect();
            let text = format!("There is no tool `{}`. The tools are: {}.", call.name, offered.join(", "));
            return Err(Done::error(&call.name, "unknown-tool", text));
        };
        tool.admit(&call)?;
        let last = |_| std::future::ready(Ok(())).boxed();
        let trace = Trace::default();
        let allowed = self.seams.pre_execute.ask(call.clone(), &trace, last).await;
        notes.extend(trace.facts(hook::PRE_EXECUTE));
        allowed?;
        for guard in &self.seams.guards {
            if let Some(reason) = guard(&call) {
                return Err(Done::error(&call.name, "guard", reason).with_outcome(Outcome::Denied));
            }
        }
        Ok(tool.effect())
    }

    /// Runs a call the log durably knows. Asked to stop, it has the grace limit to settle.
    pub(crate) fn run(
        self: Arc<Self>,
        durable: Durable<ToolCall>,
        stop: watch::Receiver<bool>,
    ) -> BoxFuture<'static, Reply> {
        async move {
            let started = durable.into_fact();
            let call = self.call(started.call, &started.name, &started.arguments, stop);
            let mut asked = call.clone();
            let overdue = async move {
                asked.stopped().await;
                tokio::time::sleep(Duration::from_millis(TOOL_GRACE_MS)).await;
            };
            let mut notes = Vec::new();
            let work = self.execute(call, &mut notes);
            let (settled, contexts) = tokio::select! {
                biased;
                executed = work => (executed.done, executed.contexts),
                () = overdue => {
                    let text = "The call was asked to stop and did not: it was dropped. Nobody knows how far it came.";
                    (Done::notice(Outcome::Unknown, text), Vec::new())
                }
            };
            Reply::Answer(Answer::Settled { settled, contexts }).noted(notes)
        }
        .boxed()
    }

    async fn execute(&self, call: Call, notes: &mut Vec<SeamChanged>) -> Executed {
        let trace = Trace::default();
        let missing = Done::error(&call.name, "unknown-tool", "the tool is no longer there");
        let tool = self.tool(&call.name).cloned();
        let last = move |call: Call| match tool {
            Some(tool) => contained(tool, call),
            None => std::future::ready(missing).boxed(),
        };
        let done = self.seams.execute.ask(call.clone(), &trace, last).await;
        notes.extend(trace.facts(hook::EXECUTE));
        let executed = Executed { call, done, contexts: Vec::new() };
        let last = |executed| std::future::ready(executed).boxed();
        let mut executed = self.seams.post_execute.ask(executed, &trace, last).await;
        notes.extend(trace.facts(hook::POST_EXECUTE));
        limit(&mut executed.done);
        executed
    }
}

/// Cuts what no log line should hold and no model could read.
fn limit(done: &mut Done) {
    let mut room = MAX_RESULT_BYTES;
    for block in &mut done.content {
        if let Block::Text { text, .. } = block {
            if text.len() > room {
                let cut = text.len() - room;
                text.truncate(text.floor_char_boundary(room));
                text.push_str(&format!("\n[cut here: {cut} more bytes]"));
            }
            room = room.saturating_sub(text.len());
        }
    }
    let too_long = |raw: &Raw| raw.get().len() > MAX_RESULT_BYTES;
    if done.data.as_ref().is_some_and(too_long) {
        done.data = None;
    }
    let json = |block: &Block| matches!(block, Block::Json { value } if too_long(value));
    if done.content.iter().any(json) {
        done.content = vec![Block::text(format!("[the result is longer than {MAX_RESULT_BYTES} bytes]"))];
    }
}

/// A panic inside a tool is that call's error, not the turn's end.
fn contained(tool: Arc<dyn Tool>, call: Call) -> BoxFuture<'static, Done> {
    let name = call.name.clone();
    let run = std::panic::AssertUnwindSafe(async move { tool.run(call).await });
    async move {
        run.catch_unwind().await.unwrap_or_else(|panic| {
            let what = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "it did not say why".to_owned());
            Done::error(&name, "panic", format!("The tool broke down: {what}"))
        })
    }
    .boxed()
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
