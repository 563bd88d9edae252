//! Makes the running futures equal to what is owed: starts what is missing, drops what is not asked for.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::stream::{BoxStream, StreamExt};
use terret_core::chunk::{Failure, code};
use terret_core::effect::{Effect, Question};
use terret_core::input::{Answer, Input};
use terret_core::raw::Raw;

use super::{Driver, Sending};
use crate::call::{Done, never_began, unknown_call};
use crate::error::Error;
use crate::hook::{FailedAttempt, Stopping};
use crate::model::Proposal;
use crate::request::{OUTPUT_SCHEMA, not_the_logged};
use crate::world::{Reply, words_of};

/// Where a request's configuration comes from: what this run says, else what the log says, else what the
/// configuration files say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    /// Route this run demands.
    pub(crate) route: Option<(String, String)>,
    /// Parameters this run demands.
    pub(crate) parameters: BTreeMap<String, Raw>,
    /// Route where the log has none.
    pub(crate) default_route: Option<(String, String)>,
    /// Parameters where the log has none.
    pub(crate) default_parameters: BTreeMap<String, Raw>,
}

impl Driver {
    fn owed(&self) -> Vec<Effect> {
        let mut owed = Vec::new();
        self.ledger.machine.effects(&mut owed);
        owed
    }

    /// Whether this question is still asked.
    pub(super) fn asks(&self, question: &Question) -> bool {
        self.ledger.machine.asks(*question)
    }

    /// Whether something that leaves the process waits to be started.
    pub(super) fn owes_outgoing(&self) -> bool {
        self.owed().iter().any(|e| e.leaves_process() && !self.running.contains(&e.question()))
    }

    /// Drops what is no longer owed.
    pub(super) fn drop_unasked(&mut self) {
        let machine = &self.ledger.machine;
        self.running.retain(|question| machine.asks(*question));
    }

    /// Drops what is no longer owed, starts what stays inside.
    pub(super) fn start_inside(&mut self) -> Result<(), Error> {
        self.drop_unasked();
        for effect in self.owed() {
            let question = effect.question();
            match effect {
                _ if self.running.contains(&question) => {}
                // Cancelled between its fact and its start: it never starts.
                Effect::Run { stop: true, run, .. } => {
                    let answer = Answer::Settled { settled: never_began(run), contexts: Vec::new() };
                    self.take(Input::Answer(question, answer))?;
                }
                _ if effect.leaves_process() => {}
                effect => {
                    let answers = self.inside(effect);
                    self.running.insert(question, contained(question, answers));
                }
            }
        }
        Ok(())
    }

