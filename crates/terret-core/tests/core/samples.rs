//! One sample of everything a log can say.

use std::collections::BTreeSet;

use terret_core::chunk::{Chunk, Failure, Finish, FinishKind, Usage, code};
use terret_core::fact::{
    ApprovalAsked, ApprovalDecided, AssistantChunk, AssistantMessage, CallMode, CallRef, Cause, EffectClass,
    EndReason, Fact, Header, HeaderReason, InboxAdded, InboxClaimed, InboxReleased, InboxRemoved,
    InboxReturned, Lane, Next, Outcome, PluginEvent, Rel, Removal, RequestAttempt, RequestContext,
    RequestFailed, RequestHeader, RequestRetry, SeamChanged, StepEnd, StepStart, SurfaceReplaced, ToolCall,
    ToolError, ToolResult, ToolSpec, TurnCancel, TurnEnd, TurnStart, UserMessage, WriterIdle, WriterOpened,
};
use terret_core::id::{CallId, Digest};
use terret_core::line::{SessionHeader, SessionTag};
use terret_core::message::{Block, CallKind, Form, Message, ProviderData, Role, Source};
use terret_core::raw::Raw;

pub(crate) fn raw(json: &str) -> Raw {
    Raw::parse(json).unwrap()
}

pub(crate) fn call_id(turn: u32, step: u32, ordinal: u32) -> CallId {
    CallId { turn, step, ordinal }
}

pub(crate) fn header() -> Header {
    Header {
        provider: "mock".into(),
        model: "m".into(),
        wire: "openai-chat@1".into(),
        dialect: raw(r#"{"system":"developer"}"#),
        parameters: [("temperature".to_owned(), raw("1.0")), ("max_tokens".to_owned(), raw("4096"))].into(),
        defaults: vec!["max_tokens".into()],
        system: Some("Be brief.".into()),
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            parameters: raw(r#"{"type":"object"}"#),
        }],
    }
}

pub(crate) fn context() -> RequestContext {
    RequestContext {
        provider: "mock".into(),
        model: "m".into(),
        context_window: Some(128_000),
        prices: None,
        table: None,
    }
}

pub(crate) fn attempt(attempt: u32) -> RequestAttempt {
    RequestAttempt {
        turn: 1,
        step: 1,
        attempt,
        digest: Digest::of(b"request"),
        wire: Some("openai-chat@1".into()),
        wire_digest: Some(Digest::of(b"body")),
        bytes: Some(4),
    }
}

pub(crate) fn opened(epoch: u64) -> WriterOpened {
    WriterOpened {
        epoch,
        pid: 7,
        host: "host".into(),
        boot: "boot".into(),
        by: "terret 0.1.0".into(),
        header_hash: Digest::of(b"header"),
        cut_bytes: None,
    }
}

pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
}

