//! Tool calls: judged, run, cut to size.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use terret_core::fact::{CallMode, EffectClass, Outcome, SeamChanged, ToolCall};
use terret_core::id::{CallId, SessionId};
use terret_core::input::Answer;
use terret_core::message::Block;
use terret_core::raw::Raw;

use super::consent::{Recorder, recording};
use super::{Reply, World};
use crate::call::{Call, Done, Started, never_began, unknown_call};
use crate::hook::{self, Admission, Executed, Seams, Stop, Trace};
use crate::limits::MAX_RESULT_BYTES;
use crate::store::Durable;
use crate::tool::Tool;

impl World {
    /// Whether this call may run beside others.
    pub(crate) fn mode(&self, name: &str, arguments: &str) -> CallMode {
        self.tool(name).map_or(CallMode::Exclusive, |tool| tool.mode(arguments))
    }

    fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().zip(&self.specs).find(|(_, spec)| spec.name == name).map(|(tool, _)| tool)
    }

    fn call(&self, id: CallId, name: &str, arguments: &str, stop: Stop) -> Call {
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

    /// Judges a call; what it records on the way comes before its answer.
    pub(crate) fn admit(
        self: Arc<Self>,
        (id, run): (CallId, u32),
        name: String,
        arguments: String,
        stop: Stop,
    ) -> BoxStream<'static, Reply> {
        let seams = self.registry.now().of_tools();
        recording(|mut recorder| async move {
            let call = self.call(id, &name, &arguments, stop);
            let key = call.key.clone();
            let answer = match self.judge(&seams, call, run, &mut recorder).await {
                Ok(effect) => Answer::Admitted { name, arguments, effect, key },
                Err(done) => Answer::Refused(done),
            };
            recorder.close(Reply::Answer(answer))
        })
    }

    async fn judge(
        &self,
        seams: &Seams,
        call: Call,
        run: u32,
        recorder: &mut Recorder,
    ) -> Result<EffectClass, Done> {
        let Some(tool) = self.tool(&call.name).cloned() else {
            let offered: Vec<&str> = self.specs.iter().map(|s| s.name.as_str()).collect();
            let text = format!("There is no tool `{}`. The tools are: {}.", call.name, offered.join(", "));
            return Err(Done::error(&call.name, "unknown-tool", text));
        };
        tool.admit(&call)?;
        let last = |_| std::future::ready(Admission::Allow).boxed();
        let trace = Trace::default();
        let admission = seams.pre_execute.ask(call.clone(), &trace, last).await;
        recorder.note(trace.facts(hook::PRE_EXECUTE));
        match admission {
            Admission::Allow => {}
            Admission::Deny(done) => return Err(done),
            // It started before a crash, so it was allowed then.
            Admission::Ask(_) if run > 1 => {}
            Admission::Ask(ask) => self.consent(&call, &ask, recorder).await?,
        }
        for guard in seams.guards.iter() {
            if let Some(reason) = guard(&call) {
                return Err(Done::error(&call.name, "guard", reason).with_outcome(Outcome::Denied));
            }
        }
        Ok(tool.effect())
    }

    /// Runs a call the log durably knows. Asked to stop, it has the grace limit to settle.
    pub(crate) fn run(
        self: Arc<Self>,
        (id, run): (CallId, u32),
        proof: Durable<ToolCall>,
        stop: Stop,
    ) -> BoxFuture<'static, Reply> {
        let seams = self.registry.now().of_tools();
        async move {
            let fact = proof.fact();
            let call = self.call(id, &fact.name, &fact.arguments, stop);
            let started = Started::new(proof, call.clone());
            let (mut asked, grace) = (call.clone(), self.grace);
            let overdue = async move {
                asked.stopped().await;
                tokio::time::sleep(grace).await;
            };
            let mut notes = Vec::new();
            let work = self.execute(&seams, (call, run), started, &mut notes);
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

    async fn execute(
        &self,
        seams: &Seams,
        (call, run): (Call, u32),
        started: Started,
        notes: &mut Vec<SeamChanged>,
    ) -> Executed {
        let trace = Trace::default();
        let missing = Done::error(&call.name, "unknown-tool", "the tool is no longer there");
        let tool = self.tool(&call.name).cloned();
        let (session, id) = (self.session.clone(), call.id);
        let last = move |started: Started| match tool {
            // A proof of another call or run proves nothing here, behind every hook.
            _ if !proves(&started, &session, (id, run)) => std::future::ready(unknown_call()).boxed(),
            // Cancelled while it was handed over, or while a hook around it took its time.
            _ if *started.stop.borrow() => std::future::ready(never_began(run)).boxed(),
            Some(tool) => contained(tool, started),
            None => std::future::ready(missing).boxed(),
        };
        let done = seams.execute.ask(started, &trace, last).await;
        notes.extend(trace.facts(hook::EXECUTE));
        let executed = Executed { call, done, contexts: Vec::new() };
        let last = |executed| std::future::ready(executed).boxed();
        let mut executed = seams.post_execute.ask(executed, &trace, last).await;
        notes.extend(trace.facts(hook::POST_EXECUTE));
        limit(&mut executed.done);
        executed
    }
}

/// Whether a call is the run that was asked for.
fn proves(started: &Started, session: &SessionId, asked: (CallId, u32)) -> bool {
    let fact = started.proof().fact();
    started.proof().session() == session && (fact.call, fact.run) == asked
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

/// What a panic said.
pub(crate) fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    words.unwrap_or("it did not say why")
}

/// A panic inside a tool is that call's error, not the turn's end.
fn contained(tool: Arc<dyn Tool>, started: Started) -> BoxFuture<'static, Done> {
    let name = started.name.clone();
    let run = std::panic::AssertUnwindSafe(async move { tool.run(started).await });
    async move {
        run.catch_unwind().await.unwrap_or_else(|panic| {
            Done::error(&name, "panic", format!("The tool broke down: {}", words_of(&*panic)))
        })
    }
    .boxed()
}
