//! What a run prints: the answer, one object, or the log itself on stdout; everything else on stderr.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use terret::agent::{Agent, Builder, Reading, Subscription};
use terret::core::chunk::{Failure, Usage};
use terret::core::fact::Fact;
use terret::core::id::SessionId;
use terret::core::line::Event;
use terret::core::project::{TurnSummary, Turns};
use terret::hook::{Listener, Next};
use terret::model::{ChunkStream, Outgoing};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::args::{self, Format};
use crate::problem::{Problem, exit};
use crate::render;
use crate::render::transcript::Transcript;

/// What the run has told and been told so far.
pub(super) struct Told {
    seen: Mutex<Seen>,
    progress: bool,
    answers_on_stdout: bool,
    announced: watch::Sender<bool>,
}

#[derive(Default)]
struct Seen {
    turns: Turns,
    ended: Vec<TurnSummary>,
    transcript: Transcript,
    /// What is said after the session was named.
    notes: Vec<String>,
}

impl Told {
    pub(super) fn new(args: &args::Run) -> Self {
        let progress = args.verbose || std::io::stderr().is_terminal();
        let answers_on_stdout = !args.json && args.output_format == Format::Text;
        Told { seen: Mutex::default(), progress, answers_on_stdout, announced: watch::channel(false).0 }
    }

    /// Listens to every event, and holds the first request back until the session was named.
    pub(super) fn listen(self: &Arc<Self>, builder: Builder) -> Builder {
        let told = self.clone();
        let named = Arc::new(Named(self.announced.subscribe()));
        builder.observe(move |event| told.see(event)).seams(|seams| seams.stream.add(named))
    }

    /// Goes on from the turn a dead writer left open: its end is told with what it said before.
    pub(super) fn take_up(&self, open: Option<&TurnSummary>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.turns = Turns::within(open.cloned());
    }

    fn see(&self, event: &Event) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = seen.turns.fold(event);
        seen.ended.extend(ended);
        // The answer itself goes to stdout, the ending is said on leaving.
        let is_answer = matches!(&event.fact, Fact::AssistantMessage(answer) if answer.calls.is_empty());
        let said_elsewhere = matches!(&event.fact, Fact::UserMessage(_) | Fact::TurnEnd(_))
            || (self.answers_on_stdout && is_answer);
        if let Fact::WriterOpened(opened) = &event.fact
            && let Some(bytes) = opened.cut_bytes
        {
            seen.notes.push(format!("set {bytes} bytes of a torn line aside, in torn-{}", opened.epoch));
        }
        if self.progress
            && !said_elsewhere
            && let Some(text) = seen.transcript.event(event)
        {
            match *self.announced.borrow() {
                // Progress is a courtesy: a closed stderr does not stop the work.
                true => drop(std::io::stderr().write_all(text.as_bytes())),
                // The first line names the session.
                false => seen.notes.push(text.trim_end().to_owned()),
            }
        }
    }

    /// Something the person should know; said once the session was named.
    pub(super) fn note(&self, text: String) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).notes.push(text);
    }

    /// Names the session; by now its header and its prompt are synced.
    pub(super) fn announce(&self, id: &SessionId, log: &Path) {
        let notes = std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).notes);
        let lines: String = notes.iter().map(|note| format!("{note}\n")).collect();
        let _ = write!(std::io::stderr(), "session {id}  {}\n{lines}", log.display());
        self.announced.send_replace(true);
    }

    /// Notes what a dead writer left open and this run closed.
    pub(super) fn closed(&self) {
        for turn in self.turns() {
            let words = turn.reason.as_ref().map(|r| render::ending::words(r, 1)).unwrap_or_default();
            self.note(format!("closed turn {} of the last run ({words})", turn.turn));
        }
    }

    /// The turns that ended in this run.
    pub(super) fn turns(&self) -> Vec<TurnSummary> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).ended.clone()
    }
}

/// Lets no request out before the session was named.
struct Named(watch::Receiver<bool>);

impl Listener<Outgoing, Result<ChunkStream, Failure>> for Named {
    fn call<'a>(
        &'a self,
        outgoing: Outgoing,
        next: Next<'a, Outgoing, Result<ChunkStream, Failure>>,
    ) -> BoxFuture<'a, Result<ChunkStream, Failure>> {
        let mut named = self.0.clone();
        async move {
            // The sender lives as long as the run.
            let _ = named.wait_for(|named| *named).await;
            next.run(outgoing).await
        }
        .boxed()
    }
}

