//! The binary `terret`: arguments in, one verb, an exit code out.

mod args;
mod open;
mod problem;
mod render;
mod verb;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Verb};
use problem::Problem;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match args.verb {
        Some(verb) => dispatch(verb),
        None if args.run.prompt.is_some() => verb::run::run(args.run),
        None => Err(Problem::usage("terret has no interactive mode yet").hint("terret run \"what to do\"")),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            problem.print();
            ExitCode::from(problem.code)
        }
    }
}

fn dispatch(verb: Verb) -> Result<u8, Problem> {
    match verb {
        Verb::Run(run) => verb::run::run(run.into_run()),
        Verb::Sessions(sessions) => verb::sessions::sessions(&sessions),
        Verb::Log(log) => verb::log::log(&log),
        Verb::Show(show) => verb::show::show(&show),
        Verb::Verify(verify) => verb::verify::verify(&verify),
        Verb::Doctor(doctor) => verb::doctor::doctor(&doctor),
        Verb::Schema => verb::schema::schema(),
    }
}
