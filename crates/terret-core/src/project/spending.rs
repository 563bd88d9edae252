//! What requests cost, from the counts and the prices that stand in the log.

use std::sync::Arc;

use crate::chunk::Usage;
use crate::fact::{Fact, RequestContext};
use crate::line::Event;
use crate::price::Usd;

/// Folds events into an amount. Failed attempts count. Tokens that are told of before any request went some way are
/// of a request that somebody else sent, and count for that one.
#[derive(Clone, Debug, Default)]
pub struct Spending {
    context: Option<Arc<RequestContext>>,
    spent: Usd,
    /// Whether anything was counted.
    counted: bool,
    /// Why the amount is not the whole truth.
    gap: Option<Gap>,
}

/// What an amount leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Tokens of a route without a price.
    NoPrice,
    /// An answer whose tokens nobody counted.
    NoUsage,
}

impl Spending {
    /// Goes on in the middle of a log, where requests go this way.
    pub fn under(&mut self, context: Arc<RequestContext>) {
        self.context = Some(context);
    }

    /// Takes one event in.
    pub fn fold(&mut self, event: &Event) {
        if let Fact::RequestContext(context) = &event.fact {
            self.under(Arc::new(context.clone()));
        }
        let Some(context) = self.context.clone() else { return };
        if let Fact::AssistantMessage(answer) = &event.fact {
            match &answer.usage {
                Some(usage) => self.count(&context, usage),
                None => self.gap = self.gap.or(Some(Gap::NoUsage)),
            }
        }
        // One that failed before anything was counted mostly cost nothing, and nobody says what it did.
        if let Fact::RequestFailed(failed) = &event.fact {
            failed.usage.iter().for_each(|usage| self.count(&context, usage));
        }
    }

    fn count(&mut self, context: &RequestContext, usage: &Usage) {
        self.counted = true;
        match &context.prices {
            Some(prices) => self.spent = self.spent.plus(prices.cost(usage)),
            None => self.gap = Some(Gap::NoPrice),
        }
    }

    /// The way requests go.
    pub fn context(&self) -> Option<&RequestContext> {
        self.context.as_deref()
    }

    /// What was spent at the least: what has no price or no count is not in it.
    pub fn at_least(&self) -> Usd {
        self.spent
    }

    /// What the amount leaves out, if anything.
    pub fn gap(&self) -> Option<Gap> {
        self.gap
    }

    /// What was spent; `None` if that is not known.
    pub fn whole(&self) -> Option<Usd> {
        (self.counted && self.gap.is_none()).then_some(self.spent)
    }
}
