//! The last answer in a file (`-o`).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::output::joined;
use crate::problem::{Problem, exit};

/// Writes the last answer to a file: whole or not at all, where the place allows that.
pub(super) async fn keep(path: &Path, text: &str) -> Result<(), Problem> {
    let (path, text) = (path.to_owned(), text.to_owned());
    // A pipe may have no reader yet.
    joined(spawn_blocking(move || write(&path, &text))).await
}

/// Says at once, and not after an answer was paid for, that the file could not be written.
pub(super) fn check(path: &Path) -> Result<(), Problem> {
    let tried = match target(path) {
        Target::Replaced(target) => temporary(&target).and_then(|temporary| {
            std::fs::write(&temporary, "")?;
            std::fs::remove_file(&temporary)
        }),
        Target::Written if path.is_dir() => Err(ErrorKind::IsADirectory.into()),
        // Opening a pipe would wait for its reader.
        Target::Written if path.is_symlink() => Ok(()),
        Target::Written => path.metadata().map(|_| ()),
    };
    tried.map_err(|e| {
        Problem::usage(format!("cannot write `{}`: {e}", path.display())).fact("so", "nothing was asked yet")
    })
}

/// How a file is written.
enum Target {
    /// By a new one that takes its name.
    Replaced(PathBuf),
    /// As it is: a pipe, a device.
    Written,
}

fn target(path: &Path) -> Target {
    // What a stream is called by may name a file, and must still not be replaced.
    let is_stream = path.starts_with("/dev") || path.starts_with("/proc");
    match (path.metadata(), path.canonicalize()) {
        // A link is followed, so that it stays one.
        (Ok(meta), Ok(target)) if meta.is_file() && !is_stream => Target::Replaced(target),
        (Err(e), _) if e.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            Target::Replaced(path.to_owned())
        }
        _ => Target::Written,
    }
}

fn write(path: &Path, text: &str) -> Result<(), Problem> {
    let written = match target(path) {
        Target::Replaced(target) => replace(&target, text),
        Target::Written => std::fs::write(path, text),
    };
    written.map_err(|e| Problem::new(exit::FAILED, format!("cannot write `{}`: {e}", path.display())))
}

/// The name it has until it is whole.
fn temporary(path: &Path) -> std::io::Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::IsADirectory)?.to_string_lossy();
    Ok(path.with_file_name(format!(".{name}.{}", std::process::id())))
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = temporary(path)?;
    let written = std::fs::write(&temporary, text).and_then(|()| {
        if let Ok(old) = path.metadata() {
            std::fs::set_permissions(&temporary, old.permissions())?;
        }
        std::fs::rename(&temporary, path)
    });
    if written.is_err() {
        // It may never have come to be.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
