//! A session as a person reads it: prompts, answers, tools, and how each turn ended.

use terret::core::fact::Fact;
use terret::core::line::Event;
use terret::core::message::{Block, Source};

use super::{ending, first_line};

/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 12;

/// Renders events one by one.
#[derive(Default)]
pub(crate) struct Transcript {
    attempts: u32,
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
                let text = answer.message.text();
                let cut = if answer.interrupted { "\n[cut off here]" } else { "" };
                (!text.is_empty()).then(|| format!("{}{cut}\n", text.trim_end()))
            }
            Fact::ToolCall(call) => {
                let again = if call.run > 1 { format!(" (run {})", call.run) } else { String::new() };
                Some(format!("$ {} {}{again}\n", call.name, first_line(&call.arguments, 100)))
            }
            Fact::ToolResult(result) => {
                let text: String = result.content.iter().map(block_text).collect();
                let lines: Vec<&str> = text.trim_end().lines().collect();
                let shown = lines.iter().take(RESULT_LINES).map(|line| format!("  {line}\n"));
                let more = lines.len().saturating_sub(RESULT_LINES);
                let tail = if more > 0 { format!("  … {more} more lines\n") } else { String::new() };
                let word = match &result.error {
                    Some(error) => format!("  [{:?}: {}]\n", result.outcome, error.code),
                    None => String::new(),
                };
                Some(shown.collect::<String>() + &tail + &word)
            }
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
