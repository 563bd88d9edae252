//! A tool from an async closure.

use std::fmt::Display;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use terret_core::fact::{CallMode, EffectClass, ToolSpec};
use terret_core::message::Block;
use terret_core::raw::Raw;

use super::arguments::{parse_args, parse_text, schema};
use super::{Call, Done, Started, Tool};

/// Makes a tool from an async closure over its arguments.
///
/// The closure answers with `Result<R, E>` (text, or anything that serialises; the error's sentence is what
/// the model reads) or with [`Done`] itself. Without more said the tool is taken to be unsafe to repeat and
/// runs alone: see [`FunctionTool::effect`] and [`FunctionTool::mode`].
///
/// ```
/// use terret::tool::tool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     /// First number.
///     a: i64,
///     /// Second number.
///     b: i64,
/// }
///
/// let add = tool("add", "Adds two numbers.", |args: Add| async move {
///     args.a.checked_add(args.b).ok_or("the sum is too large")
/// });
/// ```
pub fn tool<A, F, Fut>(name: &str, description: &str, f: F) -> FunctionTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoDone,
{
    tool_with_call(name, description, move |args, _| f(args))
}

/// The same for a closure that also wants the call: its id, key, working directory, permissions, stop sign.
pub fn tool_with_call<A, F, Fut>(name: &str, description: &str, f: F) -> FunctionTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, Call) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoDone,
{
    let f = Arc::new(f);
    let run = move |call: Call| -> BoxFuture<'static, Done> {
        let f = Arc::clone(&f);
        Box::pin(async move {
            let name = call.name.clone();
            match parse_args(&call) {
                Ok(args) => f(args, call).await.into_done(&name),
                Err(done) => done,
            }
        })
    };
    FunctionTool {
        spec: ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: schema::<A>(),
        },
        effect: EffectClass::Unsafe,
        mode: CallMode::Exclusive,
        check: |name, arguments| parse_text::<A>(name, arguments).map(drop),
        run: Box::new(run),
    }
}

/// What a tool's closure may answer with.
pub trait IntoDone {
    /// The answer of the tool of this name.
    fn into_done(self, tool: &str) -> Done;
}

impl IntoDone for Done {
    fn into_done(self, _tool: &str) -> Done {
        self
    }
}

impl<R: Serialize, E: Display> IntoDone for Result<R, E> {
    fn into_done(self, tool: &str) -> Done {
        match self {
            Ok(value) => match Raw::from_value(&value) {
                Ok(json) => answer(json),
                Err(error) => Done::error(tool, "unserialisable", format!("the result is no JSON: {error}")),
            },
            Err(error) => Done::error(tool, "failed", error.to_string()),
        }
    }
}

/// Text stays text, `()` says that it is done, everything else is a JSON block.
fn answer(json: Raw) -> Done {
    if let Ok(text) = serde_json::from_str::<String>(json.get()) {
        return Done::ok(text);
    }
    if json.get() == "null" {
        return Done::ok("done");
    }
    Done { content: vec![Block::Json { value: json }], ..Done::ok("") }
}

type Run = dyn Fn(Call) -> BoxFuture<'static, Done> + Send + Sync;

/// A tool made by [`tool`] or [`tool_with_call`].
pub struct FunctionTool {
    spec: ToolSpec,
    effect: EffectClass,
    mode: CallMode,
    check: fn(&str, &str) -> Result<(), Done>,
    run: Box<Run>,
}

impl FunctionTool {
    /// Says what running it twice would mean.
    pub fn effect(self, effect: EffectClass) -> Self {
        FunctionTool { effect, ..self }
    }

    /// Says whether it may run beside others.
    pub fn mode(self, mode: CallMode) -> Self {
        FunctionTool { mode, ..self }
    }
}

impl Tool for FunctionTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn effect(&self) -> EffectClass {
        self.effect
    }

    fn mode(&self, arguments: &str) -> CallMode {
        match (self.check)(&self.spec.name, arguments) {
            Ok(()) => self.mode,
            Err(_) => CallMode::Exclusive,
        }
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        (self.check)(&call.name, &call.arguments)
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        (self.run)(started.into_call())
    }
}

#[cfg(test)]
mod tests;
