//! Where the prompt comes from: the argument, `-`, or a pipe.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;

use terret::limits::MAX_MESSAGE_BYTES;

use crate::args;
use crate::problem::{Problem, exit};

/// Bytes of a message beside its text.
const AROUND: usize = 1024;

/// The prompt; `None` where a resumed run needs none.
pub(super) fn prompt(args: &args::Run) -> Result<Option<String>, Problem> {
    let resumed = args.continue_ || args.resume.is_some();
    let given = args.prompt.as_deref().filter(|p| *p != "-");
    let asked = args.prompt.as_deref() == Some("-");
    let piped = match asked || is_pipe_or_file() {
        true => Some(read()?).filter(|text| !text.trim().is_empty()),
        false => None,
    };
    let prompt = match (given, piped) {
        (Some(given), _) if given.trim().is_empty() => Err(empty()),
        (Some(given), None) => Ok(Some(given.to_owned())),
        (Some(given), Some(piped)) => Ok(Some(format!("{given}\n\n<stdin>\n{}\n</stdin>", piped.trim_end()))),
        (None, Some(piped)) => Ok(Some(piped)),
        (None, None) if resumed && !asked => Ok(None),
        (None, None) => Err(empty()),
    }?;
    prompt.map(fitting).transpose()
}

/// Refuses a prompt that a message cannot hold, before a session is made for it.
fn fitting(prompt: String) -> Result<String, Problem> {
    // As it will stand in the log, where some characters take six bytes.
    let bytes = serde_json::to_string(&prompt).map_or(usize::MAX, |json| json.len());
    match bytes > MAX_MESSAGE_BYTES - AROUND {
        true => Err(Problem::usage(format!(
            "the prompt is too large: {bytes} bytes, a message holds {MAX_MESSAGE_BYTES}"
        ))
        .hint("save it to a file in the working directory, and name the file in the prompt")),
        false => Ok(prompt),
    }
}

fn empty() -> Problem {
    Problem::usage("there is no prompt").hint("terret run \"what to do\"")
}

/// Whether stdin is something that was meant for us. An inherited terminal, device or socket never is.
fn is_pipe_or_file() -> bool {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return false;
    }
    let kind = kind_of_stdin();
    kind.is_some_and(|kind| kind.is_fifo() || kind.is_file())
}

/// What file descriptor 0 is, asked through the file system so that nothing is opened or read.
fn kind_of_stdin() -> Option<std::fs::FileType> {
    let path = if cfg!(target_os = "linux") { "/proc/self/fd/0" } else { "/dev/fd/0" };
    std::fs::metadata(path).ok().map(|meta| meta.file_type())
}

fn read() -> Result<String, Problem> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|e| Problem::new(exit::FAILED, format!("cannot read stdin: {e}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
