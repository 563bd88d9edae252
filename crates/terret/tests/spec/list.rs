//! A log as people read it: one line an event, what a change of behaviour would change and nothing else.

use terret::core::chunk::FinishKind;
use terret::core::fact::{CallMode, Cause, EffectClass, EndReason, Fact, HeaderReason, Lane, Next, Outcome};
use terret::core::id::MsgId;
use terret::core::line::Event;
use terret::core::message::{Block, Message, Source};
use terret::core::project::Request;

/// Longest text shown, in characters.
const TEXT: usize = 60;

/// One line an event; chunks that follow each other are one line.
pub(crate) fn events(events: &[Event]) -> String {
    let mut out = String::new();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let chunk = |e: &&Event| matches!(e.fact, Fact::AssistantChunk(_));
        let count = rest.iter().take_while(chunk).count().max(1);
        let seqs = match count {
            1 => first.seq.to_string(),
            _ => format!("{}-{}", first.seq, rest[count - 1].seq),
        };
        let line = format!("{seqs:>5} {:<17} {}", first.fact.type_name(), facts(&first.fact));
        out += line.trim_end();
        out.push('\n');
        rest = &rest[count..];
    }
    out
}

/// The messages of the last request, as the log up to its attempt gives them.
pub(crate) fn last_request(events: &[Event]) -> String {
    let last = events.iter().rposition(|e| matches!(e.fact, Fact::RequestAttempt(_)));
    let mut request = Request::default();
    events[..last.map_or(0, |at| at + 1)].iter().for_each(|event| request.fold(event));
    let messages = request.messages().list().iter();
    messages.map(|projected| said(&projected.message) + "\n").collect()
}

fn said(message: &Message) -> String {
    let calls = message.content.iter().filter_map(|block| match block {
        Block::ToolCall { name, arguments, .. } => Some(format!(" calls {name} {arguments}")),
        _ => None,
    });
    let calls: String = calls.collect();
    match &message.source {
        Source::User => format!("user: {}", quoted(&message.content)),
        Source::Plugin { plugin, .. } if plugin == "environment" => "environment".to_owned(),
        Source::Plugin { plugin, .. } => format!("{plugin}: {}", quoted(&message.content)),
        Source::Model { .. } => format!("assistant: {}{calls}", quoted(&message.content)),
        Source::Tool { call } => {
            let inside = message.content.iter().map(|block| match block {
                Block::ToolResult { content, .. } => quoted(content),
                _ => String::new(),
            });
            format!("result of {call}: {}", inside.collect::<String>())
        }
    }
}

fn facts(fact: &Fact) -> String {
    match fact {
        Fact::WriterOpened(d) => format!("writer {}", d.epoch),
        Fact::WriterIdle(_) => String::new(),
        Fact::InboxAdded(d) => {
            let lane = match d.lane {
                Lane::NextTurn => "next-turn",
                Lane::NextStep => "next-step",
            };
            let wake = if d.wake { " wakes" } else { "" };
            format!("{} {lane}{wake} {}", d.message.id, quoted(&d.message.content))
        }
        Fact::InboxRemoved(d) => format!("{} {:?}", ids(&d.msgs), d.why).to_lowercase(),
        Fact::InboxClaimed(d) => ids(&d.msgs),
        Fact::InboxReturned(d) => format!("{}{}", ids(&d.msgs), if d.held { " held" } else { "" }),
        Fact::InboxReleased(d) => ids(&d.msgs),
        Fact::TurnStart(d) => d.turn.to_string(),
        Fact::TurnCancel(d) => format!("{} by {}", d.turn, cause(&d.cause)),
        Fact::TurnEnd(d) => format!("{} {}", d.turn, ending(&d.reason)),
        Fact::StepStart(d) => format!("{}.{} admits {}", d.turn, d.step, d.admits),
        Fact::StepEnd(d) => format!("{}.{}", d.turn, d.step),
        Fact::UserMessage(d) => match &d.message.source {
            Source::Plugin { plugin, .. } if plugin == "environment" => plugin.clone(),
            _ => d.message.id.to_string(),
        },
        Fact::RequestHeader(d) => {
            let reason = match d.reason {
                HeaderReason::Initial => "initial",
                HeaderReason::Resume => "resume",
                HeaderReason::Change => "change",
            };
            format!("{reason} {}:{}", d.header.provider, d.header.model)
        }
        Fact::RequestContext(d) => format!("{}:{}", d.provider, d.model),
        Fact::RequestAttempt(d) => format!("{}.{} attempt {}", d.turn, d.step, d.attempt),
        Fact::RequestFailed(d) => {
            let next = match d.next {
                Next::Recover => "recover",
                Next::Retry => "retry",
                Next::End => "end",
            };
            format!("attempt {} {}, next: {next}", d.attempt, d.failure.code)
        }
        Fact::RequestRetry(d) => format!("attempt {} by {} after {} ms", d.attempt, d.by, d.delay_ms),
        Fact::AssistantChunk(d) => format!("attempt {}", d.attempt),
        Fact::AssistantMessage(d) => {
            let calls = d.calls.iter().map(|c| {
                let mode = match c.mode {
                    CallMode::Parallel => "parallel",
                    CallMode::Exclusive => "exclusive",
                };
                format!(" {} {} {mode}", c.call, c.name)
            });
            let finish = if d.interrupted { "interrupted" } else { finish(d.finish.kind) };
            format!("{finish} {}{}", quoted(&d.message.content), calls.collect::<Vec<_>>().join(","))
        }
        Fact::ToolCall(d) => {
            let run = if d.run > 1 { format!(" run {}", d.run) } else { String::new() };
            format!("{} {} {}{run}", d.call, d.name, effect(d.effect))
        }
        Fact::ToolResult(d) => {
            let code = d.error.as_ref().map_or(String::new(), |e| format!(" {}", e.code));
            let concludes = if d.concludes { " concludes" } else { "" };
            format!("{} {}{code}{concludes} {}", d.call, outcome(d.outcome), quoted(&d.content))
        }
        Fact::ApprovalAsked(d) => format!("{} {:?} {}", d.call, d.what, d.choices.join(" ")),
        Fact::ApprovalDecided(d) => format!("{} {} by {}", d.call, d.decision, d.by),
        Fact::SurfaceReplaced(d) => format!("{}-{} by {}", d.range[0], d.range[1], d.by),
        Fact::SeamChanged(d) => format!("{} by {}: {}", d.seam, d.plugin, d.what),
        Fact::Plugin(_) => String::new(),
    }
}

