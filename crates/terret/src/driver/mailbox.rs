//! Mail: what people and plugins post to a running session.

use terret_core::digest::message_digest;
use terret_core::fact::Cause;
use terret_core::id::Digest;
use terret_core::input::{Input, Record};
use terret_core::machine::Handled;

use super::{Ack, Driver};
use crate::error::Error;
use crate::limits::MAX_MESSAGE_BYTES;
use crate::mail::{Mail, Reading, Settlement};

impl Driver {
    pub(super) fn receive(&mut self, mail: Mail) -> Result<(), Error> {
        match mail {
            Mail::Send { send, ack, settled } => {
                let id = send.message.id.clone();
                let size = serde_json::to_vec(&send.message).map_or(usize::MAX, |json| json.len());
                if size > MAX_MESSAGE_BYTES {
                    let _ = ack.send(Err(Error::TooLarge { bytes: size, limit: MAX_MESSAGE_BYTES }));
                    return Ok(());
                }
                let lacks = |blob: &Digest| !self.ledger.journal.log().has_blob(blob);
                if let Some(lost) = send.message.attachments().into_iter().find(|a| lacks(&a.blob)) {
                    let why = format!(
                        "attachment {} is not kept here: give its bytes to the agent first",
                        lost.blob
                    );
                    let _ = ack.send(Err(Error::Usage(why)));
                    return Ok(());
                }
                match self.ledger.folds.accepted.get(&id) {
                    Some(known) if *known != message_digest(&send.message) => {
                        let _ = ack.send(Err(Error::IdReused(id.to_string())));
                        return Ok(());
                    }
                    // Sent again: acknowledged again, and nothing changes.
                    Some(_) => {}
                    None => {
                        if self.take(Input::Send(*send))? == Handled::Refused {
                            let why = "the message it should replace is no longer pending";
                            let _ = ack.send(Err(Error::Refused(why)));
                            return Ok(());
                        }
                    }
                }
                match self.ledger.folds.waiting.contains_key(&id) {
                    true => self.receipts.expect(id, settled),
                    false => drop(settled.send(Settlement::Earlier)),
                }
                self.ack(ack);
            }
            Mail::Input { input, ack } => {
                if let Some(bytes) = too_large(&input) {
                    let _ = ack.send(Err(Error::TooLarge { bytes, limit: MAX_MESSAGE_BYTES }));
                    return Ok(());
                }
                if let Input::Record(Record::Surface(replaced)) = &*input
                    && let Err(why) = self.ledger.folds.request.messages().may_replace(replaced)
                {
                    let _ = ack.send(Err(Error::Refused(why)));
                    return Ok(());
                }
                match self.take(*input)? {
                    Handled::Refused => {
                        let why = "a turn is closing or waits for recovery, or the call is not being judged";
                        let _ = ack.send(Err(Error::Refused(why)));
                    }
                    Handled::Yes | Handled::Late => self.ack(ack),
                }
            }
            Mail::Look { reading } => {
                let _ = reading.send(self.reading());
            }
            Mail::Reader { from, reader } => {
                let _ = reader.send(self.ledger.journal.log().reader(from));
            }
            Mail::Shutdown { done } => {
                // Pushed first: whatever goes wrong from here on, it is answered.
                self.shutdown.push(done);
                self.rest()?;
                // A turn that a dead writer left open is not ours to cancel: whoever opens it next decides.
                if !self.ledger.machine.suspended() {
                    self.take(Input::Cancel { cause: Cause::Disposed })?;
                }
            }
        }
        Ok(())
    }

    fn ack(&mut self, ack: Ack) {
        let seq = self.ledger.fresh.last().map(|event| event.seq);
        self.acks.push((seq, ack));
    }

    fn reading(&self) -> Reading {
        let state = self.ledger.machine.state();
        Reading {
            head: self.ledger.journal.head(),
            pending: state.inbox().iter().cloned().collect(),
            suspended: self.ledger.machine.suspended(),
            armed: state.armed(),
            log: self.ledger.journal.log().path().to_owned(),
        }
    }
}

/// Bytes of a record that no log line could hold.
fn too_large(input: &Input) -> Option<usize> {
    let json =
        |value: &terret_core::message::Message| serde_json::to_vec(value).map_or(usize::MAX, |j| j.len());
    let bytes = match input {
        Input::Record(Record::Plugin(event)) => event.data.get().len(),
        Input::Record(Record::Surface(replaced)) => json(&replaced.message),
        Input::Cancel { cause: Cause::User { text } } => text.as_ref().map_or(0, String::len) * 6,
        Input::Cancel { cause: Cause::Hook { plugin, reason } } => (plugin.len() + reason.len()) * 6,
        Input::Record(Record::Asked(asked)) => {
            (asked.what.len() + asked.choices.iter().map(String::len).sum::<usize>()) * 6
        }
        Input::Record(Record::Decided(decided)) => (decided.decision.len() + decided.by.len()) * 6,
        Input::Record(Record::Seam(changed)) => changed.what.len() * 6,
        _ => 0,
    };
    (bytes > MAX_MESSAGE_BYTES).then_some(bytes)
}
