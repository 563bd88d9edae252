//! A model that reads its lines from a script: for demonstrations, tests and benchmarks. No key, no network.
//!
//! A script is a text file, one directive a line; `---` separates responses:
//!
//! ```text
//! # What a line may say.
//! think Let me see.             reasoning
//! say Looking around.           text; lines one after the other are lines of one text
//! call shell {"command": "ls"}  a call with its raw arguments
//! usage input=10 output=5       token counts; estimated if absent
//! wait 200                      a pause in milliseconds
//! ---
//! fail RATE_LIMIT times=2 status=429 retry_after_ms=100 slow down
//! say Better now.
//! ```
//!
//! **Which response is played** depends on the request alone: with n answers of the model in it, response n,
//! counted from 0, and past the last one from the first again. So a resumed session goes on where it was. With
//! `restart prompt` only the answers after the last prompt count. A failure happens the first `times` times its
//! response is asked for, counted by the adapter: a new process fails again.
//!
//! The whole format: `docs/reference/script-format.md`.

pub mod codec;
pub mod parse;
mod play;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use terret_core::chunk::{Chunk, Failure, code};
use terret_core::raw::Raw;

use self::parse::{Script, parse};
use self::play::{Scene, Step, play};
use super::{Adapter, ChunkStream, Outgoing, Prepared, Proposal};
use crate::limits::MAX_SCRIPT_BYTES;

/// Plays scripts: the model of the route is `demo`, or the path of a script file.
#[derive(Default)]
pub struct ScriptAdapter {
    scripts: Mutex<HashMap<String, Arc<Script>>>,
    /// How often a failure has happened, by script, response and place in it.
    failed: Mutex<HashMap<(String, usize, usize), u32>>,
}

impl ScriptAdapter {
    /// A player with no script read yet.
    pub fn new() -> Self {
        ScriptAdapter::default()
    }

    /// Plays `text` for the route `script:NAME`, so that a program needs no file.
    pub fn with(self, name: &str, text: &str) -> Result<Self, Failure> {
        let script = Arc::new(checked(name, text)?);
        lock(&self.scripts).insert(name.to_owned(), script);
        Ok(self)
    }

    /// The script of this name, read once.
    fn script(&self, model: &str) -> Result<Arc<Script>, Failure> {
        let mut scripts = lock(&self.scripts);
        if let Some(script) = scripts.get(model) {
            return Ok(script.clone());
        }
        let text = if model == "demo" { DEMO.to_owned() } else { read(model)? };
        let script = Arc::new(checked(model, &text)?);
        scripts.insert(model.to_owned(), script.clone());
        Ok(script)
    }

    fn steps(&self, request: &Outgoing) -> Result<Vec<Step>, Failure> {
        let model = &request.header().model;
        let script = self.script(model)?;
        let number = codec::answers(request.body(), script.restart_at_prompt).map_err(|error| {
            Failure::new(code::INVALID_REQUEST, format!("the body is not one of {}: {error}", codec::NAME))
        })?;
        let response = &script.responses[number % script.responses.len()];
        let mut fails = |at: usize, times: u32| {
            let mut failed = lock(&self.failed);
            let count = failed.entry((model.clone(), number, at)).or_default();
            let now = *count < times;
            *count = count.saturating_add(u32::from(now));
            now
        };
        let body_bytes = request.body().len();
        Ok(play(response, Scene { number, model, body_bytes, fails: &mut fails }))
    }
}

fn checked(name: &str, text: &str) -> Result<Script, Failure> {
    parse(text).map_err(|mistake| {
        Failure::new(code::INVALID_REQUEST, format!("the script {name} has a mistake in {mistake}"))
    })
}

const DEMO: &str = include_str!("demo.script");

impl Adapter for ScriptAdapter {
    fn prepare(&self, proposal: &Proposal) -> Result<Prepared, Failure> {
        let script = self.script(&proposal.model)?;
        Ok(Prepared {
            wire: codec::NAME.to_owned(),
            dialect: Raw::string("script"),
            parameters: proposal.parameters.clone(),
            defaults: Vec::new(),
            context_window: script.context_window,
        })
    }

    fn stream(&self, request: Outgoing) -> ChunkStream {
        let steps = self.steps(&request).unwrap_or_else(|failure| vec![Step::Fail(failure)]);
        stream::unfold(steps.into_iter().peekable(), |mut steps| async move {
            let mut batch: Vec<Chunk> = Vec::new();
            loop {
                match steps.next_if(|step| batch.is_empty() || matches!(step, Step::Chunk(_))) {
                    Some(Step::Chunk(chunk)) => batch.push(chunk),
                    Some(Step::Wait(ms)) => tokio::time::sleep(Duration::from_millis(ms)).await,
                    Some(Step::Fail(failure)) => return Some((Err(failure), steps)),
                    None if batch.is_empty() => return None,
                    None => return Some((Ok(batch), steps)),
                }
            }
        })
        .boxed()
    }
}

fn read(path: &str) -> Result<String, Failure> {
    let failure = |error: std::io::Error| {
        Failure::new(code::NOT_FOUND, format!("the script {path} cannot be read: {error}"))
    };
    let length = std::fs::metadata(path).map_err(failure)?.len();
    if length > MAX_SCRIPT_BYTES {
        let message = format!("the script {path} is larger than {} MiB", MAX_SCRIPT_BYTES >> 20);
        return Err(Failure::new(code::INVALID_REQUEST, message));
    }
    std::fs::read_to_string(path).map_err(failure)
}

/// The maps hold whole values only, so one left by a panicking thread is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