    fn inside(&mut self, effect: Effect) -> BoxStream<'static, Reply> {
        let (world, agent, stop) = (self.world.clone(), self.post.handle.clone(), self.stop.subscribe());
        let folds = &self.ledger.folds;
        let future = match effect {
            Effect::PreStep { turn, step, batch } => {
                let batch = batch.iter().filter_map(|id| folds.waiting.get(id).cloned()).collect();
                world.pre_step(agent, (turn, step), batch, folds.known.clone(), stop)
            }
            Effect::Prepare { turn, step, attempt, delay_ms } => {
                let (proposal, assembly) = (self.proposal(), self.assembly.clone());
                match proposal {
                    Ok(proposal) => {
                        world.prepare(agent, (turn, step, attempt), delay_ms, proposal, assembly, stop)
                    }
                    Err(failure) => std::future::ready(Reply::Answer(Answer::Broken(failure))).boxed(),
                }
            }
            Effect::Recover { turn, step, attempt } => {
                let failure = folds.open.failure().cloned();
                let failure = failure.unwrap_or_else(|| Failure::new(code::UNKNOWN, "no failure in the log"));
                let retried = folds.retried.clone();
                world.recover(FailedAttempt { agent, turn, step, attempt, failure, retried, stop })
            }
            Effect::Admit { call, run } => {
                let (name, arguments) = folds.open.call(call).unwrap_or_default();
                let (name, arguments) = (name.to_owned(), arguments.to_owned());
                return world.admit((call, run), name, arguments, stop);
            }
            Effect::Stopping { turn, .. } => world.stopping(Stopping { agent, turn, stop }),
            // Started after the barrier.
            Effect::Stream { .. } | Effect::Run { .. } => {
                return futures_util::stream::empty().boxed();
            }
        };
        futures_util::stream::once(future).boxed()
    }

    /// Starts what leaves the process, with the tokens that prove it is in the log.
    pub(super) fn start_outgoing(&mut self) -> Result<(), Error> {
        for effect in self.owed() {
            let question = effect.question();
            if self.running.contains(&question) {
                continue;
            }
            match effect {
                Effect::Stream { turn, step, attempt } => self.send((turn, step, attempt))?,
                // Cancelled before it began: the next round says so.
                Effect::Run { stop: true, .. } => {}
                Effect::Run { call, run, .. } => {
                    let Some(proof) = self.ledger.journal.call(call) else {
                        let refused = Answer::Settled { settled: unknown_call(), contexts: Vec::new() };
                        self.unproven(question, refused)?;
                        continue;
                    };
                    let run = self.world.clone().run((call, run), proof, self.stop.subscribe());
                    let answers = futures_util::stream::once(run).boxed();
                    self.running.insert(question, contained(question, answers));
                }
                Effect::PreStep { .. }
                | Effect::Prepare { .. }
                | Effect::Recover { .. }
                | Effect::Admit { .. }
                | Effect::Stopping { .. } => {}
            }
        }
        Ok(())
    }

    /// Hands a logged request to the transport, if it is still exactly the one the log names.
    fn send(&mut self, asked: (u32, u32, u32)) -> Result<(), Error> {
        let question = Question::Stream(asked.0, asked.1, asked.2);
        let Some(proof) = self.ledger.journal.request() else {
            return self.unproven(question, Answer::Broken(not_the_logged()));
        };
        let header = self.ledger.folds.request.header();
        let logged = |s: &Sending| s.digest == proof.fact().digest && Some(&s.header) == header;
        match self.sending.take().filter(logged) {
            Some(Sending { header, body, adapter, .. }) => {
                let body = body.unwrap_or_default();
                let way = (header, self.ledger.folds.request.context().cloned());
                let stream = self.world.clone().stream(asked, proof, way, body, adapter);
                self.running.insert(question, contained(question, stream));
            }
            None => {
                self.take(Input::Answer(question, Answer::Broken(not_the_logged())))?;
            }
        }
        Ok(())
    }

    /// Something asked for has no proof: the next barrier brings it, or nothing ever will.
    fn unproven(&mut self, question: Question, refused: Answer) -> Result<(), Error> {
        if !self.ledger.journal.is_behind() {
            self.take(Input::Answer(question, refused))?;
        }
        Ok(())
    }

    /// What the next request would ask for, before the hooks.
    fn proposal(&self) -> Result<Proposal, Failure> {
        let header = self.ledger.folds.request.header();
        let logged = header.map(|h| (h.provider.clone(), h.model.clone()));
        let route =
            self.base.route.clone().or_else(|| logged.clone()).or_else(|| self.base.default_route.clone());
        let Some((provider, model)) = route else {
            return Err(Failure::new(code::INVALID_REQUEST, "no model was chosen"));
        };
        let mut parameters = match header {
            Some(header) => {
                // What an answer has to be is of the turn that asked for it.
                let derived = |name: &String| header.defaults.contains(name) || name == OUTPUT_SCHEMA;
                let chosen = header.parameters.iter().filter(|(name, _)| !derived(name));
                chosen.map(|(name, value)| (name.clone(), value.clone())).collect()
            }
            None => self.base.default_parameters.clone(),
        };
        parameters.extend(self.base.parameters.clone());
        Ok(Proposal { provider, model, parameters })
    }
}

/// A panic in a hook, a guard, an adapter or a tool is an answer like any other: its question's error, not the
/// driver's end.
fn contained(question: Question, answers: BoxStream<'static, Reply>) -> BoxStream<'static, Reply> {
    let answers = std::panic::AssertUnwindSafe(answers).catch_unwind();
    answers.map(move |reply| reply.unwrap_or_else(|panic| broken_down(question, &*panic))).boxed()
}

fn broken_down(question: Question, panic: &(dyn std::any::Any + Send)) -> Reply {
    let text = format!("something broke down: {}", words_of(panic));
    let settled = || Done::error("terret", "panic", text.clone());
    Reply::Answer(match question {
        Question::Admit(..) => Answer::Refused(settled()),
        Question::Run(..) => Answer::Settled { settled: settled(), contexts: Vec::new() },
        Question::PreStep(..)
        | Question::Prepare(..)
        | Question::Stream(..)
        | Question::Recover(..)
        | Question::Stopping(..) => Answer::Broken(Failure::new(code::HOOK, text)),
    })
}