fn answer() -> Message {
    let provider = ProviderData {
        protocol: "openai-chat".into(),
        route: "mock".into(),
        model: "m".into(),
        data: raw(r#"{"sig":1e2}"#),
    };
    Message {
        id: "answer-1.1.2".into(),
        role: Role::Assistant,
        content: vec![
            Block::Reasoning { text: String::new(), provider: Some(provider) },
            Block::text("Looking. \u{2028}\"\\\n"),
            Block::ToolCall {
                call: Some(call_id(1, 1, 0)),
                id: "p-1".into(),
                name: "read".into(),
                arguments: r#"{"path" : "a"}"#.into(),
                kind: CallKind::Json,
                provider: None,
            },
        ],
        source: Source::Model {
            provider: "mock".into(),
            model: "m".into(),
            wire: Some("openai-chat@1".into()),
            response_id: Some("r-1".into()),
        },
    }
}

fn plugin_message(id: &str) -> Message {
    Message {
        id: id.into(),
        role: Role::User,
        content: vec![Block::text("Summary.")],
        source: Source::Plugin { plugin: "compact".into(), form: Form::Notice },
    }
}

/// One fact of each type, in an order a log could have, and a plugin's event.
pub(crate) fn every_fact() -> Vec<Fact> {
    let (turn, step) = (1, 1);
    let id = call_id(1, 1, 0);
    let added = |id: &str, lane, wake, replaces: Option<&str>| {
        let replaces = replaces.map(Into::into);
        Fact::InboxAdded(InboxAdded { message: Message::user(id, "Hello"), lane, wake, replaces })
    };
    let failure = Failure {
        status: Some(429),
        retry_after_ms: Some(500),
        request_id: Some("q".into()),
        raw: Some("{\"error\":1}".into()),
        ..Failure::new(code::RATE_LIMIT, "too many requests")
    };
    vec![
        Fact::WriterOpened(opened(1)),
        added("m1", Lane::NextTurn, true, None),
        added("m2", Lane::NextStep, false, None),
        added("m3", Lane::NextTurn, true, Some("m2")),
        Fact::InboxRemoved(InboxRemoved { msgs: vec!["m3".into()], why: Removal::Canceled }),
        Fact::TurnStart(TurnStart { turn }),
        Fact::InboxClaimed(InboxClaimed { turn, msgs: vec!["m1".into()] }),
        Fact::SeamChanged(SeamChanged {
            seam: "agent/pre-step".into(),
            plugin: "p".into(),
            what: "rewrote".into(),
        }),
        Fact::StepStart(StepStart { turn, step, admits: 1 }),
        Fact::UserMessage(UserMessage { turn, step, message: Message::user("m1", "Hello") }),
        Fact::RequestHeader(RequestHeader { turn, step, header: header(), reason: HeaderReason::Initial }),
        Fact::RequestContext(context()),
        Fact::RequestAttempt(attempt(1)),
        Fact::RequestFailed(RequestFailed {
            turn,
            step,
            attempt: 1,
            failure,
            next: Next::Recover,
            usage: Some(usage(3, 0)),
        }),
        Fact::RequestRetry(RequestRetry { turn, step, attempt: 1, by: "retry".into(), delay_ms: 500 }),
        Fact::RequestAttempt(attempt(2)),
        Fact::AssistantChunk(AssistantChunk {
            turn,
            step,
            attempt: 2,
            chunk: Chunk::TextDelta { index: 0, text: "Looking.".into() },
        }),
        Fact::AssistantMessage(AssistantMessage {
            turn,
            step,
            attempt: 2,
            message: answer(),
            calls: vec![CallRef { call: id, name: "read".into(), mode: CallMode::Parallel }],
            finish: Finish { kind: FinishKind::ToolCalls, raw: "tool_calls".into() },
            usage: Some(Usage {
                cache_read_tokens: Some(1),
                raw: Some(raw(r#"{"n":18446744073709551616}"#)),
                ..usage(9, 2)
            }),
            sources: vec![[16, 16]],
            interrupted: false,
        }),
        Fact::ApprovalAsked(ApprovalAsked { call: id, what: "read a".into(), choices: vec!["yes".into()] }),
        Fact::ApprovalDecided(ApprovalDecided { call: id, decision: "yes".into(), by: "user".into() }),
        Fact::ToolCall(ToolCall {
            turn,
            step,
            call: id,
            run: 1,
            name: "read".into(),
            arguments: r#"{"path" : "a"}"#.into(),
            effect: EffectClass::Read,
            key: "s/1.1.0".into(),
        }),
        Fact::ToolResult(ToolResult {
            turn,
            step,
            call: id,
            outcome: Outcome::Error,
            content: vec![Block::text("no such file"), Block::Json { value: raw("[1.50,-0.0]") }],
            data: Some(raw(r#"{"exit":1}"#)),
            error: Some(ToolError { name: "read".into(), code: "not-found".into() }),
            concludes: true,
        }),
        Fact::StepEnd(StepEnd { turn, step }),
        Fact::InboxClaimed(InboxClaimed { turn, msgs: vec![] }),
        Fact::InboxReturned(InboxReturned { turn, msgs: vec![], held: true }),
        Fact::TurnCancel(TurnCancel { turn, cause: Cause::User { text: Some("stop".into()) } }),
        Fact::TurnEnd(TurnEnd {
            turn,
            reason: EndReason::Aborted { cause: Cause::Budget { which: "steps".into(), limit: 1 } },
        }),
        Fact::InboxReleased(InboxReleased { msgs: vec!["m9".into()] }),
        Fact::SurfaceReplaced(SurfaceReplaced {
            range: [9, 21],
            message: plugin_message("c1"),
            by: "compact".into(),
        }),
        Fact::Plugin(PluginEvent {
            kind: "x/goal/updated".into(),
            rel: Rel::Context,
            v: 2,
            data: raw(r#"{"b": 1.0, "a": []}"#),
        }),
        Fact::WriterIdle(WriterIdle {}),
    ]
}

pub(crate) fn session() -> SessionHeader {
    SessionHeader {
        kind: SessionTag::Session,
        format: 1,
        id: "s-1".parse().unwrap(),
        created: 1_790_000_000_123,
        cwd: "/w".into(),
        by: "terret 0.1.0".into(),
        parent: None,
        origin: None,
    }
}

#[test]
fn the_samples_cover_the_vocabulary() {
    let samples = every_fact();
    let sampled: BTreeSet<&str> = samples.iter().map(Fact::type_name).collect();
    let mut known: BTreeSet<&str> = Fact::TABLE.iter().map(|(name, _)| *name).collect();
    known.insert("x/goal/updated");
    assert_eq!(sampled, known);
}
