//! Structured output: a turn's answer has to be JSON that satisfies a schema, and is mended once where it does not.

mod check;
mod seen;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, code};
use terret_core::fact::Lane;
use terret_core::id::MsgId;
use terret_core::message::{Block, Form, Message, Role, Source};
use terret_core::raw::Raw;

use crate::error::Error;
use crate::hook::{
    Listener, Next, Order, Phase, Plugin, PreStep, RequestPoint, Seams, Stopping, Verdict, Vote,
};
use crate::limits::OUTPUT_CHECK_MS;
use crate::mail::Handle;
use crate::request::{OUTPUT_SCHEMA, OutputSchema, Proposal};
use check::Check;
use seen::{Seen, is_ours};

const NAME: &str = "output-schema";

/// Holds the answers of turns to a schema.
///
/// The model is told the schema, as a message of form `instructions` beside the turn's input, and every request of the
/// turn has the parameter `output_schema`, by which wires that can force an answer into a schema do. Before the turn
/// stops, its answer is checked. One that does not fit is sent back once, with what is wrong, as a message of form
/// `notice`; if what comes then does not fit either, the turn ends with the error `OUTPUT_SCHEMA`. Once is once a turn,
/// also across a crash. A turn that ends by anything else (the output limit, a cancel, an error) is not mended.
///
/// An answer is strict JSON, but for blanks and one Markdown code fence around it. The log keeps what the model wrote;
/// [`Structured::read`] gives the JSON of it.
#[derive(Clone)]
pub struct Structured {
    schema: OutputSchema,
    check: Arc<Check>,
    /// The message whose turn alone it is for; `None`: every turn.
    only: Option<MsgId>,
}

impl Structured {
    /// Under this name, for servers. Fails, with the place, if the schema is none, is too large, or refers to anything
    /// but its own parts: nothing is fetched, and no file is opened.
    pub fn new(name: &str, schema: Raw) -> Result<Self, Error> {
        let schema = OutputSchema::new(name, schema);
        let refused =
            |why| Error::Usage(format!("the output schema `{}` cannot be used: {why}", schema.name));
        let check = Check::new(&schema.schema).map_err(refused)?;
        Ok(Structured { schema, check: Arc::new(check), only: None })
    }

    /// Only for the turn that claims this message.
    pub fn only(self, message: MsgId) -> Self {
        Structured { only: Some(message), ..self }
    }

    /// The JSON of an answer that satisfies the schema, as it was written; else what is wrong, a line each.
    pub fn read<'t>(&self, answer: &'t str) -> Result<&'t str, Vec<String>> {
        self.check.read(answer)
    }
}

impl Plugin for Structured {
    fn name(&self) -> &str {
        NAME
    }

    // It judges what is said once nobody else wants more of the turn.
    fn order(&self) -> Order {
        Order { phase: Phase::Late, ..Order::default() }
    }

    fn install(&self, seams: &mut Seams) {
        let part = Arc::new(Part { what: self.clone(), seen: Mutex::default() });
        let seen = part.clone();
        seams.events.add(Arc::new(move |event| {
            seen.seen.lock().unwrap_or_else(PoisonError::into_inner).take(&event.fact);
        }));
        seams.pre_step.add(part.clone());
        seams.request.add(part.clone());
        seams.stopping.add(part);
    }
}

/// A schema at work in an agent.
struct Part {
    what: Structured,
    seen: Mutex<Seen>,
}

