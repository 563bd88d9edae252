//! What a run says on stderr while it goes on.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::agent::Builder;
use terret::core::chunk::Failure;
use terret::core::fact::{Fact, Outcome};
use terret::core::id::{CallId, SessionId};
use terret::core::line::Event;
use terret::core::price::Usd;
use terret::core::project::{TurnSummary, Turns};
use terret::hook::{Listener, Next};
use terret::model::{ChunkStream, Outgoing};
use terret::policy::Meter;
use tokio::sync::watch;

use crate::args::{self, Format};
use crate::render;
use crate::render::status::Doing;
use crate::render::transcript::Transcript;

/// How often the line on a terminal is drawn: it counts seconds.
const TICK: Duration = Duration::from_secs(1);

/// What the run has told and been told so far.
pub(super) struct Told {
    seen: Mutex<Seen>,
    meter: Meter,
    /// Whether progress is told, and whether a terminal shows it.
    progress: bool,
    terminal: bool,
    answers_on_stdout: bool,
    announced: watch::Sender<bool>,
}

#[derive(Default)]
struct Seen {
    turns: Turns,
    ended: Vec<TurnSummary>,
    transcript: Transcript,
    doing: Doing,
    /// Nothing more goes on.
    over: bool,
    /// Calls of a dead writer of which nobody knows how they ended.
    unknown: Vec<CallId>,
    /// What is said after the session was named.
    notes: Vec<String>,
}

impl Told {
    pub(super) fn new(args: &args::Run) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let progress = args.verbose || terminal;
        let answers_on_stdout = !args.json && args.output_format == Format::Text;
        let announced = watch::channel(false).0;
        Told {
            seen: Mutex::default(),
            meter: Meter::default(),
            progress,
            terminal,
            answers_on_stdout,
            announced,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what goes on, on a terminal, until the work is over.
    pub(super) async fn tick(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            let seen = self.seen();
            if seen.over || !self.terminal {
                return;
            }
            if *self.announced.borrow() {
                render::status::draw(seen.doing.line(Instant::now()).as_deref());
            }
        }
    }

    /// Nothing more goes on: what is printed from now on stands alone.
    pub(super) fn rest(&self) {
        self.seen().over = true;
        render::status::clear();
    }

    /// Listens to every event, and holds the first request back until the session was named.
    pub(super) fn listen(self: &Arc<Self>, builder: Builder) -> Builder {
        let told = self.clone();
        let named = Arc::new(Named(self.announced.subscribe()));
        builder.observe(move |event| told.see(event)).seams(|seams| {
            self.meter.listen(seams);
            seams.stream.add(named);
        })
    }

    /// What the run has cost, if that is known.
    pub(super) fn cost(&self) -> Option<Usd> {
        self.meter.read().whole()
    }

    /// Goes on from the turn a dead writer left open: its end is told with what it said before.
    pub(super) fn take_up(&self, open: Option<&TurnSummary>) {
        let mut seen = self.seen();
        seen.turns = Turns::within(open.cloned());
    }

    fn see(&self, event: &Event) {
        let mut seen = self.seen();
        let ended = seen.turns.fold(event);
        seen.ended.extend(ended);
        seen.doing.fold(&event.fact, Instant::now());
        // The answer itself goes to stdout, the ending is said on leaving.
        let is_answer = matches!(&event.fact, Fact::AssistantMessage(answer) if answer.calls.is_empty());
        let said_elsewhere = matches!(&event.fact, Fact::UserMessage(_) | Fact::TurnEnd(_))
            || (self.answers_on_stdout && is_answer);
        if let Fact::WriterOpened(opened) = &event.fact
            && let Some(bytes) = opened.cut_bytes
        {
            seen.notes.push(format!("set {bytes} bytes of a torn line aside, in torn-{}", opened.epoch));
        }
        if let Fact::ToolResult(result) = &event.fact
            && result.outcome == Outcome::Unknown
        {
            seen.unknown.push(result.call);
        }
        if self.progress
            && !said_elsewhere
            && let Some(text) = seen.transcript.event(event)
        {
            match *self.announced.borrow() {
                true => render::err(text.trim_end_matches('\n')),
                // The first line names the session.
                false => seen.notes.push(text.trim_end().to_owned()),
            }
        }
    }

    /// Something the person should know; said once the session was named.
    pub(super) fn note(&self, text: String) {
        self.seen().notes.push(text);
    }

    /// Names the session; by now its header and its prompt are synced.
    pub(super) fn announce(&self, id: &SessionId, log: &Path) {
        let notes = std::mem::take(&mut self.seen().notes);
        let first = format!("session {id}  {}", log.display());
        render::err([first].into_iter().chain(notes).collect::<Vec<_>>().join("\n"));
        self.announced.send_replace(true);
    }

    /// Notes what a dead writer left open and this run closed.
    pub(super) fn closed(&self) {
        for turn in self.turns() {
            let words = turn.reason.as_ref().map(|r| render::ending::words(r, 1)).unwrap_or_default();
            self.note(format!("closed turn {} of the last run ({words})", turn.turn));
        }
        let unknown = std::mem::take(&mut self.seen().unknown);
        for call in unknown {
            self.note(format!("call {call} was running: what it did is unknown, and it is not run again"));
        }
    }

    /// The turns that ended in this run.
    pub(super) fn turns(&self) -> Vec<TurnSummary> {
        self.seen().ended.clone()
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
