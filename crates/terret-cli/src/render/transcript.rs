//! A session as a person reads it: prompts, answers, tools, and how each turn ended.

use std::collections::BTreeMap;

use terret::core::fact::{AssistantMessage, Fact, Outcome, ToolResult};
use terret::core::id::CallId;
use terret::core::line::Event;
use terret::core::message::{Block, Source};

use super::{ending, first_line, one_line};

/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 12;
/// Characters of a call's arguments that are shown.
const ARGUMENTS: usize = 100;

/// Renders events one by one.
#[derive(Default)]
pub(crate) struct Transcript {
    attempts: u32,
    /// Calls of the last answer.
    calls: BTreeMap<CallId, Asked>,
}

/// A call the model asked for.
struct Asked {
    name: String,
    arguments: String,
    started: bool,
}

impl Transcript {
    /// The text of one event; most have none.
    pub(crate) fn event(&mut self, event: &Event) -> Option<String> {
        match &event.fact {
            Fact::TurnStart(_) => {
                self.attempts = 0;
                None
            }
            Fact::RequestAttempt(_) => {
                self.attempts += 1;
                None
            }
            Fact::UserMessage(user) => Some(match &user.message.source {
                Source::User => format!("> {}\n", user.message.text().trim_end().replace('\n', "\n> ")),
                Source::Plugin { plugin, .. } => {
                    format!("({plugin}: {})\n", first_line(&user.message.text().replace('\n', " "), 90))
                }
                Source::Model { .. } | Source::Tool { .. } => format!("{}\n", user.message.text()),
            }),
            Fact::AssistantMessage(answer) => {
                self.calls = asked(answer);
                let text = answer.message.text();
                let cut = if answer.interrupted { "\n[cut off here]" } else { "" };
                (!text.is_empty()).then(|| format!("{}{cut}\n", text.trim_end()))
            }
            Fact::ToolCall(call) => {
                let again = if call.run > 1 { format!(" (run {})", call.run) } else { String::new() };
                let (name, arguments) = (call.name.clone(), call.arguments.clone());
                let line = format!("$ {} {name} {}{again}\n", call.call, shown(&arguments));
                self.calls.insert(call.call, Asked { name, arguments, started: true });
                Some(line)
            }
            Fact::ToolResult(result) => Some(self.result(result)),
            Fact::RequestFailed(failed) => {
                Some(format!("! request failed: {} [{}]\n", failed.failure.message, failed.failure.code))
            }
            Fact::RequestRetry(retry) => Some(format!("! asked again after {} ms\n", retry.delay_ms)),
            Fact::TurnEnd(end) => {
                Some(format!("-- turn {}: {}\n", end.turn, ending::words(&end.reason, self.attempts)))
            }
            Fact::SeamChanged(seam) => {
                Some(format!("! {} changed {}: {}\n", seam.plugin, seam.seam, seam.what))
            }
            Fact::ApprovalAsked(asked) => Some(format!("? {}\n", asked.what)),
            Fact::ApprovalDecided(decided) => Some(format!("! {} by {}\n", decided.decision, decided.by)),
            Fact::WriterOpened(_)
            | Fact::WriterIdle(_)
            | Fact::InboxAdded(_)
            | Fact::InboxRemoved(_)
            | Fact::InboxClaimed(_)
            | Fact::InboxReturned(_)
            | Fact::InboxReleased(_)
            | Fact::TurnCancel(_)
            | Fact::StepStart(_)
            | Fact::StepEnd(_)
            | Fact::RequestHeader(_)
            | Fact::RequestContext(_)
            | Fact::AssistantChunk(_)
            | Fact::SurfaceReplaced(_)
            | Fact::Plugin(_) => None,
        }
    }

    /// Results come as they are done, so each says whose it is.
    fn result(&self, result: &ToolResult) -> String {
        let asked = self.calls.get(&result.call);
        let name = asked.map(|asked| format!(" {}", asked.name)).unwrap_or_default();
        let code = result.error.as_ref().map(|error| format!(" ({})", error.code)).unwrap_or_default();
        let mut text = match asked {
            // It never started, so nothing has said yet what was asked for.
            Some(asked) if !asked.started => format!("$ {}{name} {}\n", result.call, shown(&asked.arguments)),
            Some(_) | None => String::new(),
        };
        text.push_str(&format!("  {}{name}: {}{code}\n", result.call, word(result.outcome)));
        let content: String = result.content.iter().map(block_text).collect();
        let lines: Vec<&str> = content.trim_end().lines().collect();
        text.extend(lines.iter().take(RESULT_LINES).map(|line| format!("    {line}\n")));
        if lines.len() > RESULT_LINES {
            text.push_str(&format!("    … {} more lines\n", lines.len() - RESULT_LINES));
        }
        text
    }
}

fn asked(answer: &AssistantMessage) -> BTreeMap<CallId, Asked> {
    let blocks = answer.message.content.iter().filter_map(|block| match block {
        Block::ToolCall { call, name, arguments, .. } => {
            let asked = Asked { name: name.clone(), arguments: arguments.clone(), started: false };
            call.map(|call| (call, asked))
        }
        Block::Text { .. }
        | Block::Refusal { .. }
        | Block::Reasoning { .. }
        | Block::Json { .. }
        | Block::Image { .. }
        | Block::File { .. }
        | Block::ToolResult { .. }
        | Block::Provider { .. } => None,
    });
    blocks.collect()
}

fn shown(arguments: &str) -> String {
    first_line(&one_line(arguments), ARGUMENTS)
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
        Outcome::Denied => "denied",
        Outcome::NotStarted => "not started",
        Outcome::Aborted => "aborted",
        Outcome::Timeout => "timeout",
        Outcome::Unknown => "unknown",
    }
}

fn block_text(block: &Block) -> String {
    match block {
        Block::Text { text, .. } | Block::Refusal { text, .. } | Block::Reasoning { text, .. } => {
            text.clone()
        }
        Block::Json { value } => value.get().to_owned(),
        Block::Image { attachment } | Block::File { attachment } => {
            format!("[{}, {} bytes]", attachment.media_type, attachment.bytes)
        }
        Block::ToolCall { name, .. } => format!("[{name}]"),
        Block::ToolResult { content, .. } => content.iter().map(block_text).collect(),
        Block::Provider { .. } => String::new(),
    }
}
