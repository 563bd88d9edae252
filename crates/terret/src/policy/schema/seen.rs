//! What of a turn decides about its answer: a fold of its events.

use std::io::{BufRead, BufReader};

use terret_core::chunk::FinishKind;
use terret_core::fact::Fact;
use terret_core::id::MsgId;
use terret_core::line::Line;
use terret_core::message::{Form, Message, Source};

use super::NAME;
use crate::error::Error;
use crate::mail::Handle;

/// A turn so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Its number; 0: none began.
    pub(super) turn: u32,
    /// Messages it claimed.
    pub(super) claimed: Vec<MsgId>,
    /// Whether a request told the model the schema.
    pub(super) told: bool,
    /// Whether the open step tells it.
    tells: bool,
    /// Whether the model was asked to mend its answer.
    pub(super) repaired: bool,
    /// Whether the output limit cut an answer: then the turn ends by that.
    pub(super) cut: bool,
    /// Text of the last answer.
    pub(super) text: String,
}

impl Seen {
    pub(super) fn take(&mut self, fact: &Fact) {
        if let Fact::TurnStart(start) = fact {
            *self = Seen { turn: start.turn, ..Seen::default() };
        }
        if let Fact::InboxClaimed(claimed) = fact {
            self.claimed.extend(claimed.msgs.iter().cloned());
        }
        if let Fact::StepStart(_) = fact {
            self.tells = false;
        }
        if let Fact::UserMessage(user) = fact {
            self.tells |= is_ours(&user.message, Form::Instructions);
        }
        // Until then the step may not have been admitted whole, and the model reads nothing of it.
        if let Fact::RequestAttempt(_) = fact {
            self.told |= self.tells;
        }
        if let Fact::InboxAdded(added) = fact {
            self.repaired |= is_ours(&added.message, Form::Notice);
        }
        if let Fact::AssistantMessage(answer) = fact {
            self.cut |= answer.finish.kind == FinishKind::MaxTokens;
            self.text = answer.message.text();
        }
    }

    /// The last turn of the log as it is stored, for who was not there when it began.
    pub(super) async fn from_log(agent: &Handle) -> Result<Self, Error> {
        let reader = BufReader::new(agent.reader(0).await?);
        let read = tokio::task::spawn_blocking(move || {
            let mut seen = Seen::default();
            // The first line is the header.
            for line in reader.split(b'\n').skip(1) {
                // Whoever opened the log has checked it.
                if let Some(event) =
                    line.ok().and_then(|line| Line::parse(&line).and_then(|l| l.event()).ok())
                {
                    seen.take(&event.fact);
                }
            }
            seen
        });
        read.await.map_err(|_| Error::Gone)
    }
}

/// Whether we wrote it, in this form.
pub(super) fn is_ours(message: &Message, as_form: Form) -> bool {
    matches!(&message.source, Source::Plugin { plugin, form } if plugin == NAME && *form == as_form)
}
