#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;

use super::*;

#[test]
fn the_dead_do_not_count_as_living() {
    let mut child = std::process::Command::new("true").process_group(0).spawn().unwrap();
    let id = Pid::from_raw(child.id().cast_signed()).unwrap();
    let group = Group { id, mark: String::new(), armed: false };
    for _ in 0..500 {
        if !group.lives() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Nobody has reaped it yet: the group is there, and nothing in it lives.
    assert!(group.exists() && !group.lives());
    child.wait().unwrap();
    assert!(!group.exists());
}

#[test]
fn what_names_a_secret() {
    for name in ["ANTHROPIC_API_KEY", "gh_token", "X_SECRET", "DB_PASSWORD"] {
        assert!(is_secret(name.as_ref()), "{name}");
    }
    for name in ["PATH", "TOKENS", "API_KEY_FILE"] {
        assert!(!is_secret(name.as_ref()), "{name}");
    }
}
