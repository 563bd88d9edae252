//! Everybody: what they do in one life of the process, and the receipts they wait for.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use terret::agent::{Agent, Receipt, Status};
use terret::core::fact::Fact;
use terret::core::id::MsgId;

use crate::crowd::Crowd;
use crate::limits::{MAX_ACTS, WINDOW_MS};
use crate::person::{ACTS, Person};
use crate::world::World;

/// What comes of an act.
enum Came {
    /// It is done; where a message was acknowledged, its receipt is left to wait for.
    Acted(Option<(MsgId, Receipt)>),
    /// A receipt resolved.
    Resolved(MsgId, usize),
}

/// Everybody, as long as one process lives.
pub(crate) struct People {
    person: Person,
    crowd: Crowd<Came>,
    acting: u32,
    /// Receipts not resolved yet: each message, and how many events the log had when it was acknowledged.
    waiting: Vec<(MsgId, usize)>,
}

impl People {
    pub(crate) fn new(world: &World, agent: &Agent) -> Self {
        let person = Person { world: world.clone(), agent: agent.clone() };
        People { person, crowd: Crowd::default(), acting: 0, waiting: Vec::new() }
    }

    /// They do what they do; returns when all of it is done.
    pub(crate) async fn act(&mut self) {
        let acts = self.person.world.lock().dice.below(MAX_ACTS + 1);
        let mut at = 0;
        for _ in 0..acts {
            let person = self.person.clone();
            let act = {
                let mut state = person.world.lock();
                // Often several things are done at one moment.
                if state.dice.below(3) > 0 {
                    at = state.dice.within(0..WINDOW_MS);
                }
                *state.dice.pick(&ACTS)
            };
            self.acting += 1;
            self.crowd.add(async move {
                tokio::time::sleep(Duration::from_millis(at)).await;
                person.world.tell(|| format!("somebody does: {act:?}"));
                Came::Acted(person.act(act).await)
            });
        }
        poll_fn(|cx| {
            self.poll(cx);
            if self.acting == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Receipts go on resolving while something else goes on.
    pub(crate) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// One more prompt, later.
    pub(crate) fn sends_after(&mut self, wait: Duration) {
        let person = self.person.clone();
        self.acting += 1;
        self.crowd.add(async move {
            tokio::time::sleep(wait).await;
            person.sends().await;
            Came::Acted(None)
        });
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        loop {
            let came = self.crowd.poll(cx);
            if came.is_empty() {
                return;
            }
            for came in came {
                match came {
                    Came::Acted(receipt) => {
                        self.acting -= 1;
                        if let Some((id, receipt)) = receipt {
                            self.wait_for(id, receipt);
                        }
                    }
                    Came::Resolved(id, at) => {
                        let found = self.waiting.iter().position(|waiting| *waiting == (id.clone(), at));
                        found.map(|at| self.waiting.swap_remove(at));
                    }
                }
            }
        }
    }

    fn wait_for(&mut self, id: MsgId, receipt: Receipt) {
        let person = self.person.clone();
        let at = person.world.lock().witness.events.len();
        self.waiting.push((id.clone(), at));
        self.crowd.add(async move {
            match receipt.settled().await {
                Ok(settlement) => person.settled(&id, settlement),
                Err(_) => person.let_go(&id),
            }
            Came::Resolved(id, at)
        });
    }

    /// The agent says that it does nothing.
    pub(crate) fn idle(&self, status: Status) {
        self.person.idle(status);
    }

    /// Now that the agent is idle, a receipt may wait only for a message that waits too, and about which no turn
    /// that ended since has anything to say.
    pub(crate) fn check_unresolved(&self) {
        let mut state = self.person.world.lock();
        for (id, at) in &self.waiting {
            let ended =
                state.witness.events[*at..].iter().any(|event| matches!(event.fact, Fact::TurnEnd(_)));
            if ended || !state.waits(id) {
                state.fault(format!("the receipt of {id} never resolves"));
            }
        }
    }
}
