//! Several futures polled in a fixed order, whoever was woken: a watch channel wakes its readers in any order,
//! and a run must be repeatable.

use std::pin::Pin;
use std::task::{Context, Poll};

type Member<T> = Pin<Box<dyn Future<Output = T>>>;

/// The futures, in the order they were added.
pub(crate) struct Crowd<T>(Vec<Member<T>>);

impl<T> Default for Crowd<T> {
    fn default() -> Self {
        Crowd(Vec::new())
    }
}

impl<T> Crowd<T> {
    pub(crate) fn add(&mut self, member: impl Future<Output = T> + 'static) {
        self.0.push(Box::pin(member));
    }

    /// Polls everyone once; gives what is done.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Vec<T> {
        let mut done = Vec::new();
        self.0.retain_mut(|member| match member.as_mut().poll(cx) {
            Poll::Ready(value) => {
                done.push(value);
                false
            }
            Poll::Pending => true,
        });
        done
    }
}
