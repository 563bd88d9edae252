//! Futures the driver must drop once their question is no longer asked: each poll looks whether it should have
//! been.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use crate::reached::Situation;
use crate::world::World;

/// Works as long as `turn` is open and nobody cancelled it.
pub(crate) struct Asked<'a, T> {
    world: World,
    what: &'static str,
    turn: u32,
    work: BoxFuture<'a, T>,
    done: bool,
}

impl<'a, T> Asked<'a, T> {
    pub(crate) fn new(world: &World, what: &'static str, turn: u32, work: BoxFuture<'a, T>) -> Self {
        Asked { world: world.clone(), what, turn, work, done: false }
    }
}

impl<T> Future for Asked<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if !self.world.lock().witness.goes_on(self.turn) {
            let (what, turn) = (self.what, self.turn);
            self.world.broken(format!("{what} of turn {turn} goes on though nobody asks any more"));
        }
        let polled = self.work.as_mut().poll(cx);
        self.done = polled.is_ready();
        polled
    }
}

impl<T> Drop for Asked<'_, T> {
    fn drop(&mut self) {
        if !self.done && !std::thread::panicking() {
            let mut state = self.world.lock();
            if !state.dead {
                state.reached.count(Situation::LateAnswer);
            }
        }
    }
}
