//! Gremlins: plugins that stand at every seam, mostly let things pass, and now and then do anything a plugin may
//! do.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use terret::core::chunk::{Failure, code};
use terret::core::fact::{Cause, Fact, Lane};
use terret::core::message::{Form, Message, Source};
use terret::core::raw::Raw;
use terret::hook::{
    Admission, Executed, FailedAttempt, Listener, Next, Order, Phase, Plugin, PreStep, Recovery,
    RequestPoint, Seams, Section, Stopping, Verdict, Vote,
};
use terret::model::{ChunkStream, Outgoing, Proposal};
use terret::tool::{Call, Done, Started};

use crate::ask::Asked;
use crate::model::{NOBODY, ROUTES, SERVED, answer};
use crate::quiet::panic_as_planned;
use crate::reached::Situation;
use crate::world::World;

/// One of them.
#[derive(Clone)]
pub(crate) struct Gremlin {
    world: World,
    name: String,
    phase: Phase,
}

/// What one does this time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Passes,
    Fails,
    Panics,
    /// Something of its own; the number says what.
    Acts(u32),
}

impl Gremlin {
    pub(crate) fn new(world: &World, number: u32) -> Self {
        let phase = *world.lock().dice.pick(&[Phase::Early, Phase::Normal, Phase::Late]);
        Gremlin { world: world.clone(), name: format!("gremlin-{number}"), phase }
    }

    /// Rolls how long it takes and what it does.
    fn mood(&self) -> (Duration, Mood) {
        let mut state = self.world.lock();
        let (acts, slow) = (state.temper.hook_acts, state.temper.hook_slow);
        let wait = if state.trouble(slow) { state.dice.wait_ms() } else { 0 };
        let mood = match state.trouble(acts) {
            false => Mood::Passes,
            true => match state.dice.below(8) {
                0 => Mood::Fails,
                1 => Mood::Panics,
                n => Mood::Acts(n - 2),
            },
        };
        match mood {
            Mood::Fails => state.reached.count(Situation::HookFailed),
            Mood::Panics => state.reached.count(Situation::HookPanicked),
            Mood::Passes | Mood::Acts(_) => {}
        }
        (Duration::from_millis(wait), mood)
    }

    /// Takes its time, and gives the mood in which it comes back.
    async fn rolled(&self, what: &str) -> Mood {
        let (wait, mood) = self.mood();
        tokio::time::sleep(wait).await;
        self.world.step(what);
        if mood == Mood::Panics {
            panic_as_planned();
        }
        mood
    }

    fn asked<'a, T>(
        &self,
        what: &'static str,
        turn: u32,
        work: impl Future<Output = T> + Send + 'a,
    ) -> BoxFuture<'a, T>
    where
        T: Send + 'a,
    {
        Asked::new(&self.world, what, turn, work.boxed()).boxed()
    }

    fn message(&self) -> Message {
        let n = self.world.lock().fresh();
        let source = Source::Plugin { plugin: self.name.clone(), form: Form::Notice };
        Message { source, ..Message::user(format!("{}-{n}", self.name).as_str(), format!("note {n}")) }
    }

    /// Whether it lets a call start with consent only.
    fn asks(&self) -> bool {
        let mut state = self.world.lock();
        let asks = state.temper.asks;
        state.trouble(asks)
    }

    fn count(&self, situation: Situation) {
        self.world.count(situation);
    }

    /// These messages of a batch will not reach the model.
    fn drops(&self, messages: &[Message]) {
        let dropped = messages.iter().map(|message| message.id.clone());
        self.world.lock().witness.told.dropped.extend(dropped);
    }
}

fn failed() -> Failure {
    Failure::new(code::HOOK, "a gremlin failed")
}

impl Plugin for Gremlin {
    fn name(&self) -> &str {
        &self.name
    }

    fn order(&self) -> Order {
        Order { phase: self.phase, ..Order::default() }
    }

    fn install(&self, seams: &mut Seams) {
        let this = Arc::new(self.clone());
        seams.pre_step.add(this.clone());
        seams.prompt.add(this.clone());
        seams.request.add(this.clone());
        seams.request_error.add(this.clone());
        seams.stream.add(this.clone());
        seams.pre_execute.add(this.clone());
        seams.execute.add(this.clone());
        seams.post_execute.add(this.clone());
        seams.stopping.add(this.clone());
        seams.served.push(SERVED.to_owned());
        let guard = self.clone();
        seams.guards.add(Arc::new(move |_| match guard.mood().1 {
            Mood::Panics => panic_as_planned(),
            Mood::Acts(0) => Some("a gremlin says no".to_owned()),
            Mood::Passes | Mood::Fails | Mood::Acts(_) => None,
        }));
        let observer = self.clone();
        seams.events.add(Arc::new(move |event| observer.sees(&event.fact)));
    }
}

