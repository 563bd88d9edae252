//! The fake model: answers of every shape, late, torn, failing, silent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use terret::Models;
use terret::core::chunk::{Chunk, Failure, FinishKind, Usage, code};
use terret::core::message::BlockKind;
use terret::core::raw::Raw;
use terret::model::{Adapter, ChunkStream, Outgoing, Prepared, Proposal};

use crate::quiet::panic_as_planned;
use crate::reached::Situation;
use crate::tools;
use crate::world::{State, World};

/// Routes of the fake provider; one more is served by plugins, and one by nobody.
pub(crate) const ROUTES: [(&str, &str); 3] = [("sim", "large"), ("sim", "small"), ("other", "large")];
/// The provider that plugins serve.
pub(crate) const SERVED: &str = "served";
/// A provider that nobody serves.
pub(crate) const NOBODY: &str = "nobody";

/// Every failure a provider or its transport may report.
const CODES: [&str; 19] = [
    code::RATE_LIMIT,
    code::OVERLOADED,
    code::SERVER,
    code::TIMEOUT,
    code::TLS,
    code::TRANSPORT,
    code::STREAM_CLOSED,
    code::MALFORMED_RESPONSE,
    code::EMPTY_RESPONSE,
    code::CONTEXT_WINDOW_EXCEEDED,
    code::REQUEST_TOO_LARGE,
    code::QUOTA,
    code::AUTH,
    code::PERMISSION,
    code::NOT_FOUND,
    code::INVALID_REQUEST,
    code::CONTENT_FILTER,
    code::PROVIDER_ERROR,
    code::UNKNOWN,
];

/// The providers.
pub(crate) struct SimModels(pub(crate) World);

impl Models for SimModels {
    fn adapter(&self, provider: &str) -> Result<Arc<dyn Adapter>, Failure> {
        match ROUTES.iter().any(|(name, _)| *name == provider) {
            true => Ok(Arc::new(SimAdapter(self.0.clone()))),
            false => Err(Failure::new(code::NO_ADAPTER, format!("nobody serves {provider}"))),
        }
    }
}

struct SimAdapter(World);

impl Adapter for SimAdapter {
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure> {
        let mut state = self.0.lock();
        let odds = state.temper.hook_acts / 8;
        if state.trouble(odds) {
            return Err(Failure::new(code::INVALID_REQUEST, "the adapter does not take this"));
        }
        let mut parameters = proposal.parameters.clone();
        let derived = !parameters.contains_key("max_output_tokens");
        if derived {
            let tokens = if proposal.model == "large" { "2000" } else { "200" };
            parameters
                .insert("max_output_tokens".into(), Raw::parse(tokens).unwrap_or_else(|_| Raw::string("")));
        }
        Ok(Prepared {
            wire: "script@1".to_owned(),
            dialect: Raw::string("sim"),
            parameters,
            defaults: derived.then(|| "max_output_tokens".to_owned()).into_iter().collect(),
            context_window: Some(100_000),
        })
    }

    fn stream(&self, request: Outgoing) -> ChunkStream {
        answer(&self.0, &request)
    }
}

/// One beat of an answer.
enum Beat {
    Wait(u64),
    Say(Vec<Chunk>),
    Fail(Failure),
    Panic,
    Hang,
}

/// What comes back for a request.
pub(crate) fn answer(world: &World, request: &Outgoing) -> ChunkStream {
    world.step("as a request is sent");
    let mut state = world.lock();
    let place = state.requested(request.header(), request.body()).unwrap_or_default();
    let beats = beats(&mut state);
    drop(state);
    let open = Open { world: world.clone(), place, over: false };
    stream::unfold((beats, open), |(mut beats, mut open)| async move {
        while let Some(beat) = beats.pop_front() {
            open.look();
            match beat {
                Beat::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                Beat::Say(chunks) => return Some((Ok(chunks), (beats, open))),
                Beat::Fail(failure) => {
                    open.over = true;
                    return Some((Err(failure), (VecDeque::new(), open)));
                }
                Beat::Panic => {
                    open.ends();
                    panic_as_planned()
                }
                Beat::Hang => std::future::pending().await,
            }
            open.look();
        }
        open.ends();
        None
    })
    .boxed()
}

/// A stream that must be dropped when its attempt is closed.
struct Open {
    world: World,
    place: (u32, u32, u32),
    over: bool,
}

impl Open {
    fn ends(mut self) {
        self.over = true;
    }

