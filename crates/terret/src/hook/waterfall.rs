//! Waterfalls: a question goes from listener to listener, each may change it, answer it, or change the answer;
//! who did what is noted.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret_core::fact::SeamChanged;
use terret_core::id::Digest;

use super::chain::{Chain, Entry};

/// A listener of a waterfall.
pub trait Listener<Q, A>: Send + Sync {
    /// Answers, by itself or through `next`.
    fn call<'a>(&'a self, question: Q, next: Next<'a, Q, A>) -> BoxFuture<'a, A>;
}

/// What can be compared of a question or an answer, to tell whether somebody changed it.
pub trait Print {
    /// The same for the same content.
    fn print(&self) -> Digest;
}

/// A seam where listeners answer.
pub type Waterfall<Q, A> = Chain<dyn Listener<Q, A>>;

impl<Q: Print + Send + 'static, A: Print + Send + 'static> Chain<dyn Listener<Q, A>> {
    /// Asks, with `last` as what happens when nobody steps in. What listeners change goes to `trace`.
    pub fn ask<'a>(
        &'a self,
        question: Q,
        trace: &Trace,
        last: impl FnOnce(Q) -> BoxFuture<'a, A> + Send + 'a,
    ) -> BoxFuture<'a, A> {
        if self.is_empty() {
            // Nobody can change anything: nothing is compared.
            return last(question);
        }
        let seen = Arc::default();
        Next { rest: self.entries(), last: Box::new(last), trace: trace.clone(), seen }.run(question)
    }
}

/// What comes after a listener. Consumed by use.
pub struct Next<'a, Q, A> {
    rest: &'a [Entry<dyn Listener<Q, A>>],
    last: Box<dyn FnOnce(Q) -> BoxFuture<'a, A> + Send + 'a>,
    trace: Trace,
    /// What went through here, for the listener before.
    seen: Arc<Mutex<Seen>>,
}

/// Prints of what a listener handed on and got back.
#[derive(Default)]
struct Seen {
    question: Option<Digest>,
    answer: Option<Digest>,
}

impl<'a, Q: Print + Send + 'static, A: Print + Send + 'static> Next<'a, Q, A> {
    /// Asks the next listener, or takes the default.
    pub fn run(self, question: Q) -> BoxFuture<'a, A> {
        let Next { rest, last, trace, seen: outer } = self;
        let asked = question.print();
        outer.lock().unwrap_or_else(PoisonError::into_inner).question = Some(asked);
        let Some((entry, rest)) = rest.split_first() else {
            return async move {
                let answer = last(question).await;
                outer.lock().unwrap_or_else(PoisonError::into_inner).answer = Some(answer.print());
                answer
            }
            .boxed();
        };
        let inner = Arc::<Mutex<Seen>>::default();
        let next = Next { rest, last, trace: trace.clone(), seen: inner.clone() };
        async move {
            let answer = entry.listener.call(question, next).await;
            let print = answer.print();
            trace.compare(&entry.plugin, asked, &inner.lock().unwrap_or_else(PoisonError::into_inner), print);
            outer.lock().unwrap_or_else(PoisonError::into_inner).answer = Some(print);
            answer
        }
        .boxed()
    }
}

/// What plugins did at a seam while one question went through it.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<(String, &'static str)>>>);

impl Trace {
    fn compare(&self, plugin: &str, asked: Digest, inner: &Seen, answer: Digest) {
        let note = |what| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((plugin.to_owned(), what));
        };
        match inner.question {
            None => note("answered without asking further"),
            Some(question) => {
                if question != asked {
                    note("changed the question");
                }
                if inner.answer.is_some_and(|inner| inner != answer) {
                    note("changed the answer");
                }
            }
        }
    }

    /// The facts that say it, for this seam.
    pub(crate) fn facts(&self, seam: &str) -> Vec<SeamChanged> {
        let changes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let fact = |(plugin, what): (String, &str)| SeamChanged {
            seam: seam.to_owned(),
            plugin,
            what: what.to_owned(),
        };
        changes.into_iter().map(fact).collect()
    }
}
