//! Paths: where an argument points, and the border that writing does not cross.
//!
//! The border is for the tools that take a path. It holds against the links and `..` that are there when a
//! call is checked; it is no sandbox: commands of the shell tool write wherever the user may.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use terret_core::fact::Outcome;

use super::{Call, Done, Permissions};
use crate::limits::SYMLINKS;

/// Where writing to `path` would really write, or why that is refused.
///
/// Every link on the way is followed, that of the last component included and also one that leads to
/// nothing yet, because writing through it would make the file where it points.
pub fn write_target(call: &Call, path: &str) -> Result<PathBuf, Done> {
    may_change(call)?;
    let failed = |path: &Path, error: io::Error| {
        Done::error(&call.name, "io", format!("cannot resolve `{}`: {error}", path.display()))
    };
    let wanted = absolute(call, path)?;
    let target = real_path(&wanted).map_err(|error| failed(&wanted, error))?;
    if call.permissions == Permissions::Full {
        return Ok(target);
    }
    let root = real_path(&call.cwd).map_err(|error| failed(&call.cwd, error))?;
    if target.starts_with(&root) {
        return Ok(target);
    }
    let text = format!(
        "`{path}` is `{}`, outside the working directory `{}`: it was not changed. Use a path inside it, or \
         ask the user to run with `--permissions full`.",
        target.display(),
        root.display()
    );
    Err(Done::error(&call.name, "outside-workspace", text).with_outcome(Outcome::Denied))
}

/// Refuses a call that changes things when only looking is allowed.
pub fn may_change(call: &Call) -> Result<(), Done> {
    if call.permissions > Permissions::ReadOnly {
        return Ok(());
    }
    let text = format!(
        "`{}` is not allowed: this session may only look (`--permissions read-only`). Answer without it, or \
         ask the user to run with `--permissions workspace-write`.",
        call.name
    );
    Err(Done::error(&call.name, "read-only", text).with_outcome(Outcome::Denied))
}

/// A path argument against the call's working directory; links are not looked at.
pub fn absolute(call: &Call, path: &str) -> Result<PathBuf, Done> {
    if path.is_empty() || path.contains('\0') {
        let text = format!("{}: argument `path` must be a path, not empty and without NUL", call.name);
        return Err(Done::error(&call.name, super::INVALID_ARGUMENTS, text));
    }
    Ok(call.cwd.join(path))
}

/// How a path is shown: from the working directory where it is inside, so that it can be an argument again.
pub fn shown(call: &Call, path: &Path) -> String {
    let inside = path.strip_prefix(call.cwd.as_path()).ok().filter(|rest| !rest.as_os_str().is_empty());
    inside.unwrap_or(path).display().to_string()
}

/// Follows every link of an absolute path. Unlike `canonicalize` it goes on where nothing exists yet.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => real = PathBuf::from("/"),
            // `real` has no links in it: its parent is where `..` leads.
            Some(Component::ParentDir) => drop(real.pop()),
            Some(Component::Normal(name)) => {
                let next = real.join(name);
                match std::fs::symlink_metadata(&next) {
                    Ok(meta) if meta.is_symlink() => {
                        links += 1;
                        if links > SYMLINKS {
                            return Err(io::Error::other("too many symbolic links"));
                        }
                        let to = std::fs::read_link(&next)?;
                        parts(&to).rev().for_each(|part| ahead.push_front(part));
                    }
                    Ok(_) => real = next,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => real = next,
                    Err(error) => return Err(error),
                }
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    Ok(real)
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().map(|component| component.as_os_str().to_owned())
}

#[cfg(test)]
mod tests;
