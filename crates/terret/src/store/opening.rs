//! What a writer finds that opens a log, wherever that is kept.

use std::io::Read;

use super::fold::Placed;
use super::repair::Repair;
use super::{Bad, Scan};
use crate::error::Error;

/// Hands what counts of each event from here on to `fold`, and says what the first append has to set right. `is_torn` is asked about a bad
/// line. Fails if the log is damaged, or is another session's.
pub(super) fn read_through<R: Read>(
    scan: &mut Scan<R>,
    id: &str,
    fold: Placed<'_>,
    is_torn: impl FnOnce(&mut Scan<R>, &Bad) -> Result<bool, Error>,
) -> Result<Repair, Error> {
    let owner = &scan.header().id;
    if owner.as_str() != id {
        // Two writers of one session, each in its own copy, would hand out the same keys.
        let why = format!("it is the log of session `{owner}`: only a directory of that name is written");
        return Err(Error::NotALog { path: scan.path().to_owned(), why });
    }
    match scan.fold_placed(fold)? {
        Some(bad) if !is_torn(scan, &bad)? => Err(bad.into_error(scan.path())),
        Some(_) => Ok(Repair::Cut { keep: scan.offset(), epoch: scan.epoch() + 1 }),
        None if scan.unterminated() => Ok(Repair::Newline),
        None => Ok(Repair::None),
    }
}