/// What goes to stdout.
pub(super) enum Output {
    Text,
    Json,
    Stream(JoinHandle<Result<(), Problem>>),
}

impl Output {
    pub(super) async fn start(args: &args::Run, agent: &Agent) -> Result<Self, Problem> {
        let format = if args.json { Format::StreamJson } else { args.output_format };
        Ok(match format {
            Format::Text => Output::Text,
            Format::Json => Output::Json,
            Format::StreamJson => {
                let header = agent.header_line().await?;
                let lines = agent.subscribe().await?;
                let runtime = Handle::current();
                Output::Stream(spawn_blocking(move || along(&runtime, &header, lines)))
            }
        })
    }

    /// Prints what was kept for the end, once the agent is put away.
    pub(super) async fn finish(
        self,
        agent: &Agent,
        turns: &[TurnSummary],
        reading: Option<&Reading>,
    ) -> Result<(), Problem> {
        let text = match self {
            Output::Text => {
                let answer = turns.last().map(|t| t.text.trim_end()).filter(|t| !t.is_empty());
                answer.map(|text| format!("{text}\n")).unwrap_or_default()
            }
            Output::Json => format!("{}\n", object(agent, turns, reading)),
            // The printer ends by itself once everything written was printed.
            Output::Stream(printer) => return joined(printer).await,
        };
        joined(spawn_blocking(move || render::out(text).map(|_| ()))).await
    }
}

/// Prints the log as it grows. On a thread of its own, at the reader's pace: one that stalls stops neither the
/// turn nor the signals.
fn along(runtime: &Handle, header: &[u8], mut lines: Subscription) -> Result<(), Problem> {
    let mut going = render::out(header)?;
    while going && let Some(bytes) = runtime.block_on(lines.next())? {
        going = render::out(bytes)?;
    }
    Ok(())
}

async fn joined(printer: JoinHandle<Result<(), Problem>>) -> Result<(), Problem> {
    printer.await.unwrap_or_else(|e| Err(Problem::new(exit::FAILED, format!("the printer broke: {e}"))))
}

/// Writes the last answer to a file: whole or not at all, where the place allows that.
pub(super) async fn keep(path: &Path, text: &str) -> Result<(), Problem> {
    let (path, text) = (path.to_owned(), text.to_owned());
    // A pipe may have no reader yet.
    joined(spawn_blocking(move || write(&path, &text))).await
}

fn write(path: &Path, text: &str) -> Result<(), Problem> {
    // What a stream is called by may name a file, and must still not be replaced.
    let is_stream = path.starts_with("/dev") || path.starts_with("/proc");
    let written = match (path.metadata(), path.canonicalize()) {
        // A link is followed, so that it stays one.
        (Ok(meta), Ok(target)) if meta.is_file() && !is_stream => replace(&target, text),
        (Err(e), _) if e.kind() == ErrorKind::NotFound && !path.is_symlink() => replace(path, text),
        // A pipe or a device is written to.
        _ => std::fs::write(path, text),
    };
    written.map_err(|e| Problem::new(exit::FAILED, format!("cannot write `{}`: {e}", path.display())))
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::IsADirectory)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::write(&temporary, text).and_then(|()| {
        if let Ok(old) = path.metadata() {
            std::fs::set_permissions(&temporary, old.permissions())?;
        }
        std::fs::rename(&temporary, path)
    });
    if written.is_err() {
        // It may never have come to be.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn object(agent: &Agent, turns: &[TurnSummary], reading: Option<&Reading>) -> serde_json::Value {
    let last = turns.last();
    let usage = turns.iter().filter_map(|t| t.usage.as_ref()).fold(None, |sum: Option<Usage>, usage| {
        let mut sum = sum.unwrap_or_default();
        sum.add(usage);
        Some(sum)
    });
    json!({
        "session": agent.id(),
        "ending": last.and_then(|t| t.reason.clone()),
        "text": last.map(|t| t.text.clone()).unwrap_or_default(),
        "usage": usage,
        "cost": null,
        "steps": turns.iter().map(|t| u64::from(t.steps)).sum::<u64>(),
        "parked": reading.map_or(0, |r| r.pending.len()),
        "head": reading.and_then(|r| r.head).map(|(seq, h)| format!("{seq}:{h}")),
        "log": reading.map(|r| r.log.clone()),
    })
}
