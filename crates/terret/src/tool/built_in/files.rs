//! Regular files: opened without hanging, replaced without a moment in which they are half there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, OFlags};

use super::{Call, Done, paths};
use crate::limits::{NEAR_NAMES, NEAR_NAMES_SCANNED};

/// What kept a file from being opened or replaced.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It is something else: what.
    NotAFile(&'static str),
    /// Somebody changed it between our look and our write.
    Changed,
    /// The system said no.
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Io(error)
    }
}

/// Opens a regular file for reading. Never waits: not for the writer of a FIFO, not for a device, also when
/// the file is swapped for one between the look and the open.
pub(super) fn open_regular(path: &Path) -> Result<(File, Metadata), Trouble> {
    // Opening a device can already do something, and a socket cannot be opened: look first.
    regular(&fs::metadata(path)?)?;
    open_checked(path)
}

/// The open itself: what was opened is looked at again.
pub(super) fn open_checked(path: &Path) -> Result<(File, Metadata), Trouble> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let meta = file.metadata()?;
    regular(&meta)?;
    Ok((file, meta))
}

/// Refuses what is no regular file.
pub(super) fn regular(meta: &Metadata) -> Result<(), Trouble> {
    let kind = meta.file_type();
    match () {
        () if kind.is_file() => Ok(()),
        () if kind.is_dir() => Err(Trouble::NotAFile("a directory")),
        () if kind.is_fifo() => Err(Trouble::NotAFile("a named pipe")),
        () if kind.is_socket() => Err(Trouble::NotAFile("a socket")),
        () if kind.is_symlink() => Err(Trouble::NotAFile("a symbolic link")),
        () => Err(Trouble::NotAFile("a device")),
    }
}

/// Puts `bytes` where `target` is: whole or not at all. `seen` is what the caller based them on.
///
/// Says whether a file was there before. Its mode is kept; hard links to it keep the old content.
pub(super) fn replace(target: &Path, bytes: &[u8], seen: Option<&Metadata>) -> Result<bool, Trouble> {
    let before = match fs::symlink_metadata(target) {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(meta) = &before {
        regular(meta)?;
        // Renaming over a file asks nobody whether the file may be written; people expect that it does.
        rustix::fs::access(target, Access::WRITE_OK).map_err(io::Error::from)?;
    }
    let dir = target.parent().ok_or_else(|| io::Error::other("a path without a parent"))?;
    // The umask applies to a new file; the mode of an old one is set exactly, once the content is there.
    let mode = if before.is_some() { 0o600 } else { 0o666 };
    let mut temp = tempfile::Builder::new()
        .prefix(".terret-")
        .suffix(".tmp")
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(dir)?;
    temp.write_all(bytes)?;
    if let Some(meta) = &before {
        temp.as_file().set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777))?;
    }
    temp.as_file().sync_all()?;
    if let Some(seen) = seen
        && !fs::symlink_metadata(target).is_ok_and(|now| stamp(&now) == stamp(seen))
    {
        return Err(Trouble::Changed);
    }
    temp.persist(target).map_err(|error| error.error)?;
    // The rename itself must survive a power loss before anyone is told of it.
    File::open(dir)?.sync_all()?;
    Ok(before.is_some())
}

fn stamp(meta: &Metadata) -> (u64, u64, u64, i64, i64) {
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// What the model reads about it.
pub(super) fn explain(call: &Call, path: &Path, trouble: Trouble) -> Done {
    let shown = paths::shown(call, path);
    let error = |code: &str, text: String| Done::error(&call.name, code, text);
    match trouble {
        Trouble::NotAFile("a directory") => error(
            "not-a-file",
            format!("`{shown}` is a directory, not a regular file. List it with glob: `{shown}/*`."),
        ),
        Trouble::NotAFile(kind) => error("not-a-file", format!("`{shown}` is {kind}, not a regular file.")),
        Trouble::Changed => error(
            "changed",
            format!("`{shown}` was changed by somebody else meanwhile and was left as it is. Read it again."),
        ),
        Trouble::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
            error("not-found", format!("there is no `{shown}`.{}", near(path)))
        }
        Trouble::Io(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            error("permission-denied", format!("`{shown}`: permission denied by the system."))
        }
        Trouble::Io(cause) => error("io", format!("`{shown}`: {cause}")),
    }
}

/// Names in the same directory that may have been meant.
fn near(path: &Path) -> String {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return String::new() };
    let Ok(entries) = fs::read_dir(dir) else {
        let there = dir.ancestors().find(|ancestor| ancestor.is_dir());
        return there
            .map(|dir| format!(" Its nearest existing directory is `{}`.", dir.display()))
            .unwrap_or_default();
    };
    let wanted = name.to_string_lossy().to_lowercase();
    let names =
        entries.flatten().take(NEAR_NAMES_SCANNED).map(|e| e.file_name().to_string_lossy().into_owned());
    let score = |name: &str| strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
    let mut scored: Vec<_> =
        names.map(|name| (score(&name), name)).filter(|(score, _)| *score >= 0.5).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let best: Vec<_> = scored.into_iter().take(NEAR_NAMES).map(|(_, name)| format!("`{name}`")).collect();
    if best.is_empty() { String::new() } else { format!(" In the same directory: {}.", best.join(", ")) }
}

/// Runs file work where it may block. A drop of the future does not cut it short.
pub(super) async fn blocking(
    call: Call,
    work: impl FnOnce(&Call) -> Result<Done, Done> + Send + 'static,
) -> Done {
    let name = call.name.clone();
    let task = tokio::task::spawn_blocking(move || work(&call).unwrap_or_else(|done| done));
    task.await.unwrap_or_else(|error| Done::error(&name, "internal", format!("the tool broke off: {error}")))
}

/// The start of `text` that fits, ending at a character border.
pub(super) fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}
