//! `terret run`: one drain of work, then exit with its ending.

mod input;
mod keep;
mod models;
mod output;
mod setup;
mod told;

use std::cell::Cell;
use std::sync::Arc;

use terret::agent::{Agent, Status};
use terret::core::fact::{Cause, EndReason};
use terret::core::input::Recovery;
use terret::core::project::TurnSummary;
use terret::policy::Structured;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args;
use crate::problem::{Problem, exit};
use crate::render::{self, ending};
pub(crate) use models::{providers, settings};
use output::Output;
use setup::Before;
pub(crate) use setup::{here, standard};
use told::Told;

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
    // A limit on the size of files is a full disk, met by the write itself, and not the end of the process. Where the
    // system has no such signal there is nothing to hear.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    let prompt = input::prompt(&args)?;
    if let Some(path) = &args.output {
        keep::check(path)?;
    }
    let told = Arc::new(Told::new(&args));
    let schema = setup::schema(&args)?;
    let (agent, before) = setup::agent(&args, &told, schema.as_ref()).await?;
    let run = Run { args, agent, told, before, schema, hung_up: Cell::new(false) };
    run.told.take_up(run.agent.left_open());
    let output = Output::start(&run.args, &run.agent).await?;
    let shown = run.told.clone();
    // It ends with the runtime, or when the work is over.
    tokio::spawn(async move { shown.tick().await });
    let whole = async {
        let worked = run.work(prompt).await;
        run.leave(output, worked).await
    };
    tokio::select! {
        code = whole => code,
        code = run.stop_on_signals() => Ok(code),
    }
}

/// One run under way.
struct Run {
    args: args::Run,
    agent: Agent,
    told: Arc<Told>,
    /// What was there before.
    before: Before,
    /// What the answer has to be.
    schema: Option<Structured>,
    /// The terminal went away: nobody is left to print for.
    hung_up: Cell<bool>,
}

impl Run {
    /// Closes what a crash left, sends the prompt, and waits until nothing is left to do. Gives the number of turns
    /// that have to end in this run.
    async fn work(&self, prompt: Option<String>) -> Result<usize, Problem> {
        let Run { args, agent, told, .. } = self;
        let resumed = args.continue_ || args.resume.is_some();
        let before = agent.look().await?;
        match (before.suspended, args.resume_turn) {
            (true, true) => {
                agent.recover(Recovery::ResumeTurn { keyed: Vec::new() }).await?;
                told.note("going on inside the turn the last run left open".to_owned());
            }
            (true, false) => {
                agent.recover(Recovery::Close).await?;
                told.closed();
            }
            (false, true) => {
                let problem = Problem::usage("the session has no open turn to go on with");
                return Err(problem.hint(format!("terret run -r {} \"…\"", agent.id())));
            }
            (false, false) => {}
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
            let failed = self.before.ending.as_ref().filter(|reason| ending::code(reason) != 0);
            if let Some(reason) = failed {
                render::err(format!(
                    "the last turn ended: {}; send its prompt again to ask again",
                    ending::words(reason, 1)
                ));
            }
        }
        agent.when_idle().await?;
        Ok(due)
    }

