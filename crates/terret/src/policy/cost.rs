//! Money: what requests cost as they go out and come back, and a limit to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::chunk::{Failure, code};
use terret_core::fact::Cause;
use terret_core::line::Event;
use terret_core::price::Usd;
use terret_core::project::{Gap, Spending};

use super::cancel;
use crate::hook::{Listener, Next, PreStep, RequestPoint, Seams, Verdict};
use crate::mail::Handle;
use crate::request::{ChunkStream, Outgoing, Proposal};

/// Counts what the requests of an agent cost, from where it begins to listen. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Spending>>);

impl Meter {
    /// Listens.
    pub fn listen(&self, seams: &mut Seams) {
        seams.stream.add(Arc::new(self.clone()));
        self.hear(seams);
    }

    fn hear(&self, seams: &mut Seams) {
        let meter = self.clone();
        seams.events.add(Arc::new(move |event: &Event| meter.lock().fold(event)));
    }

    /// A resumed log may have said long ago which prices hold: a request knows.
    fn see(&self, outgoing: &Outgoing) {
        if let Some(context) = outgoing.context() {
            self.lock().under(context.clone());
        }
    }

    /// What was spent so far: [`Spending::whole`] is it, if it is known.
    pub fn read(&self) -> Spending {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Spending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Meter {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        self.see(&outgoing);
        next.run(outgoing)
    }
}

/// Ends a turn that has cost as much as it may, before its next request; lets no request out that has no price.
pub(super) struct Limit {
    limit: Usd,
    meter: Meter,
}

impl Limit {
    pub(super) fn install(limit: Usd, seams: &mut Seams) {
        let meter = Meter::default();
        meter.hear(seams);
        let limit = Arc::new(Limit { limit, meter });
        seams.pre_step.add(limit.clone());
        // A retry is a request too, and comes without a new step.
        seams.request.add(limit.clone());
        seams.stream.add(limit);
    }

    /// Why nothing more may be asked, if so.
    fn over(&self) -> Option<Cause> {
        let spending = self.meter.lock();
        if spending.at_least() >= self.limit {
            return Some(Cause::Budget { which: "cost".into(), limit: self.limit.micros_up() });
        }
        let reason = match spending.gap()? {
            // What a stream that was cut has cost nobody says, and it happens to everybody.
            Gap::Cut => return None,
            Gap::NoPrice => "a request had no price: what was spent is not known",
            Gap::NoUsage => "an answer came without its tokens: what was spent is not known",
        };
        Some(Cause::Hook { plugin: "budget".into(), reason: reason.into() })
    }

    fn ask<'a, T: Send + 'a>(
        &self,
        agent: &Handle,
        go_on: impl FnOnce() -> BoxFuture<'a, Result<T, Failure>>,
    ) -> BoxFuture<'a, Result<T, Failure>> {
        match self.over() {
            Some(cause) => cancel(agent, cause),
            None => go_on(),
        }
    }
}

impl Listener<PreStep, Result<Verdict, Failure>> for Limit {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        self.ask(&question.agent.clone(), || next.run(question))
    }
}

impl Listener<RequestPoint, Result<Proposal, Failure>> for Limit {
    fn call<'a>(
        &'a self,
        point: RequestPoint,
        next: Next<'a, RequestPoint, Result<Proposal, Failure>>,
    ) -> BoxFuture<'a, Result<Proposal, Failure>> {
        self.ask(&point.agent.clone(), || next.run(point))
    }
}

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Limit {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        self.meter.see(&outgoing);
        let context = outgoing.context();
        if context.is_some_and(|context| context.prices.is_some()) {
            return next.run(outgoing);
        }
        let header = outgoing.header();
        let text = unpriced(&header.provider, &header.model);
        std::future::ready(Err(Failure::new(code::NO_PRICE, text))).boxed()
    }
}

/// What is said of a route that a budget cannot count, with the keys that would change it.
pub fn unpriced(provider: &str, model: &str) -> String {
    format!(
        "nobody knows what `{provider}/{model}` costs, and the budget is in dollars: \
         set `input` and `output` of `[models.\"{provider}/{model}\"]`, per million tokens"
    )
}
