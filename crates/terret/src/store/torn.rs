//! What a bad tail says: whether a crash can leave it, and what its whole lines still tell.

use std::path::Path;

use memchr::memmem;
use terret_core::fact::{Fact, WriterOpened};
use terret_core::line::{Line, LineError};

use super::fs::FileSystem;

/// Name of the marker that a failed sync leaves beside the log.
pub(super) const MARKER: &str = "poisoned";

/// Places looked at for a line's start or end inside a longer one: two lines that run together have one seam,
/// payloads that look like lines are rare, and a hostile file shall not make this slow.
const LOOKS: usize = 16;

/// The end of every line from its checksum on.
pub(super) const CRC_TAIL: &[u8] = br#","crc":"00000000"}"#;

/// Whether the bytes of the line are those that some writer wrote: then it is wrong for another reason than a
/// crash.
pub(super) fn is_as_written(cause: &LineError) -> bool {
    match cause {
        LineError::Crc { .. } | LineError::NoCrc | LineError::TooLong(_) => false,
        // The checksum is looked at first: these come with a right one.
        LineError::Chain { .. }
        | LineError::Seq { .. }
        | LineError::Form(_)
        | LineError::UnknownType(_)
        | LineError::Newer { .. } => true,
    }
}

/// The whole line with which these bytes begin, if something else follows it.
pub(super) fn first_line(bytes: &[u8]) -> Option<Line<'_>> {
    memmem::find_iter(bytes, &CRC_TAIL[..8]).take(LOOKS).find_map(|at| {
        let end = at + CRC_TAIL.len();
        (end < bytes.len()).then(|| Line::parse(&bytes[..end]).ok())?
    })
}

/// The whole line with which these bytes end: all of them, or what follows a newline that was lost.
pub(super) fn last_line(bytes: &[u8]) -> Option<Line<'_>> {
    let mut starts = memmem::rfind_iter(bytes, br#"{"seq":"#).take(LOOKS);
    starts.find_map(|at| Line::parse(&bytes[at..]).ok())
}

/// The writer that begins with this line.
pub(super) fn writer(line: &Line<'_>) -> Result<Option<WriterOpened>, LineError> {
    if line.kind != "writer/opened" {
        return Ok(None);
    }
    let fact = line.event()?.fact;
    Ok(if let Fact::WriterOpened(opened) = fact { Some(opened) } else { None })
}

/// Whether a sync of the last writer of this log failed.
pub(super) fn is_marked(fs: &dyn FileSystem, log: &Path) -> bool {
    fs.exists(&log.with_file_name(MARKER))
}
