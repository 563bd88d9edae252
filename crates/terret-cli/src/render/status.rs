//! One line on a terminal that says what goes on, drawn over itself and gone before anything else is printed.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use terret::core::chunk::Chunk;
use terret::core::fact::Fact;
use terret::core::id::CallId;

use super::{first_line, plain};

/// Most columns of the line.
const WIDTH: usize = 72;

/// Columns that are drawn on now.
static DRAWN: Mutex<usize> = Mutex::new(0);

/// Draws the line in place of the last one; `None` takes it away.
pub(crate) fn draw(line: Option<&str>) {
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    let line = line.map(|line| first_line(&plain(line), width())).unwrap_or_default();
    let columns = line.chars().count();
    if columns == 0 && *drawn == 0 {
        return;
    }
    let rest = " ".repeat(drawn.saturating_sub(columns));
    let back = if columns == 0 { "\r" } else { "" };
    put(&format!("\r{line}{rest}{back}"));
    // What was drawn over with blanks is gone.
    *drawn = columns;
}

/// What fits on one line of the terminal: a second one could not be drawn over.
fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { WIDTH } else { WIDTH.min(columns.saturating_sub(1)) }
}

/// Takes the line away.
pub(crate) fn clear() {
    draw(None);
}

/// Takes the line away and prints to stderr.
pub(crate) fn print_over(text: &str) {
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if *drawn > 0 {
        put(&format!("\r{}\r", " ".repeat(*drawn)));
        *drawn = 0;
    }
    put(text);
}

/// A closed stderr stops no work, and nowhere is left to say so.
fn put(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// What goes on, as the events tell it.
#[derive(Default)]
pub(crate) struct Doing {
    model: String,
    request: Option<Stage>,
    running: BTreeMap<CallId, (String, Instant)>,
}

enum Stage {
    Asking(Instant),
    Writing(usize),
    Waiting { until: Instant, attempt: u32 },
}

impl Doing {
    pub(crate) fn fold(&mut self, fact: &Fact, now: Instant) {
        match fact {
            Fact::RequestHeader(h) => self.model = format!("{}/{}", h.header.provider, h.header.model),
            Fact::RequestAttempt(_) => self.request = Some(Stage::Asking(now)),
            Fact::AssistantChunk(piece) => {
                let more = characters(&piece.chunk);
                let before = if let Some(Stage::Writing(before)) = self.request { before } else { 0 };
                if before + more > 0 {
                    self.request = Some(Stage::Writing(before + more));
                }
            }
            Fact::RequestRetry(retry) => {
                // A wait too long for the clock is not shown.
                let until = now.checked_add(Duration::from_millis(retry.delay_ms));
                let attempt = retry.attempt.saturating_add(1);
                self.request = until.map(|until| Stage::Waiting { until, attempt });
            }
            Fact::RequestFailed(_) | Fact::AssistantMessage(_) => self.request = None,
            Fact::ToolCall(call) => drop(self.running.insert(call.call, (call.name.clone(), now))),
            Fact::ToolResult(result) => drop(self.running.remove(&result.call)),
            Fact::TurnEnd(_) => {
                self.request = None;
                self.running.clear();
            }
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnStart(_)
            | Fact::TurnCancel(_)
            | Fact::StepStart(_)
            | Fact::StepEnd(_)
            | Fact::UserMessage(_)
            | Fact::RequestContext(_)
            | Fact::ApprovalAsked(_)
            | Fact::ApprovalDecided(_)
            | Fact::SurfaceReplaced(_)
            | Fact::SeamChanged(_)
            | Fact::Plugin(_) => {}
        }
    }

    /// The line for it; none while nothing takes time.
    pub(crate) fn line(&self, now: Instant) -> Option<String> {
        let seconds = |since: Instant| now.saturating_duration_since(since).as_secs();
        let model = &self.model;
        if let Some(stage) = &self.request {
            return Some(match stage {
                Stage::Asking(since) => format!("· asking {model}, {} s", seconds(*since)),
                Stage::Writing(characters) => format!("· {model} writes, {characters} characters"),
                Stage::Waiting { until, attempt } => {
                    let left = until.saturating_duration_since(now).as_millis().div_ceil(1000);
                    format!("· waiting {left} s before attempt {attempt}")
                }
            });
        }
        let since = self.running.values().map(|(_, since)| *since).min()?;
        let names: Vec<&str> = self.running.values().map(|(name, _)| name.as_str()).collect();
        let verb = if names.len() == 1 { "runs" } else { "run" };
        Some(format!("· {} {verb}, {} s", names.join(", "), seconds(since)))
    }
}

fn characters(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::TextDelta { text, .. }
        | Chunk::RefusalDelta { text, .. }
        | Chunk::ReasoningDelta { text, .. } => text.chars().count(),
        Chunk::ToolCallDelta { arguments_delta, .. } => arguments_delta.chars().count(),
        Chunk::BlockStart { .. }
        | Chunk::BlockEnd { .. }
        | Chunk::ResponseStart { .. }
        | Chunk::ProviderDelta { .. }
        | Chunk::Usage { .. }
        | Chunk::Warning { .. }
        | Chunk::Finish { .. } => 0,
    }
}
