//! Where the prompt comes from: the argument, `-`, or a pipe.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;

use crate::args;
use crate::problem::{Problem, exit};

/// The prompt; `None` where a resumed run needs none.
pub(super) fn prompt(args: &args::Run) -> Result<Option<String>, Problem> {
    let resumed = args.continue_ || args.resume.is_some();
    let given = args.prompt.as_deref().filter(|p| *p != "-");
    let asked = args.prompt.as_deref() == Some("-");
    let piped = match asked || is_pipe_or_file() {
        true => Some(read()?).filter(|text| !text.trim().is_empty()),
        false => None,
    };
    match (given, piped) {
        (Some(given), _) if given.trim().is_empty() => Err(empty()),
        (Some(given), None) => Ok(Some(given.to_owned())),
        (Some(given), Some(piped)) => Ok(Some(format!("{given}\n\n<stdin>\n{}\n</stdin>", piped.trim_end()))),
        (None, Some(piped)) => Ok(Some(piped)),
        (None, None) if resumed && !asked => Ok(None),
        (None, None) => Err(empty()),
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
