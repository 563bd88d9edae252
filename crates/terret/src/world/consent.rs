//! Consent to a call: the question is in the log before anybody sees it, and the answer before anything starts.

use std::future::pending;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use terret_core::fact::{ApprovalAsked, ApprovalDecided, Outcome, SeamChanged};
use terret_core::input::Record;
use tokio::sync::{mpsc, oneshot};

use super::{Reply, World};
use crate::call::{Call, Done};
use crate::hook::Ask;

impl World {
    /// Asks whoever may consent. An error is the call's result.
    pub(super) async fn consent(&self, call: &Call, ask: &Ask, recorder: &mut Recorder) -> Result<(), Done> {
        let denied = |code, text| Done::error(&call.name, code, text).with_outcome(Outcome::Denied);
        let Some(approver) = &self.approver else {
            let text = format!(
                "This call needs somebody's consent ({}), and nobody is there who could give it: it was not started. \
                 Go on without it, or say what it would be needed for.",
                ask.what
            );
            return Err(denied("no-approver", text));
        };
        let choices = ask.choices.iter().map(|choice| choice.name.clone()).collect();
        recorder
            .record(Record::Asked(ApprovalAsked { call: call.id, what: ask.what.clone(), choices }))
            .await;
        let decision = approver.decide(call, ask).await.map_err(|failure| {
            denied("approval-failed", format!("Nobody consented to this call: {}", failure.message))
        })?;
        let allowed = ask.choices.iter().any(|choice| choice.allows && choice.name == decision.choice);
        let (choice, by) = (decision.choice.clone(), decision.by.clone());
        recorder.record(Record::Decided(ApprovalDecided { call: call.id, decision: choice, by })).await;
        match allowed {
            true => Ok(()),
            false => {
                let text = format!("The call was not allowed: {} said `{}`.", decision.by, decision.choice);
                Err(denied("not-approved", text))
            }
        }
    }
}

/// Records through the driver from inside an effect.
pub(super) struct Recorder {
    replies: mpsc::Sender<Reply>,
    notes: Vec<SeamChanged>,
}

impl Recorder {
    /// What plugins changed: recorded with what comes next.
    pub(super) fn note(&mut self, notes: Vec<SeamChanged>) {
        self.notes.extend(notes);
    }

    /// Returns once it is written. What the driver will not record is no longer asked for: then never.
    async fn record(&mut self, record: Record) {
        let (written, heard) = oneshot::channel();
        let reply = Reply::Record(record, written).noted(std::mem::take(&mut self.notes));
        if self.replies.send(reply).await.is_err() || heard.await.is_err() {
            pending::<()>().await;
        }
    }

    /// The last reply, with what is still to be noted.
    pub(super) fn close(self, reply: Reply) -> Reply {
        reply.noted(self.notes)
    }
}

/// The replies of an effect that records on its way to its answer.
pub(super) fn recording<F>(effect: impl FnOnce(Recorder) -> F) -> BoxStream<'static, Reply>
where
    F: Future<Output = Reply> + Send + 'static,
{
    let (replies, mut recorded) = mpsc::channel(1);
    let answer: BoxFuture<'static, Reply> = Box::pin(effect(Recorder { replies, notes: Vec::new() }));
    let recorded = stream::poll_fn(move |cx| recorded.poll_recv(cx));
    stream::select(recorded, stream::once(answer)).boxed()
}
