//! What requests cost, from the counts and the prices that stand in the log.

use std::sync::Arc;

use crate::chunk::{Chunk, Usage, code};
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
    /// Whether it has said how it ends.
    finished: bool,
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
            self.finished = false;
        }
        if let Fact::AssistantChunk(piece) = &event.fact {
            self.streamed = true;
            self.finished |= matches!(piece.chunk, Chunk::Finish { .. });
        }
        if let Fact::AssistantMessage(answer) = &event.fact {
            // What was counted before a cut is not all of it: some wires count the answer at its end.
            self.gap = self.gap.max(answer.interrupted.then_some(Gap::Cut));
            self.count(&context, answer.usage.as_ref(), Some(Gap::NoUsage).filter(|_| !answer.interrupted));
        }
        if let Fact::RequestFailed(failed) = &event.fact {
            // One that was refused before it said anything cost nothing.
            let whole = self.finished || failed.failure.code == code::EMPTY_RESPONSE;
            self.gap = self.gap.max((self.streamed && !whole).then_some(Gap::Cut));
            self.count(&context, failed.usage.as_ref(), (self.streamed && whole).then_some(Gap::NoUsage));
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
