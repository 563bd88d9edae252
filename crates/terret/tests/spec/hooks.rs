//! The plugins a page can ask for by name: `with NAME …`.

use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::agent::{Builder, Handle};
use terret::core::chunk::{Failure, code};
use terret::core::fact::{Cause, Lane};
use terret::core::message::{Form, Message, Source};
use terret::hook::{
    Admission, Approver, Ask, Decision, Executed, Listener, Next, PreStep, Print, Seams, Stopping, Verdict,
    Vote,
};
use terret::policy::{Budget, Retry};
use terret::tool::Call;

use crate::scene::{duration, words};

/// The handle of the agent that lives, for hooks that stand outside the seams which bring one.
pub(crate) type Living = Arc<Mutex<Option<Handle>>>;

/// Installs what one `with` line names.
pub(crate) fn install(builder: Builder, line: &str, living: &Living) -> Result<Builder, String> {
    let (name, rest) = words(line);
    let (first, more) = words(rest);
    let more = more.to_owned();
    Ok(match name {
        "retries" => builder.plugin(Retry { max: number(first)?, base_ms: 4, cap_ms: 4, ..Retry::default() }),
        "max-steps" => builder.plugin(Budget { steps: Some(number(first)?), ..Budget::default() }),
        "reject" => {
            let (at, keep) = (step(first)?, words(&more).0 == "keep");
            let reason = more.strip_prefix("keep").unwrap_or(&more).trim();
            let reason = if reason.is_empty() { "not this" } else { reason }.to_owned();
            let verdict = Verdict::Reject { by: "page".into(), reason, keep };
            builder.seams(|s| s.pre_step.add(Arc::new(at_step(at, verdict))))
        }
        "nothing" => {
            let at = step(first)?;
            builder.seams(|s| s.pre_step.add(Arc::new(at_step(at, Verdict::Enter(Vec::new())))))
        }
        "deny" => {
            let tool = first.to_owned();
            builder.seams(|s| {
                s.guards.add(Arc::new(move |call| {
                    (call.name == tool).then(|| format!("The page does not allow `{tool}`."))
                }));
            })
        }
        "ask" => {
            let (tool, what) = (first.to_owned(), if more.is_empty() { "May it?".to_owned() } else { more });
            builder.seams(|s| {
                let asks = move |call: &Call| (call.name == tool).then(|| Admission::Ask(Ask::new(&what)));
                s.pre_execute.add(Arc::new(Before(asks)));
            })
        }
        "approver" => {
            let time = if more.is_empty() { Duration::ZERO } else { duration(&more)? };
            builder.approver(Says { choice: first.to_owned(), time })
        }
        "context" => {
            let tool = first.to_owned();
            builder.seams(|s| s.post_execute.add(Arc::new(Context { tool, text: more })))
        }
        "steer-on-stop" => {
            let (text, asked) = (rest.to_owned(), Mutex::new(false));
            builder.seams(|s| s.stopping.add(Arc::new(SteerOnce { text, asked })))
        }
        "model" => {
            let (model, from) = (first.to_owned(), number(more.trim_start_matches("from"))?);
            let change = move |point: &mut terret::hook::RequestPoint| {
                if point.turn >= from {
                    point.proposal.model.clone_from(&model);
                }
            };
            builder.seams(|s| s.request.add(Arc::new(Change(change))))
        }
        "cancel-at" => {
            let (kind, living) = (first.to_owned(), living.clone());
            builder.observe(move |event| {
                if event.fact.type_name() == kind {
                    let handle = living.lock().unwrap();
                    handle.as_ref().unwrap().cancel_now(Cause::User { text: None }).unwrap();
                }
            })
        }
        "throw" => {
            let turn = if more.is_empty() { None } else { Some(number(&more)?) };
            let mut known = true;
            let builder = builder.seams(|s| known = throw(s, first, turn));
            known.then_some(builder).ok_or_else(|| format!("nothing can be thrown at `{first}`"))?
        }
        "slow" => {
            let (time, mut known) = (duration(&more)?, true);
            let builder = builder.seams(|s| known = slow(s, first, time));
            known.then_some(builder).ok_or_else(|| format!("`{first}` cannot be slow"))?
        }
        other => return Err(format!("there is no hook `{other}`")),
    })
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.trim().parse().map_err(|_| format!("`{word}` is not a number"))
}

/// `2.1`: turn and step.
fn step(word: &str) -> Result<(u32, u32), String> {
    let (turn, step) = word.split_once('.').ok_or_else(|| format!("`{word}` is not TURN.STEP"))?;
    Ok((number(turn)?, number(step)?))
}

fn thrown() -> Failure {
    Failure::new(code::HOOK, "thrown by the page")
}

