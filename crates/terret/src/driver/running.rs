//! The futures that run, each under the question it answers. Polled in the order of the questions, so that a
//! run can be repeated.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::BoxStream;
use terret_core::effect::Question;

use crate::world::Reply;

/// What runs.
#[derive(Default)]
pub(super) struct Running(BTreeMap<Question, BoxStream<'static, Reply>>);

impl Running {
    pub(super) fn contains(&self, question: &Question) -> bool {
        self.0.contains_key(question)
    }

    pub(super) fn insert(&mut self, question: Question, answers: BoxStream<'static, Reply>) {
        self.0.insert(question, answers);
    }

    /// Drops everything whose question is no longer asked.
    pub(super) fn retain(&mut self, mut asked: impl FnMut(&Question) -> bool) {
        self.0.retain(|question, _| asked(question));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Stream for Running {
    type Item = (Question, Reply);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut ended = Vec::new();
        let mut ready = None;
        for (question, answers) in &mut self.0 {
            match answers.as_mut().poll_next(cx) {
                Poll::Ready(Some(reply)) => {
                    ready = Some((*question, reply));
                    break;
                }
                Poll::Ready(None) => ended.push(*question),
                Poll::Pending => {}
            }
        }
        for question in ended {
            self.0.remove(&question);
        }
        match ready {
            Some(answer) => Poll::Ready(Some(answer)),
            None if self.0.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