fn ids(msgs: &[MsgId]) -> String {
    if msgs.is_empty() {
        return "nothing".to_owned();
    }
    msgs.iter().map(MsgId::to_string).collect::<Vec<_>>().join(" ")
}

fn quoted(content: &[Block]) -> String {
    let text = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } | Block::Refusal { text, .. } => Some(text.as_str()),
        Block::Json { value } => Some(value.get()),
        _ => None,
    });
    let text: String = text.collect();
    let shown: String = text.chars().take(TEXT).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", shown.replace('\n', "\\n"))
}

fn cause(cause: &Cause) -> String {
    match cause {
        Cause::User { text: Some(text) } => format!("user \"{text}\""),
        Cause::User { text: None } => "user".to_owned(),
        Cause::Parent => "parent".to_owned(),
        Cause::Hook { plugin, reason } => format!("hook {plugin}: {reason}"),
        Cause::Disposed => "disposed".to_owned(),
        Cause::Budget { which, limit } => format!("budget of {limit} {which}"),
    }
}

fn ending(reason: &EndReason) -> String {
    let word = reason.word();
    match reason {
        EndReason::Completed | EndReason::MaxTokens | EndReason::Interrupted => word.to_owned(),
        EndReason::Blocked { by, reason } => format!("{word} by {by}: {reason}"),
        EndReason::Aborted { cause: by } => format!("{word} by {}", cause(by)),
        EndReason::Error { failure } => format!("{word} {}", failure.code),
    }
}

fn finish(kind: FinishKind) -> &'static str {
    match kind {
        FinishKind::Stop => "stop",
        FinishKind::ToolCalls => "tool-calls",
        FinishKind::MaxTokens => "max-tokens",
        FinishKind::ContextWindow => "context-window",
        FinishKind::Pause => "pause",
        FinishKind::Refusal => "refusal",
        FinishKind::ContentFilter => "content-filter",
        FinishKind::Other => "other",
    }
}

fn effect(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "read",
        EffectClass::Idempotent => "idempotent",
        EffectClass::Keyed => "keyed",
        EffectClass::Unsafe => "unsafe",
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
        Outcome::Denied => "denied",
        Outcome::NotStarted => "not-started",
        Outcome::Aborted => "aborted",
        Outcome::Timeout => "timeout",
        Outcome::Unknown => "unknown",
    }
}

/// What is in one text and not in the other: `-` the page's, `+` what happened.
pub(crate) fn changes(page: &str, found: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (page.lines().collect(), found.lines().collect());
    // Length of the longest common rest from each pair of places on.
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        let same = i < old.len() && j < new.len() && old[i] == new[j];
        let gone = i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]);
        let (sign, line) = match (same, gone) {
            (true, _) => (' ', old[i]),
            (false, true) => ('-', old[i]),
            (false, false) => ('+', new[j]),
        };
        i += usize::from(same || gone);
        j += usize::from(same || !gone);
        out += &format!("  {sign} {line}\n");
    }
    out
}
