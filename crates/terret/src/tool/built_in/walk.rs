//! Walking a tree the same way every time: ignore files respected, `.git` never entered, sorted by path.

use std::ffi::OsStr;
use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

/// Entries below `root`, in the order of their paths. What cannot be read is left out.
pub(super) fn walk(root: &Path, hidden: bool) -> impl Iterator<Item = DirEntry> {
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(!hidden)
        // A directory that is not a repository yet has ignore files all the same.
        .require_git(false)
        // What a person keeps in their home must not change what a session sees.
        .git_global(false)
        .current_dir(root)
        .sort_by_file_name(OsStr::cmp)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    builder.build().flatten().filter(|entry| entry.depth() > 0)
}
