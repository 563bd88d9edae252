#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;
use crate::tool::tests::support::{call, code};

fn target(cwd: &Path, permissions: Permissions, path: &str) -> Result<PathBuf, String> {
    let call = Call { permissions, ..call(cwd, "write", &json!({})) };
    write_target(&call, path).map_err(|done| {
        assert_eq!(done.outcome, Outcome::Denied);
        code(&done).to_owned()
    })
}

#[test]
fn the_border_holds_against_links_dots_and_absolute_paths() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (ws, outside) = (base.join("ws"), base.join("outside"));
    fs::create_dir_all(ws.join("sub")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "v").unwrap();
    fs::write(ws.join("real"), "r").unwrap();
    symlink("../outside/victim", ws.join("notes.md")).unwrap();
    symlink("../outside/not-there-yet", ws.join("dangling")).unwrap();
    symlink("../outside", ws.join("dir")).unwrap();
    symlink("dangling", ws.join("twice")).unwrap();
    symlink("real", ws.join("in")).unwrap();
    symlink(ws.join("sub"), ws.join("abs-in")).unwrap();
    symlink("ws", base.join("ws-link")).unwrap();
    symlink("loop", ws.join("loop")).unwrap();
    // A name that starts like the directory's is not inside it.
    fs::create_dir(base.join("ws-other")).unwrap();

    let outside_path = outside.join("x").display().to_string();
    let refused = [
        "notes.md",
        "dangling",
        "dir/new",
        "dir/../x",
        "twice",
        "../x",
        "../ws-other/x",
        "/etc/x",
        "no/../../x",
        &outside_path,
    ];
    for path in refused {
        let result = target(&ws, Permissions::WorkspaceWrite, path);
        assert_eq!(result, Err("outside-workspace".to_owned()), "{path}");
        assert!(target(&ws, Permissions::Full, path).is_ok(), "{path}");
    }
    let allowed = [
        ("in", "real"),
        ("abs-in/x", "sub/x"),
        ("new/deep/file", "new/deep/file"),
        ("sub/../real", "real"),
        ("dir/../ws/real", "real"),
        ("../ws/real", "real"),
    ];
    for (path, real) in allowed {
        assert_eq!(target(&ws, Permissions::WorkspaceWrite, path), Ok(ws.join(real)), "{path}");
        assert_eq!(
            target(&base.join("ws-link"), Permissions::WorkspaceWrite, path),
            Ok(ws.join(real)),
            "{path}"
        );
        assert_eq!(target(&ws, Permissions::ReadOnly, path), Err("read-only".to_owned()), "{path}");
    }
    let looping = write_target(&call(&ws, "write", &json!({})), "loop").unwrap_err();
    assert_eq!(code(&looping), "io");
}

#[test]
fn a_path_is_not_empty_and_has_no_nul() {
    let call = call(Path::new("/tmp"), "write", &json!({}));
    assert_eq!(code(&absolute(&call, "").unwrap_err()), "invalid-arguments");
    assert_eq!(code(&absolute(&call, "a\0b").unwrap_err()), "invalid-arguments");
}