    fn look(&self) {
        let streaming = self.world.lock().is_streaming(self.place);
        if !streaming {
            self.world.broken(format!("the stream of {:?} goes on though its attempt is closed", self.place));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        if !self.over && !state.dead {
            state.reached.count(Situation::LateAnswer);
        }
    }
}

fn beats(state: &mut State) -> VecDeque<Beat> {
    let mut beats = VecDeque::new();
    let wait = if state.calm { 1 } else { state.dice.wait_ms() };
    beats.push_back(Beat::Wait(wait));
    let (chunks, finish) = speech(state);
    let chunks = if finish { chunks } else { without_finish(state, chunks) };
    let mut batch = Vec::new();
    for chunk in chunks {
        batch.push(chunk);
        if state.dice.below(3) == 0 {
            beats.push_back(Beat::Say(std::mem::take(&mut batch)));
            if state.dice.below(3) == 0 && !state.calm {
                beats.push_back(Beat::Wait(state.dice.wait_ms()));
            }
        }
    }
    if !batch.is_empty() {
        beats.push_back(Beat::Say(batch));
    }
    trouble(state, &mut beats);
    beats
}

/// Cuts the answer somewhere, and says how.
fn trouble(state: &mut State, beats: &mut VecDeque<Beat>) {
    let (fails, hangs) = (state.temper.model_fails, state.temper.model_hangs);
    let end = if state.trouble(hangs) {
        state.reached.count(Situation::ModelHung);
        Beat::Hang
    } else if state.trouble(fails / 10) {
        state.reached.count(Situation::ModelPanicked);
        Beat::Panic
    } else if state.trouble(fails) {
        let code = *state.dice.pick(&CODES);
        let mut failure = Failure::new(code, "the model failed");
        if state.dice.below(4) == 0 {
            failure.retry_after_ms = Some(state.dice.within(0..90_000));
        }
        Beat::Fail(failure)
    } else {
        return;
    };
    let keep = 1 + state.dice.part(beats.len() - 1);
    beats.truncate(keep);
    if keep > 2 {
        state.reached.count(Situation::Midway);
    }
    beats.push_back(end);
}

fn without_finish(state: &mut State, mut chunks: Vec<Chunk>) -> Vec<Chunk> {
    state.reached.count(Situation::NoFinish);
    chunks.pop();
    chunks
}

/// A whole answer, and whether its finish comes through.
fn speech(state: &mut State) -> (Vec<Chunk>, bool) {
    let mut chunks = vec![Chunk::ResponseStart { response_id: None, model: None }];
    let mut index = 0;
    let text = format!("answer {} ", state.fresh());
    if state.calm {
        say(&mut chunks, &mut index, BlockKind::Text, &text);
        chunks.push(Chunk::Finish { reason: FinishKind::Stop, raw: "stop".into() });
        return (chunks, true);
    }
    if state.dice.below(4) == 0 {
        say(&mut chunks, &mut index, BlockKind::Reasoning, "let me think about this");
    }
    if state.dice.below(5) > 0 {
        say(&mut chunks, &mut index, BlockKind::Text, &text.repeat(1 + state.dice.below(4) as usize));
    }
    let odds = state.temper.model_calls;
    let calls = if state.trouble(odds) { state.dice.below(5) } else { 0 };
    for n in 0..calls {
        call(state, &mut chunks, index + n, n);
    }
    if state.dice.half() {
        let tokens = u64::from(state.dice.below(200));
        let usage = Usage { input_tokens: tokens, output_tokens: 20, ..Usage::default() };
        chunks.push(Chunk::Usage { usage });
    }
    let reason = finish(state, calls > 0);
    chunks.push(Chunk::Finish { reason, raw: format!("{reason:?}") });
    let odds = state.temper.model_fails / 5;
    let whole = !state.trouble(odds);
    (chunks, whole)
}

fn finish(state: &mut State, calls: bool) -> FinishKind {
    match state.dice.below(40) {
        0..=1 => FinishKind::MaxTokens,
        2 => FinishKind::Pause,
        3 => FinishKind::Refusal,
        4 => FinishKind::ContentFilter,
        5 => FinishKind::ContextWindow,
        6 => FinishKind::Other,
        _ if calls => FinishKind::ToolCalls,
        _ => FinishKind::Stop,
    }
}

fn say(chunks: &mut Vec<Chunk>, index: &mut u32, block_type: BlockKind, text: &str) {
    let at = *index;
    *index += 1;
    chunks.push(Chunk::BlockStart { index: at, block_type, id: None, name: None });
    for word in text.split_inclusive(' ') {
        let text = word.to_owned();
        chunks.push(match block_type {
            BlockKind::Reasoning => Chunk::ReasoningDelta { index: at, text, channel: None },
            _ => Chunk::TextDelta { index: at, text },
        });
    }
    chunks.push(Chunk::BlockEnd { index: at, block: None });
}

fn call(state: &mut State, chunks: &mut Vec<Chunk>, index: u32, n: u32) {
    let unknown = state.dice.below(20) == 0;
    let name = if unknown { "absent" } else { state.dice.pick(&tools::ALL).name };
    let (id, name) = (Some(format!("call_{n}")), Some(name.to_owned()));
    let block_type = BlockKind::ToolCall;
    chunks.push(Chunk::BlockStart { index, block_type, id: id.clone(), name: name.clone() });
    let broken = state.dice.below(20) == 0;
    let note = state.dice.below(1000);
    let arguments = if broken { "{\"note\":".to_owned() } else { format!("{{\"note\":{note}}}") };
    let (start, end) = arguments.split_at(arguments.len() / 2);
    for piece in [start, end] {
        let arguments_delta = piece.to_owned();
        chunks.push(Chunk::ToolCallDelta { index, arguments_delta, id: None, name: None });
    }
    chunks.push(Chunk::BlockEnd { index, block: None });
}
