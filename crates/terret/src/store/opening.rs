//! What a writer finds that opens a log, wherever that is kept.

use std::io::Read;

use terret_core::line::Event;

use super::list::needs_plugin;
use super::repair::Repair;
use super::{Bad, Scan};
use crate::error::Error;

/// Hands every event to `fold`, and says what the first append has to set right. `is_torn` is asked about a bad
/// line. Fails if the log is damaged, or needs a plugin.
pub(super) fn read_through<R: Read>(
    scan: &mut Scan<R>,
    fold: &mut dyn FnMut(&Event),
    is_torn: impl FnOnce(&mut Scan<R>, &Bad) -> Result<bool, Error>,
) -> Result<Repair, Error> {
    let mut context = None;
    let bad = loop {
        match scan.next_event()? {
            None => break None,
            Some(Err(bad)) => break Some(bad),
            Some(Ok(event)) => {
                context = context.or_else(|| needs_plugin(&event));
                fold(&event);
            }
        }
    };
    let repair = match bad {
        Some(bad) if !is_torn(scan, &bad)? => return Err(bad.into_error(scan.path())),
        Some(_) => Repair::Cut { keep: scan.offset(), epoch: scan.epoch() + 1 },
        None if scan.unterminated() => Repair::Newline,
        None => Repair::None,
    };
    match context {
        Some((seq, plugin)) => Err(Error::MissingPlugin { seq, plugin }),
        None => Ok(repair),
    }
}
