//! From a response of a script to what a stream would bring.

use terret_core::chunk::{Chunk, Failure, FinishKind, Usage, code};
use terret_core::message::BlockKind;

use super::parse::{Item, Response};

/// One thing a stream brings, or a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Chunk(Chunk),
    Wait(u64),
    Fail(Failure),
}

/// What the response is played for.
pub(super) struct Scene<'a> {
    /// Number of the response, from 0: how many answers came before it.
    pub(super) number: usize,
    /// Model of the route.
    pub(super) model: &'a str,
    /// Length of the request's body.
    pub(super) body_bytes: usize,
    /// Whether the failure at this position, meant for so many times, happens now.
    pub(super) fails: &'a mut dyn FnMut(usize, u32) -> bool,
}

/// Plays a response: a pure function of the script and the scene.
pub(super) fn play(response: &Response, scene: Scene<'_>) -> Vec<Step> {
    let mut player = Player { steps: Vec::new(), blocks: 0, pace: 0, pieces: 0, output_chars: 0, calls: 0 };
    player.steps.push(Step::Chunk(Chunk::ResponseStart {
        response_id: Some(format!("script-{}", scene.number)),
        model: Some(scene.model.to_owned()),
    }));
    let mut refused = false;
    for (at, item) in response.items.iter().enumerate() {
        match item {
            Item::Say(text) => player.text(BlockKind::Text, text),
            Item::Think(text) => player.text(BlockKind::Reasoning, text),
            Item::Refuse(text) => {
                refused = true;
                player.text(BlockKind::Refusal, text);
            }
            Item::Call(name, arguments) => player.call(scene.number, name, arguments),
            Item::Wait(ms) => player.steps.push(Step::Wait(*ms)),
            Item::Pace(ms) => player.pace = *ms,
            Item::Pieces(chars) => player.pieces = *chars,
            Item::Fail(failure, times) => {
                if (scene.fails)(at, *times) {
                    player.steps.push(Step::Fail(failure.clone()));
                    return player.steps;
                }
            }
        }
    }
    let usage = response.usage.clone().unwrap_or_else(|| Usage {
        // Four bytes a token, as good as any guess.
        input_tokens: (scene.body_bytes as u64).div_ceil(4),
        output_tokens: (player.output_chars as u64).div_ceil(4),
        ..Usage::default()
    });
    player.steps.push(Step::Chunk(Chunk::Usage { usage }));
    if player.blocks == 0 && response.finish.is_none() {
        player.steps.push(Step::Fail(Failure::new(code::EMPTY_RESPONSE, "the answer is empty")));
        return player.steps;
    }
    let (reason, raw) = match response.finish {
        Some(FinishKind::ToolCalls) => (FinishKind::ToolCalls, "tool_calls"),
        Some(FinishKind::MaxTokens) => (FinishKind::MaxTokens, "length"),
        Some(FinishKind::ContentFilter) => (FinishKind::ContentFilter, "content_filter"),
        Some(FinishKind::Stop) => (FinishKind::Stop, "stop"),
        Some(other) => (other, "script"),
        None if refused => (FinishKind::Refusal, "stop"),
        None if player.calls > 0 => (FinishKind::ToolCalls, "tool_calls"),
        None => (FinishKind::Stop, "stop"),
    };
    player.steps.push(Step::Chunk(Chunk::Finish { reason, raw: raw.to_owned() }));
    player.steps
}

struct Player {
    steps: Vec<Step>,
    blocks: u32,
    pace: u64,
    /// Characters in a delta; 0 for a word.
    pieces: usize,
    output_chars: usize,
    calls: usize,
}

impl Player {
    fn text(&mut self, kind: BlockKind, text: &str) {
        let index = self.start(kind, None, None);
        for piece in self.split(text) {
            let chunk = match kind {
                BlockKind::Reasoning => Chunk::ReasoningDelta { index, text: piece, channel: None },
                BlockKind::Refusal => Chunk::RefusalDelta { index, text: piece },
                _ => Chunk::TextDelta { index, text: piece },
            };
            self.delta(chunk);
        }
    }

    fn call(&mut self, number: usize, name: &str, arguments: &str) {
        let id = format!("call_{number}_{}", self.calls);
        self.calls += 1;
        let index = self.start(BlockKind::ToolCall, Some(id), Some(name.to_owned()));
        for arguments_delta in self.split(arguments) {
            self.delta(Chunk::ToolCallDelta { index, arguments_delta, id: None, name: None });
        }
    }

    fn start(&mut self, block_type: BlockKind, id: Option<String>, name: Option<String>) -> u32 {
        let index = self.blocks;
        self.blocks += 1;
        self.steps.push(Step::Chunk(Chunk::BlockStart { index, block_type, id, name }));
        index
    }

    fn delta(&mut self, chunk: Chunk) {
        if self.pace > 0 {
            self.steps.push(Step::Wait(self.pace));
        }
        self.steps.push(Step::Chunk(chunk));
    }

    fn split(&mut self, text: &str) -> Vec<String> {
        self.output_chars += text.chars().count();
        if self.pieces == 0 {
            return text.split_inclusive(' ').map(str::to_owned).collect();
        }
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(self.pieces).map(|piece| piece.iter().collect()).collect()
    }
}