fn throw(seams: &mut Seams, seam: &str, turn: Option<u32>) -> bool {
    let now = move |at: u32| turn.is_none_or(|turn| turn == at);
    match seam {
        "pre-step" => seams
            .pre_step
            .add(Arc::new(Before(move |q: &PreStep| now(q.turn).then(|| Err::<Verdict, _>(thrown()))))),
        "prompt" => seams.prompt.add(Arc::new(Before(|_: &Vec<_>| Some(Err(thrown()))))),
        "request" => seams
            .request
            .add(Arc::new(Before(move |q: &terret::hook::RequestPoint| now(q.turn).then(|| Err(thrown()))))),
        "stream" => seams.stream.add(Arc::new(Before(|_: &_| Some(Err(thrown()))))),
        "request-error" => seams
            .request_error
            .add(Arc::new(Before(move |q: &terret::hook::FailedAttempt| now(q.turn).then(|| Err(thrown()))))),
        "pre-execute" => seams.pre_execute.add(Arc::new(Before(|_: &_| -> Option<Admission> {
            panic!("thrown by the page");
        }))),
        "stopping" => seams.stopping.add(Arc::new(Pause(Duration::ZERO, Some(thrown())))),
        _ => return false,
    }
    true
}

fn slow(seams: &mut Seams, seam: &str, time: Duration) -> bool {
    match seam {
        "pre-step" => seams.pre_step.add(Arc::new(Slow(time))),
        "request" => seams.request.add(Arc::new(Slow(time))),
        "request-error" => seams.request_error.add(Arc::new(Slow(time))),
        "pre-execute" => seams.pre_execute.add(Arc::new(Slow(time))),
        "stopping" => seams.stopping.add(Arc::new(Pause(time, None))),
        _ => return false,
    }
    true
}

/// Answers instead of those behind it, or says nothing.
struct Before<F>(F);

impl<Q, A, F> Listener<Q, A> for Before<F>
where
    Q: Print + Send + 'static,
    A: Print + Send + 'static,
    F: Fn(&Q) -> Option<A> + Send + Sync,
{
    fn call<'a>(&'a self, question: Q, next: Next<'a, Q, A>) -> BoxFuture<'a, A> {
        match (self.0)(&question) {
            Some(answer) => std::future::ready(answer).boxed(),
            None => next.run(question),
        }
    }
}

fn at_step(
    at: (u32, u32),
    verdict: Verdict,
) -> Before<impl Fn(&PreStep) -> Option<Result<Verdict, Failure>> + Send + Sync> {
    Before(move |q: &PreStep| ((q.turn, q.step) == at).then(|| Ok(verdict.clone())))
}

/// Changes the question.
struct Change<F>(F);

impl<Q, A, F> Listener<Q, A> for Change<F>
where
    Q: Print + Send + 'static,
    A: Print + Send + 'static,
    F: Fn(&mut Q) + Send + Sync,
{
    fn call<'a>(&'a self, mut question: Q, next: Next<'a, Q, A>) -> BoxFuture<'a, A> {
        (self.0)(&mut question);
        next.run(question)
    }
}

/// Takes its time before it asks on.
struct Slow(Duration);

impl<Q: Print + Send + 'static, A: Print + Send + 'static> Listener<Q, A> for Slow {
    fn call<'a>(&'a self, question: Q, next: Next<'a, Q, A>) -> BoxFuture<'a, A> {
        async move {
            tokio::time::sleep(self.0).await;
            next.run(question).await
        }
        .boxed()
    }
}

/// Answers every question with one word, after a while.
struct Says {
    choice: String,
    time: Duration,
}

impl Approver for Says {
    fn decide<'a>(&'a self, _: &'a Call, _: &'a Ask) -> BoxFuture<'a, Result<Decision, Failure>> {
        async move {
            tokio::time::sleep(self.time).await;
            match self.choice.as_str() {
                "fail" => Err(Failure::new(code::HOOK, "the person is not there")),
                choice => Ok(Decision { choice: choice.to_owned(), by: "page".into() }),
            }
        }
        .boxed()
    }
}

/// Adds context to a tool's result.
struct Context {
    tool: String,
    text: String,
}

impl Listener<Executed, Executed> for Context {
    fn call<'a>(&'a self, executed: Executed, next: Next<'a, Executed, Executed>) -> BoxFuture<'a, Executed> {
        async move {
            let mut executed = next.run(executed).await;
            if executed.call.name == self.tool {
                let id = format!("about-{}", executed.call.id);
                executed.contexts.push(notice(&id, &self.text));
            }
            executed
        }
        .boxed()
    }
}

fn notice(id: &str, text: &str) -> Message {
    let source = Source::Plugin { plugin: "page".into(), form: Form::Notice };
    Message { source, ..Message::user(id, text) }
}

/// Keeps a turn going, once.
struct SteerOnce {
    text: String,
    asked: Mutex<bool>,
}

impl Vote for SteerOnce {
    fn vote<'a>(&'a self, question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            if std::mem::replace(&mut *self.asked.lock().unwrap(), true) {
                return Ok(());
            }
            let sent = question.agent.send(notice("go-on", &self.text), Lane::NextStep, true).await;
            sent.map(drop).map_err(|e| Failure::new(code::HOOK, e.to_string()))
        }
        .boxed()
    }
}

/// Waits, then votes for nothing or fails.
struct Pause(Duration, Option<Failure>);

impl Vote for Pause {
    fn vote<'a>(&'a self, _: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            tokio::time::sleep(self.0).await;
            self.1.clone().map_or(Ok(()), Err)
        }
        .boxed()
    }
}
