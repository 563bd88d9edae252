//! Mail: what people and plugins post to a running session.

use terret_core::digest::message_digest;
use terret_core::fact::Cause;
use terret_core::input::Input;

use super::{Ack, Driver};
use crate::error::Error;
use crate::limits::MAX_MESSAGE_BYTES;
use crate::mail::{Mail, Reading};

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
                match self.ledger.folds.accepted.get(&id) {
                    Some(known) if *known != message_digest(&send.message) => {
                        let _ = ack.send(Err(Error::IdReused(id.to_string())));
                        return Ok(());
                    }
                    // Sent again: acknowledged again, and nothing changes.
                    Some(_) => {}
                    None => {
                        self.take(Input::Send(send))?;
                    }
                }
                if self.ledger.folds.waiting.contains_key(&id) {
                    self.receipts.expect(id, settled);
                }
                self.ack(ack);
            }
            Mail::Input { input, ack } => {
                self.take(input)?;
                self.ack(ack);
            }
            Mail::Look { reading } => {
                let _ = reading.send(self.reading());
            }
            Mail::Reader { from, reader } => {
                let _ = reader.send(self.ledger.journal.log().reader(from));
            }
            Mail::Shutdown { done } => {
                self.take(Input::Cancel { cause: Cause::Disposed })?;
                self.shutdown = Some(done);
            }
        }
        Ok(())
    }

    fn ack(&mut self, ack: Ack) {
        let seq = self.ledger.fresh.last().map_or(0, |event| event.seq);
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
