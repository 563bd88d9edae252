//! The tools the model of a page may call: they differ in what running them twice would mean, and do what
//! their arguments say.

use std::time::Duration;

use terret::core::fact::{CallMode, EffectClass, Outcome};
use terret::tool::{Call, Done, FunctionTool, tool_with_call};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    /// What to do it with.
    what: String,
    /// How long to take.
    #[serde(default)]
    ms: u64,
    /// Fail, and say this.
    fail: Option<String>,
    /// Say that the turn's work is done.
    #[serde(default)]
    done: bool,
    /// What to end with when asked to stop: `ok` or `aborted`; deaf if not given.
    stop: Option<String>,
}

/// `look`, `note`, `pay` and `make`.
pub(crate) fn all() -> [FunctionTool; 4] {
    [
        tool("look", EffectClass::Read, CallMode::Parallel),
        tool("note", EffectClass::Idempotent, CallMode::Parallel),
        tool("pay", EffectClass::Keyed, CallMode::Exclusive),
        tool("make", EffectClass::Unsafe, CallMode::Exclusive),
    ]
}

fn tool(name: &'static str, effect: EffectClass, mode: CallMode) -> FunctionTool {
    let run = move |arguments: Arguments, mut call: Call| async move {
        let work = tokio::time::sleep(Duration::from_millis(arguments.ms));
        let Some(stop) = arguments.stop else {
            work.await;
            return match arguments.fail {
                Some(why) => Done::error(name, "failed", why),
                None => Done { concludes: arguments.done, ..Done::ok(format!("{name}: {}", arguments.what)) },
            };
        };
        tokio::select! {
            () = work => Done::ok(format!("{name}: {}", arguments.what)),
            () = call.stopped() => {
                let outcome = if stop == "ok" { Outcome::Ok } else { Outcome::Aborted };
                Done::notice(outcome, format!("{name}: stopped half way"))
            }
        }
    };
    tool_with_call(name, "Does what its arguments say.", run).effect(effect).mode(mode)
}