impl Part {
    /// What was seen of a turn, if the schema is for it.
    async fn turn(&self, agent: &Handle, turn: u32) -> Result<Option<Seen>, Failure> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match &self.what.only {
            Some(message) => Ok(Some(seen).filter(|s| s.turn == turn && s.claimed.contains(message))),
            None if seen.turn == turn => Ok(Some(seen)),
            // It began before we came: another process began it, or we were installed in the middle of it.
            None => {
                let seen = Seen::from_log(agent).await.map_err(broken)?;
                self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&seen);
                Ok(Some(seen))
            }
        }
    }

    /// What is wrong with an answer; nothing, if nothing is. A check that takes longer than `limit` is given up.
    async fn judge(&self, answer: String, limit: Duration) -> Result<Vec<String>, Failure> {
        let check = self.what.check.clone();
        let judging = tokio::task::spawn_blocking(move || check.read(&answer).err().unwrap_or_default());
        let text = "the answer could not be checked against the output schema in time";
        match tokio::time::timeout(limit, judging).await {
            Ok(judged) => judged.map_err(|_| Failure::new(code::HOOK, "the check of the answer broke down")),
            Err(_) => Err(Failure::new(code::OUTPUT_SCHEMA, text)),
        }
    }

    fn message(&self, id: String, form: Form, text: String) -> Message {
        Message {
            id: id.as_str().into(),
            role: Role::User,
            content: vec![Block::text(text)],
            source: Source::Plugin { plugin: NAME.into(), form },
        }
    }

    /// What the model is told beside the input.
    fn instructions(&self, (turn, step): (u32, u32)) -> Message {
        let OutputSchema { name, schema } = &self.what.schema;
        let text = format!(
            "Use tools as you need them. The final answer to this has to be one JSON value that satisfies the JSON \
             Schema `{name}`, and nothing else: no words before or behind it, no code fence.\n\n{}",
            schema.get()
        );
        self.message(format!("{NAME}-{turn}.{step}"), Form::Instructions, text)
    }

    /// What it is told of an answer that does not fit.
    fn notice(&self, turn: u32, wrong: &[String], told: bool) -> Message {
        let OutputSchema { name, schema } = &self.what.schema;
        let mut text = format!("The answer does not satisfy the JSON Schema `{name}`:\n");
        wrong.iter().for_each(|line| text.push_str(&format!("- {line}\n")));
        text.push_str(
            "\nGive the whole answer again, as one JSON value that satisfies it, and nothing else.",
        );
        if !told {
            text.push_str(&format!("\n\n{}", schema.get()));
        }
        self.message(notice_id(turn), Form::Notice, text)
    }
}

/// One a turn: the log knows whether it was sent.
fn notice_id(turn: u32) -> String {
    format!("{NAME}-repair-{turn}")
}

fn broken(error: Error) -> Failure {
    Failure::new(code::HOOK, format!("{NAME}: {error}"))
}

impl Listener<PreStep, Result<Verdict, Failure>> for Part {
    fn call<'a>(
        &'a self,
        mut question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        async move {
            let (turn, step) = (question.turn, question.step);
            // A turn that ended before it could mend its answer leaves its notice behind: nobody waits for that any more.
            let ours = MsgId::from(notice_id(turn).as_str());
            question.messages.retain(|m| !is_ours(m, Form::Notice) || m.id == ours);
            let seen = self.turn(&question.agent, turn).await?;
            // Beside input only: told alone it would begin a step nobody asked for.
            if seen.is_some_and(|seen| !seen.told) && !question.messages.is_empty() {
                question.messages.push(self.instructions((turn, step)));
            }
            next.run(question).await
        }
        .boxed()
    }
}

impl Listener<RequestPoint, Result<Proposal, Failure>> for Part {
    fn call<'a>(
        &'a self,
        mut question: RequestPoint,
        next: Next<'a, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'a, Result<Proposal, Failure>> {
        async move {
            if self.turn(&question.agent, question.turn).await?.is_some() {
                let raw = Raw::from_value(&self.what.schema);
                let raw = raw.map_err(|e| Failure::new(code::HOOK, format!("{NAME}: {e}")))?;
                question.proposal.parameters.insert(OUTPUT_SCHEMA.to_owned(), raw);
            }
            next.run(question).await
        }
        .boxed()
    }
}

impl Vote for Part {
    fn vote<'a>(&'a self, question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            let (agent, turn) = (&question.agent, question.turn);
            let Some(seen) = self.turn(agent, turn).await?.filter(|seen| !seen.cut) else { return Ok(()) };
            // Somebody keeps the turn going, ourselves before a crash perhaps: this was not its answer yet.
            let pending = agent.look().await.map_err(broken)?.pending;
            if pending.iter().any(|p| p.lane == Lane::NextStep && !p.held) {
                return Ok(());
            }
            let wrong = self.judge(seen.text, Duration::from_millis(OUTPUT_CHECK_MS)).await?;
            if wrong.is_empty() {
                return Ok(());
            }
            if seen.repaired {
                let name = &self.what.schema.name;
                let text = format!("the answer does not satisfy the schema `{name}`: {}", wrong.join("; "));
                return Err(Failure::new(code::OUTPUT_SCHEMA, text));
            }
            // It wakes nobody: should the turn end after all, it is not what another one begins with.
            let notice = self.notice(turn, &wrong, seen.told);
            agent.send(notice, Lane::NextStep, false).await.map(drop).map_err(broken)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_check_that_takes_too_long_is_given_up() {
        let what = Structured::new("list", Raw::parse(r#"{"items":{"type":"integer"}}"#).unwrap()).unwrap();
        let part = Part { what, seen: Mutex::default() };
        let long = format!("[{}0]", "0,".repeat(500_000));
        assert_eq!(part.judge(long.clone(), Duration::from_secs(60)).await, Ok(vec![]));
        assert_eq!(part.judge(long, Duration::ZERO).await.unwrap_err().code, code::OUTPUT_SCHEMA);
    }
}
