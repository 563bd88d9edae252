#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant as Clock;

use serde_json::json;
use terret_core::fact::CallMode;
use tokio::sync::watch;

use super::*;
use crate::tool::Permissions;
use crate::tool::tests::support::{call, code, run, run_call, started, text};

async fn shell(command: &str, timeout_ms: u64) -> Done {
    let dir = tempfile::tempdir().unwrap();
    run(&Shell, dir.path(), json!({"command": command, "timeout_ms": timeout_ms})).await
}

fn data(done: &Done) -> serde_json::Value {
    serde_json::from_str(done.data.as_ref().unwrap().get()).unwrap()
}

/// A number of seconds nobody else sleeps, to find the sleeper by.
fn odd_sleep(tag: u32) -> String {
    format!("{}.{tag}", 40_000 + std::process::id() % 10_000)
}

fn sleepers(seconds: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().flatten();
    let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{seconds}\0").into_bytes()).count()
}

/// A killed process takes a moment to leave the table.
async fn gone(seconds: &str) -> bool {
    for _ in 0..200 {
        if sleepers(seconds) == 0 {
            return true;
        }
        sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn output_and_status() {
    let done = shell("echo out; echo err >&2; echo out again", 9000).await;
    assert_eq!((done.outcome, text(&done)), (Outcome::Ok, "out\nerr\nout again\n"));
    assert_eq!(data(&done), json!({"exit_code": 0, "signal": null, "timed_out": false, "cut_bytes": 0}));
    let done = shell("printf half; exit 3", 9000).await;
    assert_eq!(
        (done.outcome, code(&done), text(&done)),
        (Outcome::Error, "exit-3", "half\n[exit status 3]\n")
    );
    let done = shell("kill -9 $$", 9000).await;
    assert_eq!((code(&done), text(&done)), ("signal-9", "[killed by signal 9]\n"));
    assert_eq!(text(&shell("true", 0).await), "[no output]");
    // No input to wait for.
    assert_eq!(text(&shell("cat; echo end", 9000).await), "end\n");
}

#[tokio::test]
async fn a_background_child_does_not_hold_the_call() {
    let nap = odd_sleep(1);
    let cases = [
        (format!("sleep {nap} & echo done"), "done\n"),
        (format!("sleep {nap} >/dev/null 2>&1 & echo done"), "done\n"),
        (format!("(while :; do echo x; sleep 0.02; done) & sleep {nap} & sleep 0.1; echo done"), "done\n"),
        (format!("yes & sleep {nap} & sleep 0.1; echo done; exit 0"), ""),
    ];
    for (command, has) in cases {
        let start = Clock::now();
        let done = shell(&command, 10_000).await;
        assert!(start.elapsed() < Duration::from_secs(4), "{command} took {:?}", start.elapsed());
        assert_eq!(done.outcome, Outcome::Ok, "{command}");
        assert!(text(&done).contains(has), "{command}: {}", text(&done));
        assert!(
            text(&done).ends_with("[background processes that were still running were killed]\n"),
            "{command}"
        );
        assert!(gone(&nap).await, "{command}");
    }
    let done = shell("true & echo done; wait", 9000).await;
    assert_eq!(text(&done), "done\n");
}

#[tokio::test]
async fn a_child_that_left_the_group_and_holds_the_output_is_killed() {
    let nap = odd_sleep(2);
    let start = Clock::now();
    let done = shell(&format!("setsid sleep {nap} & sleep 0.2; echo x"), 9000).await;
    assert_eq!((done.outcome, text(&done).starts_with("x\n")), (Outcome::Ok, true));
    assert!(start.elapsed() < Duration::from_secs(4) && gone(&nap).await);
}

#[tokio::test]
async fn a_timeout_kills_the_whole_tree() {
    let nap = odd_sleep(3);
    let cases = [
        format!("echo before; trap '' TERM; (trap '' TERM; sleep {nap}) & sleep {nap}"),
        format!("echo before; bash -c 'bash -c \"sleep {nap} & wait\" & wait'"),
        format!("echo before; setsid sleep {nap} >/dev/null 2>&1 & echo before; sleep {nap}; wait"),
        format!("echo before; sleep {nap} & wait"),
        // Without the mark, and deaf to TERM: only the kill of the group gets it.
        format!("echo before; trap '' TERM; env -i sleep {nap} & sleep {nap}"),
    ];
    for command in cases {
        let start = Clock::now();
        let done = shell(&command, 500).await;
        assert!(start.elapsed() < Duration::from_secs(4), "{command} took {:?}", start.elapsed());
        assert_eq!((done.outcome, code(&done)), (Outcome::Timeout, "timeout"), "{command}");
        assert!(
            text(&done).starts_with("before\n") && text(&done).contains("[timed out after 500 ms;"),
            "{command}"
        );
        assert_eq!(data(&done)["timed_out"], json!(true));
        assert!(gone(&nap).await, "{command}");
    }
}

#[tokio::test]
async fn term_comes_before_kill() {
    let done = shell("trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done", 800).await;
    assert_eq!(done.outcome, Outcome::Timeout);
    assert!(text(&done).contains("cleaned\n"), "{}", text(&done));
}

#[tokio::test]
async fn a_stop_ends_it_and_keeps_the_output() {
    let nap = odd_sleep(4);
    let dir = tempfile::tempdir().unwrap();
    let (sender, stop) = watch::channel(false);
    let arguments = json!({"command": format!("echo so far; touch started; sleep {nap}")});
    let call = Call { stop, ..call(dir.path(), "shell", &arguments) };
    let started = dir.path().join("started");
    let stopper = async {
        while !started.exists() {
            sleep(Duration::from_millis(10)).await;
        }
        sender.send(true).unwrap();
    };
    let (done, ()) = tokio::join!(run_call(&Shell, call), stopper);
    assert_eq!((done.outcome, code(&done)), (Outcome::Aborted, "aborted"));
    assert!(text(&done).starts_with("so far\n[stopped;"), "{}", text(&done));
    assert!(gone(&nap).await);
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    let nap = odd_sleep(5);
    let dir = tempfile::tempdir().unwrap();
    let command = format!(
        "trap '' TERM; setsid sleep {nap} >/dev/null 2>&1 & env -i sleep {nap} & touch started; sleep {nap}"
    );
    let call = call(dir.path(), "shell", &json!({"command": command}));
    let started = dir.path().join("started");
    tokio::select! {
        done = run_call(&Shell, call) => panic!("{done:?}"),
        () = async { while !started.exists() || sleepers(&nap) < 3 { sleep(Duration::from_millis(10)).await } } => {}
    }
    assert!(gone(&nap).await);
}

#[tokio::test]
async fn floods_stay_small() {
    let most = SHELL_HEAD_BYTES + SHELL_TAIL_BYTES + 200;
    let done = shell("yes", 300).await;
    assert_eq!(done.outcome, Outcome::Timeout);
    assert!(text(&done).len() <= most && text(&done).starts_with("y\ny\n"));
    assert!(data(&done)["cut_bytes"].as_u64().unwrap() > 0);
    let done = shell("head -c 30000000 /dev/zero", 60_000).await;
    assert_eq!(done.outcome, Outcome::Ok);
    assert!(text(&done).len() <= most);
    assert_eq!(data(&done)["cut_bytes"], json!(30_000_000 - SHELL_HEAD_BYTES - SHELL_TAIL_BYTES));
    let done = shell("seq 1 200000 >&2", 60_000).await;
    assert!(text(&done).starts_with("1\n2\n") && text(&done).ends_with("200000\n"));
}

#[tokio::test]
async fn output_that_is_not_utf8() {
    let done = shell(r"printf 'ok \360 \272\272 \0 \033[31mred \377 \342\202\254 end'", 9000).await;
    assert_eq!(text(&done), "ok \u{fffd} \u{fffd}\u{fffd} \0 \u{1b}[31mred \u{fffd} \u{20ac} end");
    let done = shell(r#"touch "$(printf 'caf\351')"; ls -N"#, 9000).await;
    assert_eq!(text(&done), "caf\u{fffd}\n");
}

#[test]
fn the_environment_has_the_call_and_no_secrets() {
    // A test cannot change its own environment safely: it runs itself again in another one.
    if std::env::var_os("TERRET_TEST_TOKEN").is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = runtime.block_on(shell("env | grep ^TERRET_ | sort", 9000));
        let lines: Vec<_> = text(&done).lines().map(|line| line.split_once('=').unwrap()).collect();
        assert_eq!(lines[0], ("TERRET_CALL", "test/1.1.0"));
        let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["TERRET_CALL", "TERRET_RUN", "TERRET_TEST_PLAIN"]);
        return;
    }
    let me = std::env::current_exe().unwrap();
    let again = std::process::Command::new(me)
        .args(["--exact", "tool::built_in::shell::tests::the_environment_has_the_call_and_no_secrets"])
        .env_remove("TERRET_HOME")
        .envs([("TERRET_TEST_TOKEN", "leak"), ("TERRET_TEST_PLAIN", "here")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn what_cannot_start_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let done = run(&Shell, &dir.path().join("gone"), json!({"command": "true"})).await;
    assert_eq!(code(&done), "spawn");
    let call = call(dir.path(), "shell", &json!({"command": "touch x"}));
    let read_only = Call { permissions: Permissions::ReadOnly, ..call.clone() };
    for done in [Shell.admit(&read_only).unwrap_err(), Shell.run(started(read_only)).await] {
        assert_eq!((done.outcome, code(&done)), (Outcome::Denied, "read-only"));
    }
    assert!(!dir.path().join("x").exists());
    let invalid =
        Call { arguments: r#"{"cmd":"ls"}"#.to_owned(), cwd: Arc::new(Path::new("/").into()), ..call };
    assert_eq!(code(&Shell.admit(&invalid).unwrap_err()), "invalid-arguments");
    assert_eq!((Shell.effect(), Shell.mode("{}")), (EffectClass::Unsafe, CallMode::Exclusive));
}
