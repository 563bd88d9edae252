//! What a writer finds that opens a log, wherever that is kept.

use std::io::Read;

use super::fold::Placed;
use super::repair::Repair;
use super::{Bad, Scan};
use crate::error::Error;

/// Hands what counts of each event from here on to `fold`, and says what the first append has to set right. `is_torn`
/// is asked about a bad line. Fails if the log is damaged.
pub(super) fn read_through<R: Read>(
    scan: &mut Scan<R>,
    fold: Placed<'_>,
    is_torn: impl FnOnce(&mut Scan<R>, &Bad) -> Result<bool, Error>,
) -> Result<Repair, Error> {
    match scan.fold_placed(fold)? {
        Some(bad) if !is_torn(scan, &bad)? => Err(bad.into_error(scan.path())),
        Some(_) => Ok(Repair::Cut { keep: scan.offset(), epoch: scan.epoch() + 1 }),
        None if scan.unterminated() => Ok(Repair::Newline),
        None => Ok(Repair::None),
    }
}
