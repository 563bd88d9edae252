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
    /// Whether the open attempt has said anything.
    streamed: bool,
    /// Why the amount is not the whole truth.
    gap: Option<Gap>,
}

/// What an amount leaves out; the worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// What was said in a stream that was cut before its tokens were counted.
    Cut,
    /// A whole answer whose tokens nobody counted.
    NoUsage,
    /// Tokens of a route without a price.
    NoPrice,
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
        if let Fact::RequestAttempt(_) = &event.fact {
            self.streamed = false;
        }
        if let Fact::AssistantChunk(_) = &event.fact {
            self.streamed = true;
        }
        if let Fact::AssistantMessage(answer) = &event.fact {
            let uncounted = if answer.interrupted { Gap::Cut } else { Gap::NoUsage };
            self.count(&context, answer.usage.as_ref(), Some(uncounted));
        }
        if let Fact::RequestFailed(failed) = &event.fact {
            // One that was refused before it said anything cost nothing.
            self.count(&context, failed.usage.as_ref(), self.streamed.then_some(Gap::Cut));
        }
    }

    fn count(&mut self, context: &RequestContext, usage: Option<&Usage>, uncounted: Option<Gap>) {
        let gap = match (usage, &context.prices) {
            (Some(usage), Some(prices)) => {
                self.spent = self.spent.plus(prices.cost(usage));
                None
            }
            (Some(_), None) => Some(Gap::NoPrice),
            (None, _) => uncounted,
        };
        self.counted |= usage.is_some();
        self.gap = self.gap.max(gap);
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
