//! What a log says, for people to read: every projection, once.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use terret::core::fact::Lane;
use terret::core::message::{Block, Message, Source};
use terret::core::project::{Request, Turns};
use terret::core::raw::Raw;
use terret::core::state::State;
use terret::inspect;
use terret::model::{BodyCache, no_blobs};
use terret::store::Scan;

/// The boot in all these logs: nothing was down since they were written.
const BOOT: &str = "some-boot";

/// A codec beside the one that sent the requests, so that its bytes are held too.
const OTHER: &str = "openai-chat@1";

pub(crate) fn by(log: &[u8]) -> String {
    let mut out = String::new();
    let mut scan = Scan::new(log, Path::new("log")).unwrap();
    let header = scan.header().clone();
    write!(out, "session {}, format {}, by {}, in {}", header.id, header.format, header.by, header.cwd)
        .unwrap();
    if let Some(parent) = &header.parent {
        write!(out, ", forked from {} with {} events up to {}", parent.id, parent.taken(), parent.h).unwrap();
    }
    out.push('\n');

    let (mut state, mut turns, mut request) = (State::default(), Turns::default(), Request::default());
    let (mut ended, mut events) = (Vec::new(), 0);
    while let Some(Ok(event)) = scan.next_event().unwrap() {
        events += 1;
        state.apply(&event.fact);
        ended.extend(turns.fold(&event));
        request.fold(&event);
    }
    writeln!(out, "events: {events}").unwrap();
    out += "conversation:\n";
    for projected in request.messages().list() {
        writeln!(out, "  {} {}", projected.seq, message(&projected.message)).unwrap();
    }
    out += "turns:\n";
    for turn in ended.iter().chain(turns.open()) {
        let reason =
            turn.reason.as_ref().map_or("open".to_owned(), |reason| serde_json::to_string(reason).unwrap());
        let claimed: Vec<String> = turn.claimed.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "  {} {reason} steps {} attempts {} calls {} claimed [{}] tokens {}",
            turn.turn,
            turn.steps,
            turn.attempts,
            turn.calls,
            claimed.join(" "),
            serde_json::to_string(&turn.usage).unwrap(),
        )
        .unwrap();
    }
    out += "inbox:\n";
    for pending in state.inbox().iter() {
        let lane = match pending.lane {
            Lane::NextTurn => "next-turn",
            Lane::NextStep => "next-step",
        };
        let marks = [(pending.wake, " wakes"), (pending.held, " held"), (pending.returned, " returned")];
        let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        writeln!(out, "  {} {lane}{marks}", pending.id).unwrap();
    }
    next(&mut out, &mut request);
    verdict(&mut out, log);
    out
}

/// The request that would come next under the last header, in terret's terms and in those of two codecs.
fn next(out: &mut String, request: &mut Request) {
    let Some(header) = request.header().map(Arc::clone) else {
        return *out += "next request: none, there is no header\n";
    };
    writeln!(out, "next request: {}", request.digest(&header)).unwrap();
    let mut other = (*header).clone();
    (other.wire, other.dialect) = (OTHER.to_owned(), Raw::parse("{}").unwrap());
    for header in [header, Arc::new(other)] {
        let built = match BodyCache::default().build(&header, request.messages(), &no_blobs) {
            Ok(Some(body)) => format!("{} bytes, {}", body.bytes.len(), body.digest),
            Ok(None) => "no body".to_owned(),
            Err(failure) => failure.message,
        };
        writeln!(out, "  as {}: {built}", header.wire).unwrap();
    }
}

fn verdict(out: &mut String, log: &[u8]) {
    let mut scan = Scan::new(log, Path::new("log")).unwrap();
    let report = inspect::verify_scan(&mut scan).unwrap();
    let holds = if report.holds() { "holds" } else { "does not hold" };
    writeln!(out, "verify: {holds}, {} of {} requests proven", report.proven, report.attempts).unwrap();
    for (seq, why) in &report.unproven {
        writeln!(out, "  not provable: {seq} {why}").unwrap();
    }
    for mismatch in &report.mismatches {
        writeln!(out, "  mismatch: {mismatch:?}").unwrap();
    }
    if let Some(turn) = report.open_turn {
        writeln!(out, "  turn {turn} is open").unwrap();
    }
    if let Some((seq, h)) = report.head {
        writeln!(out, "  head {seq}:{h}").unwrap();
    }
    if let Some(bad) = report.bad {
        let torn = if scan.is_torn(&bad, false, BOOT).unwrap() { "a torn tail" } else { "not torn" };
        let (line, offset, seq) = (bad.line, bad.offset, bad.seq);
        writeln!(out, "  first bad line: {line}, byte {offset}, seq {seq}, {torn}: {}", bad.cause).unwrap();
    }
}

fn message(message: &Message) -> String {
    let from = match &message.source {
        Source::User => "user".to_owned(),
        Source::Plugin { plugin, .. } => format!("plugin {plugin}"),
        Source::Model { provider, model, .. } => format!("{provider}:{model}"),
        Source::Tool { call } => format!("tool {call}"),
    };
    let said: Vec<String> = message.content.iter().map(block).collect();
    format!("{} from {from}: {}", message.id, said.join(" "))
}

fn block(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => format!("{text:?}"),
        Block::ToolCall { call, name, arguments, .. } => {
            format!("calls {name} {arguments} as {}", call.map_or("?".to_owned(), |call| call.to_string()))
        }
        Block::ToolResult { content, is_error, .. } => {
            let said: Vec<String> = content.iter().map(self::block).collect();
            format!("{}{}", if *is_error { "failed " } else { "" }, said.join(" "))
        }
        other => serde_json::to_string(other).unwrap(),
    }
}
