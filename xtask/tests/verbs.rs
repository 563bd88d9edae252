//! The program as it is called.

use std::process::{Command, Output};

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().expect("just built")
}

#[test]
fn an_unknown_verb_or_option_is_a_usage_error() {
    for args in [
        &["frobnicate"][..],
        &[],
        &["bench", "--runs", "x"],
        &["tidy", "--fast"],
        &["tidy", "--fast"],
        &["floor"],
    ] {
        let output = xtask(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("usage: cargo xtask"));
    }
}

/// Floor against floor: whatever is measured of one must be measured of the other. Bounds are reported only,
/// since tests run beside other tests.
#[test]
fn the_measuring_works_without_terret() {
    for (group, rows) in [("start", 3), ("loop", 3), ("burst", 2)] {
        let output =
            xtask(&["bench", "--self-test", "--no-build", "--report", "--runs", "1", "--only", group]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        let found = text.lines().filter(|line| line.starts_with(&format!("{group}:"))).count();
        let found = found + text.lines().filter(|line| group == "loop" && line.starts_with("step:")).count();
        assert_eq!(found, rows, "{text}");
        // One sync is planted in the stand-in; a count of none would mean that syncs are not seen.
        let syncs = text.lines().find(|line| line.starts_with("start: syncs"));
        if let Some(line) = syncs.filter(|line| !line.contains("not measured")) {
            assert!(line.contains(" 1 "), "{line}");
        }
        let lost = text.lines().find(|line| line.contains("deltas sent but not in the log"));
        assert!(lost.is_none_or(|line| line.split_whitespace().any(|word| word == "0")), "{text}");
    }
}