impl Gremlin {
    fn sees(&self, fact: &Fact) {
        // Its own mail would make it post again.
        if matches!(fact, Fact::InboxAdded(_) | Fact::AssistantChunk(_)) {
            return;
        }
        let handle = self.world.lock().handle.clone();
        match (self.mood().1, handle) {
            (Mood::Panics, _) => {
                self.count(Situation::ObserverPanicked);
                panic_as_planned()
            }
            (Mood::Acts(0), Some(handle)) => {
                self.count(Situation::ObserverPosted);
                let cause = Cause::Hook { plugin: self.name.clone(), reason: "seen enough".into() };
                drop(handle.cancel_now(cause));
            }
            (Mood::Acts(1), Some(handle)) => {
                self.count(Situation::ObserverPosted);
                let message = self.message();
                let wake = self.world.lock().dice.half();
                tokio::spawn(async move { drop(handle.send(message, Lane::NextStep, wake).await) });
            }
            (Mood::Passes | Mood::Fails | Mood::Acts(_), _) => {}
        }
    }
}

impl Listener<PreStep, Result<Verdict, Failure>> for Gremlin {
    fn call<'a>(
        &'a self,
        mut question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let turn = question.turn;
        self.asked("agent/pre-step", turn, async move {
            let reject = |keep| Verdict::Reject { by: self.name.clone(), reason: "no".into(), keep };
            match self.rolled("in a pre-step").await {
                Mood::Fails => return Err(failed()),
                Mood::Acts(0) => {
                    self.count(Situation::HookRewrote);
                    question.messages.push(self.message());
                }
                Mood::Acts(1) => {
                    self.count(Situation::HookRewrote);
                    let last = question.messages.pop();
                    self.drops(last.as_slice());
                }
                Mood::Acts(2) => {
                    self.count(Situation::HookEmptied);
                    self.drops(&question.messages);
                    return Ok(Verdict::Enter(Vec::new()));
                }
                Mood::Acts(3) => {
                    self.count(Situation::HookRejected);
                    self.drops(&question.messages);
                    return Ok(reject(false));
                }
                Mood::Acts(4) => {
                    self.count(Situation::HookKept);
                    return Ok(reject(true));
                }
                Mood::Passes | Mood::Panics | Mood::Acts(_) => {}
            }
            next.run(question).await
        })
    }
}

impl Listener<Vec<Section>, Result<Vec<Section>, Failure>> for Gremlin {
    fn call<'a>(
        &'a self,
        mut question: Vec<Section>,
        next: Next<'a, Vec<Section>, Result<Vec<Section>, Failure>>,
    ) -> BoxFuture<'a, Result<Vec<Section>, Failure>> {
        async move {
            match self.rolled("in an assembly").await {
                Mood::Fails => return Err(failed()),
                Mood::Acts(0) => {
                    let text = format!("Mind note {}.", self.world.lock().fresh());
                    question.push(Section { name: self.name.clone(), text });
                }
                Mood::Acts(1) => question.clear(),
                Mood::Passes | Mood::Panics | Mood::Acts(_) => {}
            }
            next.run(question).await
        }
        .boxed()
    }
}

impl Listener<RequestPoint, Result<Proposal, Failure>> for Gremlin {
    fn call<'a>(
        &'a self,
        mut question: RequestPoint,
        next: Next<'a, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'a, Result<Proposal, Failure>> {
        let turn = question.turn;
        self.asked("agent/request", turn, async move {
            let proposal = &mut question.proposal;
            match self.rolled("in a request hook").await {
                Mood::Fails => return Err(failed()),
                Mood::Acts(0) => {
                    self.count(Situation::Rerouted);
                    let (provider, model) = *self.world.lock().dice.pick(&ROUTES);
                    (proposal.provider, proposal.model) = (provider.to_owned(), model.to_owned());
                }
                Mood::Acts(1) => proposal.provider = SERVED.to_owned(),
                Mood::Acts(2) => proposal.provider = NOBODY.to_owned(),
                Mood::Acts(3) => {
                    let n = self.world.lock().fresh();
                    proposal.parameters.insert("seed".into(), Raw::string(&n.to_string()));
                }
                Mood::Passes | Mood::Panics | Mood::Acts(_) => {}
            }
            next.run(question).await
        })
    }
}