    /// The first Ctrl-C asks the turn to stop. The second gives the exit code to leave with at once: what runs is
    /// dropped, commands are killed, and the next open closes the turn. TERM, and the terminal
    /// going away, count like Ctrl-C.
    async fn stop_on_signals(&self) -> u8 {
        let agent = &self.agent;
        let (Ok(mut int), Ok(mut term), Ok(mut hup)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), hangup())
        else {
            return std::future::pending().await;
        };
        let mut asked = false;
        loop {
            let (cause, code) = tokio::select! {
                _ = int.recv() => (Cause::User { text: None }, 130),
                _ = term.recv() => (Cause::Disposed, 143),
                // The kernel and the shell may both say it: again is no reason to hurry.
                () = heard(&mut hup) => match self.hung_up.replace(true) {
                    true => continue,
                    false => (Cause::Disposed, 143),
                },
            };
            if asked {
                if let Some(again) = &self.before.again {
                    let what = match agent.status() {
                        Status::Running => "this closes the turn",
                        Status::Idle | Status::Parked | Status::Suspended | Status::Poisoned => "go on with",
                    };
                    render::err(format!("left at once; {what}: {again}"));
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
    async fn leave(&self, output: Output, worked: Result<usize, Problem>) -> Result<u8, Problem> {
        let Run { args, agent, told, .. } = self;
        let reading = agent.look().await.ok();
        let idle = agent.when_idle().await;
        // A poisoned agent is gone already; what it managed is in the log.
        let _ = agent.shutdown().await;
        told.rest();
        let turns = told.turns();
        let answer = turns.last().and_then(|last| self.answer(last));
        let mut printed = output.finish(agent, &turns, answer, told.cost(), reading.as_ref()).await;
        if let (Some(path), Some(answer)) = (&args.output, answer) {
            printed = printed.and(keep::keep(path, answer).await);
        }
        let progress = idle?;
        if let Some(why) = progress.broken {
            return Err(self.broken(why));
        }
        if worked.as_ref().is_ok_and(|due| turns.len() < *due) {
            return Err(self.did_not_end());
        }
        say_ending(&turns);
        if let (Some((seq, h)), false) = (reading.as_ref().and_then(|r| r.head), args.ephemeral) {
            render::err(format!("head {seq}:{h}"));
        }
        let (held, parked) = reading.iter().flat_map(|r| &r.pending).partition::<Vec<_>, _>(|p| p.held);
        if !parked.is_empty() {
            render::err("messages are parked; the next run reads them");
        }
        if !held.is_empty() {
            let id = agent.id();
            let ids: Vec<_> = held.iter().map(|p| p.id.to_string()).collect();
            render::err(format!(
                "messages are held; only a run without a prompt reads them, or: terret queue {id} --release {}",
                ids.join(" --release ")
            ));
        }
        // A session that says nothing is nothing to go on with.
        let is_begun = worked.is_ok() || reading.as_ref().is_none_or(|r| r.head.is_some());
        if let (Some(again), true) = (&self.before.again, is_begun) {
            let asked = turns.iter().any(|turn| turn.attempts > 0);
            let model = if asked { "" } else { &self.before.model };
            render::err(format!("go on with: {again}{model} \"…\""));
        }
        worked?;
        if !self.hung_up.get() {
            printed?;
        }
        Ok(turns.last().and_then(|t| t.reason.as_ref()).map_or(0, ending::code))
    }

    /// The answer of a turn, as it is printed and kept: where it has to satisfy a schema, the JSON that does.
    fn answer<'t>(&self, turn: &'t TurnSummary) -> Option<&'t str> {
        match &self.schema {
            None => Some(&turn.text),
            // One that was cut or given up is none, whatever it looks like.
            Some(_) if turn.reason != Some(EndReason::Completed) => None,
            Some(schema) => schema.read(&turn.text).ok(),
        }
    }

    /// A session that was given up in the middle: the turn is still open in the log.
    fn broken(&self, why: String) -> Problem {
        let problem = Problem::new(exit::FAILED, why)
            .fact("safe", "what was acknowledged is in the log; nothing more was done");
        match self.args.ephemeral {
            true => problem,
            false => problem.hint(format!("terret verify {}", self.agent.id())),
        }
    }

    /// A prompt was taken, and nothing says what became of it.
    fn did_not_end(&self) -> Problem {
        let problem =
            Problem::new(exit::FAILED, "the turn did not end").fact("safe", "the prompt is in the log");
        match &self.before.again {
            None => problem,
            Some(again) => problem.hint(again.clone()),
        }
    }
}

/// The terminal going away; none, if whoever started us (`nohup`) had it ignored.
fn hangup() -> std::io::Result<Option<Signal>> {
    let is_ignored = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
    });
    if is_ignored { Ok(None) } else { signal(SignalKind::hangup()).map(Some) }
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
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
