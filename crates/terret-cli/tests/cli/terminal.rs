//! What a person at a terminal sees: stderr, and where it matters stdout, is a pseudo terminal.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::place::{Place, Running};
use crate::server::{Reply, Server, says, text};

/// Runs its arguments on a pseudo terminal and copies what they print there. Their
/// stdout is a file, if that is asked for.
const ON_A_TERMINAL: &str = r#"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    if os.environ.get("PIPE_STDOUT"):
        os.dup2(os.open("stdout.txt", os.O_WRONLY | os.O_CREAT), 1)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    os.write(1, data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

fn has_pty() -> bool {
    let tried = Command::new("python3").args(["-c", "import pty"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// What is shown on the terminal; `None` where no Python can make one.
fn shown(place: &Place, args: &[String], pipe_stdout: bool) -> Option<String> {
    if !has_pty() {
        return None;
    }
    let mut command = Command::new("python3");
    command.args(["-c", ON_A_TERMINAL, env!("CARGO_BIN_EXE_terret")]).args(args);
    command.env("TERRET_HOME", place.home()).current_dir(place.work()).stdin(Stdio::null());
    if pipe_stdout {
        command.env("PIPE_STDOUT", "1");
    }
    Some(Running::start(command).end().exits(0).text())
}

/// The screen after these bytes: what `\r` goes back over is gone.
fn screen(bytes: &str) -> Vec<String> {
    let lines = bytes.split("\r\n").map(|line| {
        let mut cells: Vec<char> = Vec::new();
        for part in line.split('\r') {
            for (at, c) in part.chars().enumerate() {
                match cells.get_mut(at) {
                    Some(cell) => *cell = c,
                    None => cells.push(c),
                }
            }
        }
        cells.into_iter().collect::<String>().trim_end().to_owned()
    });
    lines.collect()
}

fn args(server: &Server) -> Vec<String> {
    server.run(&["hi"])
}

#[test]
fn a_terminal_is_told_what_goes_on_and_nothing_of_it_stays() {
    let place = Place::new();
    let slow = Duration::from_millis(1200);
    let server = Server::start(move |n, _| match n {
        0 => Reply::Plain { status: 429, headers: vec![("retry-after", "2".into())], body: String::new() },
        1 => Reply::Slow(crate::server::calls("shell", r#"{"command":"sleep 2.5"}"#), slow),
        _ => Reply::Slow([vec![text("Half, ")], says("done.")].concat(), slow),
    });
    let Some(bytes) = shown(&place, &args(&server), true) else { return };
    for words in ["· waiting ", " s before attempt 2", "· asking test/model, "] {
        assert!(bytes.contains(words), "{words}: {bytes:?}");
    }
    // A busy machine draws a little late, and may pass over a second.
    assert!(["1 s", "2 s"].iter().any(|time| bytes.contains(&format!("· shell runs, {time}"))), "{bytes:?}");
    assert!(bytes.contains("· test/model writes, 6 characters"), "{bytes:?}");
    let screen = screen(&bytes);
    assert!(!screen.iter().any(|line| line.contains('·')), "{screen:?}");
    assert!(screen.iter().any(|line| line == "done"), "{screen:?}");
    assert_eq!(place.read("stdout.txt"), "Half, done.\n");
}

/// Starts its arguments on a pseudo terminal, closes that once the file `ran` is there, prints the exit code.
const CLOSED_TERMINAL: &str = r#"
import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while not os.path.exists("ran"):
    time.sleep(0.02)
os.close(fd)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn a_terminal_that_is_closed_ends_the_turn_and_not_its_log() {
    let place = Place::new();
    if !has_pty() {
        return;
    }
    let model = place.script("say Half.\ncall shell {\"command\": \"echo > ran; sleep 30\"}\n---\nsay Done.");
    let mut command = Command::new("python3");
    command.args(["-c", CLOSED_TERMINAL, env!("CARGO_BIN_EXE_terret"), "run", "-m", &model, "hi"]);
    command.env("TERRET_HOME", place.home()).current_dir(place.work()).stdin(Stdio::null());
    assert_eq!(Running::start(command).end().exits(0).text().trim(), "143");
    assert_eq!(place.reason()["cause"]["type"], "disposed");
    place.ok(&["verify", "latest"]);
}

#[test]
fn an_answer_on_a_terminal_is_harmless() {
    let place = Place::new();
    let server = Server::start(|_, _| Reply::Stream(says("a\u{1b}[2Jb\rc")));
    let Some(bytes) = shown(&place, &args(&server), false) else { return };
    assert!(bytes.contains("a\\u{1b}[2Jb\\u{d}c\r\n"), "{bytes:?}");
    assert!(!bytes.contains('\u{1b}'), "{bytes:?}");
}

#[test]
fn what_is_no_terminal_gets_no_line_drawn() {
    let place = Place::new();
    let slow = Duration::from_millis(1200);
    let server = Server::start(move |_, _| Reply::Slow(says("done."), slow));
    for more in [&["hi"][..], &["-v", "hi"]] {
        let ran = place.ok(&server.run(more));
        assert!(!ran.err.contains('·') && !ran.err.contains('\r'), "{:?}", ran.err);
    }
}