impl Listener<FailedAttempt, Result<Recovery, Failure>> for Gremlin {
    fn call<'a>(
        &'a self,
        question: FailedAttempt,
        next: Next<'a, FailedAttempt, Result<Recovery, Failure>>,
    ) -> BoxFuture<'a, Result<Recovery, Failure>> {
        let turn = question.turn;
        self.asked("agent/request-error", turn, async move {
            match self.rolled("in a recovery").await {
                Mood::Fails => Err(failed()),
                Mood::Acts(0..=2) => {
                    let delay_ms = self.world.lock().dice.wait_ms();
                    Ok(Recovery::Retry { by: self.name.clone(), delay_ms })
                }
                Mood::Acts(3) => Ok(Recovery::GiveUp),
                Mood::Passes | Mood::Panics | Mood::Acts(_) => next.run(question).await,
            }
        })
    }
}

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Gremlin {
    fn call<'a>(
        &'a self,
        question: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        async move {
            if question.header().provider == SERVED {
                self.count(Situation::Served);
                return Ok(answer(&self.world, &question));
            }
            match self.rolled("around a stream").await {
                Mood::Fails => Err(failed()),
                Mood::Acts(0) => {
                    let whole = next.run(question).await?;
                    let cut = self.world.lock().dice.below(5) as usize;
                    let end = futures_util::stream::once(std::future::ready(Err(failed())));
                    Ok(whole.take(cut).chain(end).boxed())
                }
                Mood::Acts(1) => {
                    let whole = next.run(question).await?;
                    Ok(whole.map(|_| panic_as_planned()).boxed())
                }
                Mood::Passes | Mood::Panics | Mood::Acts(_) => next.run(question).await,
            }
        }
        .boxed()
    }
}

impl Listener<Call, Admission> for Gremlin {
    fn call<'a>(&'a self, question: Call, next: Next<'a, Call, Admission>) -> BoxFuture<'a, Admission> {
        let turn = question.id.turn;
        self.asked("tools/pre-execute", turn, async move {
            match self.rolled("as a call is judged").await {
                Mood::Fails => Admission::Deny(Done::error(&question.name, "gremlin", "it failed")),
                Mood::Acts(0) => Admission::deny("gremlin", "a gremlin does not allow it"),
                Mood::Passes if self.asks() => Admission::Ask(self.world.lock().demand_consent(&question)),
                Mood::Passes | Mood::Panics | Mood::Acts(_) => next.run(question).await,
            }
        })
    }
}

impl Listener<Started, Done> for Gremlin {
    fn call<'a>(&'a self, question: Started, next: Next<'a, Started, Done>) -> BoxFuture<'a, Done> {
        async move {
            match self.rolled("around a tool").await {
                Mood::Fails => Done::error(&question.name, "gremlin", "it failed"),
                Mood::Acts(0) => Done { concludes: true, ..next.run(question).await },
                Mood::Passes | Mood::Panics | Mood::Acts(_) => next.run(question).await,
            }
        }
        .boxed()
    }
}

impl Listener<Executed, Executed> for Gremlin {
    fn call<'a>(&'a self, question: Executed, next: Next<'a, Executed, Executed>) -> BoxFuture<'a, Executed> {
        async move {
            let mood = self.rolled("after a tool").await;
            let mut executed = next.run(question).await;
            match mood {
                Mood::Acts(0) => executed.done = Done::ok("a gremlin says so"),
                Mood::Acts(1) => {
                    self.count(Situation::ContextAdded);
                    executed.contexts.push(self.message());
                }
                Mood::Passes | Mood::Fails | Mood::Panics | Mood::Acts(_) => {}
            }
            executed
        }
        .boxed()
    }
}

impl Vote for Gremlin {
    fn vote<'a>(&'a self, question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        self.asked("agent/turn-stopping", question.turn, async move {
            match self.rolled("as a turn stops").await {
                Mood::Fails => Err(failed()),
                Mood::Acts(0..=2) => {
                    self.count(Situation::Steered);
                    let sent = question.agent.send(self.message(), Lane::NextStep, true).await;
                    sent.map(drop).map_err(|e| Failure::new(code::HOOK, e.to_string()))
                }
                Mood::Passes | Mood::Panics | Mood::Acts(_) => Ok(()),
            }
        })
    }
}
