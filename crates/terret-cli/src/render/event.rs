//! One event in one line.

use terret::core::chunk::Chunk;
use terret::core::fact::Fact;
use terret::core::line::Event;
use terret::core::price::Rates;

use super::{ending, first_line, one_line, time};

/// `seq  time  type  what it says`.
pub(crate) fn line(event: &Event) -> String {
    let what = summary(&event.fact);
    let line =
        format!("{:>6}  {}  {:<18} {what}", event.seq, time::of_day(event.time), event.fact.type_name());
    line.trim_end().to_owned()
}

fn summary(fact: &Fact) -> String {
    match fact {
        Fact::WriterOpened(w) => {
            let cut = w.cut_bytes.map(|n| format!(", {n} torn bytes set aside")).unwrap_or_default();
            format!("epoch {}, pid {}, {}{cut}", w.epoch, w.pid, w.by)
        }
        Fact::WriterIdle(_) => String::new(),
        Fact::InboxAdded(a) => format!("{}  {}", a.message.id, first_line(&a.message.text(), 60)),
        Fact::InboxRemoved(r) => names(&r.msgs),
        Fact::InboxClaimed(c) => format!("turn {}: {}", c.turn, names(&c.msgs)),
        Fact::InboxReturned(r) => {
            format!("turn {}: {}{}", r.turn, names(&r.msgs), if r.held { " (held)" } else { "" })
        }
        Fact::InboxReleased(r) => names(&r.msgs),
        Fact::TurnStart(t) => format!("turn {}", t.turn),
        Fact::TurnCancel(t) => format!("turn {}: {:?}", t.turn, t.cause),
        Fact::TurnEnd(t) => format!("turn {}: {}", t.turn, ending::words(&t.reason, 1)),
        Fact::StepStart(s) => format!("step {}.{}, {} message(s)", s.turn, s.step, s.admits),
        Fact::StepEnd(s) => format!("step {}.{}", s.turn, s.step),
        Fact::UserMessage(u) => first_line(&u.message.text(), 70),
        Fact::RequestHeader(h) => {
            format!(
                "{:?}: {}/{}, {} tools",
                h.reason,
                h.header.provider,
                h.header.model,
                h.header.tools.len()
            )
        }
        Fact::RequestContext(c) => {
            let window = c.context_window.map(|window| format!(", window {window}"));
            let price = |rates: &Rates| format!(", ${} in, ${} out", rates.input, rates.output);
            let prices = c.prices.as_ref().map(|prices| price(&prices.rates));
            format!("{}/{}{}{}", c.provider, c.model, window.unwrap_or_default(), prices.unwrap_or_default())
        }
        Fact::RequestAttempt(a) => match a.bytes {
            Some(bytes) => format!("{}.{}#{}  {bytes} bytes, {}", a.turn, a.step, a.attempt, a.digest),
            None => format!("{}.{}#{}  {}", a.turn, a.step, a.attempt, a.digest),
        },
        Fact::RequestFailed(f) => format!("{}: {}", f.failure.code, first_line(&f.failure.message, 60)),
        Fact::RequestRetry(r) => format!("by {} after {} ms", r.by, r.delay_ms),
        Fact::AssistantChunk(c) => chunk(&c.chunk),
        Fact::AssistantMessage(m) => format!(
            "{}{}{}",
            first_line(&m.message.text(), 60),
            m.calls.iter().map(|c| format!(" [{}]", c.name)).collect::<String>(),
            if m.interrupted { " (cut)" } else { "" }
        ),
        Fact::ToolCall(c) => format!("{} {} {}", c.call, c.name, first_line(&one_line(&c.arguments), 60)),
        Fact::ToolResult(r) => format!("{} {:?}", r.call, r.outcome),
        Fact::ApprovalAsked(a) => format!("{} {}", a.call, first_line(&a.what, 60)),
        Fact::ApprovalDecided(a) => format!("{} {} by {}", a.call, a.decision, a.by),
        Fact::SurfaceReplaced(s) => format!("{}..{} by {}", s.range[0], s.range[1], s.by),
        Fact::SeamChanged(s) => format!("{} by {}: {}", s.seam, s.plugin, s.what),
        Fact::Plugin(p) => first_line(p.data.get(), 60),
    }
}

fn chunk(chunk: &Chunk) -> String {
    match chunk {
        Chunk::TextDelta { text, .. } | Chunk::RefusalDelta { text, .. } => format!("{text:?}"),
        Chunk::ReasoningDelta { text, .. } => format!("reasoning {text:?}"),
        Chunk::ToolCallDelta { arguments_delta, .. } => format!("arguments {arguments_delta:?}"),
        Chunk::BlockStart { index, block_type, name, .. } => {
            format!("block {index}: {block_type:?} {}", name.as_deref().unwrap_or_default())
        }
        Chunk::BlockEnd { index, .. } => format!("block {index} ends"),
        Chunk::ResponseStart { model, .. } => format!("response {}", model.as_deref().unwrap_or_default()),
        Chunk::ProviderDelta { .. } => "provider data".into(),
        Chunk::Usage { usage } => format!("usage {} in, {} out", usage.input_tokens, usage.output_tokens),
        Chunk::Warning { code, .. } => format!("warning {code}"),
        Chunk::Finish { raw, .. } => format!("finish {raw}"),
    }
}

fn names(ids: &[terret::core::id::MsgId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
