//! The binary `terret`: arguments in, one verb, an exit code out.

mod args;
#[cfg(feature = "crash-points")]
mod crash;
mod open;
mod problem;
mod render;
mod verb;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use args::{Args, Verb};
use problem::Problem;

fn main() -> ExitCode {
    let outcome = match Args::try_parse() {
        Ok(args) => act(args),
        Err(error) => match misplaced(&error) {
            Some(problem) => Err(problem),
            None if error.use_stderr() => {
                // What was typed may come from a file's name.
                render::err(error.render().to_string().trim_end());
                Ok(problem::exit::USAGE)
            }
            None => error.exit(),
        },
    };
    let code = outcome.unwrap_or_else(|problem| {
        problem.print();
        problem.code
    });
    #[cfg(feature = "crash-points")]
    crash::report();
    ExitCode::from(code)
}

fn act(args: Args) -> Result<u8, Problem> {
    match args.verb {
        Some(verb) => dispatch(verb),
        None if args.run.prompt.is_some() => verb::run::run(args.run),
        None => Err(Problem::usage("terret has no interactive mode yet").hint("terret run \"what to do\"")),
    }
}

/// A prompt or flags of `run` where no verb stands before them.
fn misplaced(error: &clap::Error) -> Option<Problem> {
    let words: Vec<String> = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
    let is_misplaced = match error.kind() {
        ErrorKind::InvalidSubcommand => words.first()?.contains(' '),
        ErrorKind::ArgumentConflict => {
            let text = error.to_string();
            let verb = text.split_once("the subcommand '")?.1.split('\'').next()?;
            Args::command().find_subcommand(verb).is_none_or(|verb| verb.get_name() == "run")
        }
        _ => false,
    };
    let rest = words.iter().filter(|word| *word != "run").map(|word| render::shell::quoted(word));
    let typed = ["terret", "run"].map(str::to_owned).into_iter().chain(rest).collect::<Vec<_>>().join(" ");
    is_misplaced.then(|| Problem::usage("what to do comes after the verb `run`, its flags too").hint(typed))
}

fn dispatch(verb: Verb) -> Result<u8, Problem> {
    match verb {
        Verb::Run(run) => verb::run::run(run.into_run()),
        Verb::Sessions(sessions) => verb::sessions::sessions(&sessions),
        Verb::Log(log) => verb::log::log(&log),
        Verb::Show(show) => verb::show::show(&show),
        Verb::Verify(verify) => verb::verify::verify(&verify),
        Verb::Fork(fork) => verb::fork::fork(&fork),
        Verb::Queue(queue) => verb::queue::queue(&queue),
        Verb::Models(models) => verb::models::models(&models),
        Verb::Doctor(doctor) => verb::doctor::doctor(&doctor),
        Verb::Schema => verb::schema::schema(),
    }
}
