//! `terret run`: one drain of work, then exit with its ending.

mod input;
mod output;
mod setup;

use std::sync::Arc;

use terret::agent::{Agent, Status};
use terret::core::fact::Cause;
use terret::core::input::Recovery;
use terret::core::project::TurnSummary;
use tokio::signal::unix::{SignalKind, signal};

use crate::args;
use crate::problem::{Problem, exit};
use crate::render::{self, ending};
use output::{Output, Told};

pub(crate) fn run(args: args::Run) -> Result<u8, Problem> {
    // A reader of stdout that goes away must end the printing, not the process; Rust's runtime sees to it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(exit::FAILED, format!("cannot start: {e}")))?;
    let code = runtime.block_on(drive(args));
    // A reading of stdin or a blocking tool may still hang: it must not keep the exit.
    runtime.shutdown_background();
    code
}

async fn drive(args: args::Run) -> Result<u8, Problem> {
    let prompt = input::prompt(&args)?;
    let told = Arc::new(Told::new(&args));
    let agent = setup::agent(&args, &told).await?;
    told.take_up(agent.left_open());
    let output = Output::start(&args, &agent).await?;
    let whole = async {
        let worked = work(&args, &agent, &told, prompt).await;
        leave(&args, &agent, &told, output, worked).await
    };
    tokio::select! {
        code = whole => code,
        code = stop_on_signals(&args, &agent) => Ok(code),
    }
}

/// Closes what a crash left, sends the prompt, and waits until nothing is left to do. Gives the number of turns
/// that have to end in this run.
async fn work(
    args: &args::Run,
    agent: &Agent,
    told: &Told,
    prompt: Option<String>,
) -> Result<usize, Problem> {
    let resumed = args.continue_ || args.resume.is_some();
    let before = agent.look().await?;
    if before.suspended {
        agent.recover(Recovery::Close).await?;
        told.closed();
    }
    let (mut nothing, mut due) = (false, 0);
    match prompt {
        Some(prompt) => {
            due = told.turns().len() + 1;
            agent.followup(agent.user(prompt)).await?;
        }
        None if resumed => {
            let waiting = agent.look().await?.pending.into_iter().map(|p| p.id).collect::<Vec<_>>();
            nothing = waiting.is_empty() && !before.suspended;
            agent.release(waiting).await?;
        }
        None => {}
    }
    let log = agent.look().await?.log;
    told.announce(agent.id(), &log);
    if nothing {
        render::err("nothing was left to do");
    }
    agent.when_idle().await?;
    Ok(due)
}

/// The first Ctrl-C asks the turn to stop. The second gives the exit code to leave with at once: what runs is
/// dropped, commands are killed, and the next open closes the turn. TERM counts like Ctrl-C.
async fn stop_on_signals(args: &args::Run, agent: &Agent) -> u8 {
    let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    let mut asked = false;
    loop {
        let (cause, code) = tokio::select! {
            _ = int.recv() => (Cause::User { text: None }, 130),
            _ = term.recv() => (Cause::Disposed, 143),
        };
        if asked {
            if !args.ephemeral {
                let what = match agent.status() {
                    Status::Running => "this closes the turn",
                    Status::Idle | Status::Parked | Status::Suspended | Status::Poisoned => "go on with",
                };
                render::err(format!("left at once; {what}: terret run -r {}", agent.id()));
            }
            return code;
        }
        asked = true;
        // A driver that is gone has nothing to stop.
        let _ = agent.handle().cancel_now(cause);
    }
}

/// Lets go of the session, prints what is to be printed, and says how it ended. What stopped the work comes
/// before what stopped the printing.
async fn leave(
    args: &args::Run,
    agent: &Agent,
    told: &Told,
    output: Output,
    worked: Result<usize, Problem>,
) -> Result<u8, Problem> {
    let reading = agent.look().await.ok();
    let idle = agent.when_idle().await;
    // A poisoned agent is gone already; what it managed is in the log.
    let _ = agent.shutdown().await;
    let turns = told.turns();
    let mut printed = output.finish(agent, &turns, reading.as_ref()).await;
    if let (Some(path), Some(last)) = (&args.output, turns.last()) {
        printed = printed.and(output::keep(path, &last.text).await);
    }
    let progress = idle?;
    if let Some(why) = progress.broken {
        return Err(broken(args, agent, why));
    }
    if worked.as_ref().is_ok_and(|due| turns.len() < *due) {
        return Err(did_not_end(args, agent));
    }
    say_ending(&turns);
    if let (Some((seq, h)), false) = (reading.as_ref().and_then(|r| r.head), args.ephemeral) {
        render::err(format!("head {seq}:{h}"));
    }
    if reading.is_some_and(|r| !r.pending.is_empty()) || progress.status == Status::Parked {
        render::err("messages are parked; the next run reads them");
    }
    if !args.ephemeral {
        render::err(format!("go on with: terret run -r {} \"…\"", agent.id()));
    }
    worked?;
    printed?;
    Ok(turns.last().and_then(|t| t.reason.as_ref()).map_or(0, ending::code))
}

/// A session that was given up in the middle: the turn is still open in the log.
fn broken(args: &args::Run, agent: &Agent, why: String) -> Problem {
    let problem = Problem::new(exit::FAILED, why)
        .fact("safe", "what was acknowledged is in the log; nothing more was done");
    match args.ephemeral {
        true => problem,
        false => problem.hint(format!("terret verify {}", agent.id())),
    }
}

/// A prompt was taken, and nothing says what became of it.
fn did_not_end(args: &args::Run, agent: &Agent) -> Problem {
    let problem = Problem::new(exit::FAILED, "the turn did not end").fact("safe", "the prompt is in the log");
    match args.ephemeral {
        true => problem,
        false => problem.hint(format!("terret run -r {}", agent.id())),
    }
}

fn say_ending(turns: &[TurnSummary]) {
    if let Some(last) = turns.last()
        && let Some(reason) = &last.reason
    {
        let words = ending::words(reason, last.attempts);
        render::err(if ending::code(reason) == 0 { words } else { format!("ended: {words}") });
    }
}
