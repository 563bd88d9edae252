//! Everything that may happen next.

use terret_core::chunk::{FinishKind, code};
use terret_core::effect::Effect;
use terret_core::fact::{ApprovalAsked, ApprovalDecided, EffectClass, Lane, Outcome, Removal};
use terret_core::id::CallId;
use terret_core::input::{Answer, Input, Record, Recovery, Send, Settled};
use terret_core::message::{Block, Message};

use super::node::Node;
use super::{Left, Scope};
use crate::harness::{
    admitted, broken, calls, close, enter, failed, finished, prepared, ran, reject, resume, said, send,
    settled,
};

/// Messages. They move nothing that their claim does not show.
pub(super) const PROMPT: &str = "a prompt";
pub(super) const STEER: &str = "a steer";
pub(super) const CONTEXT: &str = "context";
pub(super) const EDIT: &str = "an edit";
pub(super) const RELEASE: &str = "a release";
pub(super) const REMOVE: &str = "a removal";
pub(super) const IDLE: &str = "idle";
pub(super) const REST: &str = "put away";

/// Whether an answer is the plainest one, or takes the turn another way.
type Detour = bool;

/// What may happen, in the words of the reference, and what is left after it.
pub(super) fn inputs(node: &Node, scope: &Scope) -> Vec<(&'static str, Input, Left)> {
    let mut out = Vec::new();
    let left = node.left;
    mail(node, scope, &mut out);
    if node.machine.suspended() {
        out.push(("close", close(), left));
        out.push(("resume the turn", resume(), left));
        if scope.classes.contains(&EffectClass::Keyed) {
            let calls = node.machine.state().turn().map(|turn| turn.calls()).unwrap_or_default();
            let keyed = calls.iter().map(|call| call.id).collect();
            let recovery = Recovery::ResumeTurn { keyed };
            out.push(("resume the turn, keys honoured", Input::Recover(recovery), left));
        }
    }
    for effect in node.effects() {
        if let (Effect::Admit { call, run: 1 }, true) = (&effect, scope.consent) {
            out.extend(consent(node, *call));
        }
        for (name, answer, detour) in answers(node, &effect, scope) {
            let detours = left.detours.checked_sub(u8::from(detour));
            if let Some(detours) = detours {
                out.push((name, Input::Answer(effect.question(), answer), Left { detours, ..left }));
            }
        }
    }
    out
}

fn mail(node: &Node, scope: &Scope, out: &mut Vec<(&'static str, Input, Left)>) {
    let left = node.left;
    let id = node.fresh_id(0);
    if let Some(prompts) = left.prompts.checked_sub(1) {
        out.push((PROMPT, send(&id, Lane::NextTurn, true), Left { prompts, ..left }));
    }
    if let Some(steers) = left.steers.checked_sub(1) {
        out.push((STEER, send(&id, Lane::NextStep, true), Left { steers, ..left }));
    }
    if let Some(injects) = left.injects.checked_sub(1) {
        out.push((CONTEXT, send(&id, Lane::NextStep, false), Left { injects, ..left }));
    }
    if let Some(edits) = left.edits.checked_sub(1) {
        for old in node.machine.state().inbox().iter() {
            let message = Message::user(&*id, "better");
            let (lane, wake) = (old.lane, old.wake);
            let send = Send { message, lane, wake, replaces: Some(old.id.clone()) };
            out.push((EDIT, Input::Send(send), Left { edits, ..left }));
        }
    }
    if node.machine.state().turn().is_none() {
        out.push((IDLE, Input::Idle, left));
    }
    if scope.left.edits > 0 {
        out.push((REST, Input::Rest, left));
    }
    let msgs: Vec<_> = node.machine.state().inbox().iter().map(|p| p.id.clone()).collect();
    if let (Some(releases), false) = (left.releases.checked_sub(1), msgs.is_empty()) {
        let left = Left { releases, ..left };
        out.push((RELEASE, Input::Release { msgs: msgs.clone() }, left));
        out.push((REMOVE, Input::Remove { msgs, why: Removal::Canceled }, left));
    }
    if let (Some(cancels), Some(_)) = (left.cancels.checked_sub(1), node.machine.state().turn()) {
        for cause in (scope.causes)() {
            out.push(("cancel", Input::Cancel { cause }, Left { cancels, ..left }));
        }
    }
}

/// Every kind of answer to a question.
fn answers(node: &Node, effect: &Effect, scope: &Scope) -> Vec<(&'static str, Answer, Detour)> {
    match effect {
        Effect::PreStep { batch, .. } => {
            let batch: Vec<&str> = batch.iter().map(|id| &*id.0).collect();
            let extended = [&["x"][..], &batch].concat();
            let mut out = vec![
                ("these messages", enter(&extended), true),
                ("rejected, to be kept", reject(true), true),
                ("rejected", reject(false), true),
                ("failed", broken(code::HOOK), true),
            ];
            match batch.is_empty() {
                true => out.push(("none", enter(&[]), false)),
                false => out.extend([("these messages", enter(&batch), false), ("none", enter(&[]), true)]),
            }
            out
        }
        Effect::Prepare { .. } => {
            vec![("ready", prepared(), false), ("failed", broken(code::HOOK), true)]
        }
        Effect::Stream { turn, step, .. } => {
            let text = |kind| finished(kind, vec![Block::text("x")], &[]);
            let mut out = vec![
                ("all of it", text(FinishKind::Stop), false),
                ("all of it, cut by the output limit", text(FinishKind::MaxTokens), true),
                ("a refusal", text(FinishKind::Refusal), true),
                ("a piece", said("x"), true),
                ("the provider failed", failed(code::SERVER), true),
                ("a hook failed", broken(code::RECONSTRUCTION), true),
            ];
            if *step <= scope.rounds {
                for modes in scope.calls {
                    out.push(("calls", calls((*turn, *step), FinishKind::ToolCalls, modes), false));
                }
                out.push(("a pause", text(FinishKind::Pause), true));
            }
            out
        }
        Effect::Recover { attempt, .. } => {
            let mut out = vec![("nobody", Answer::GiveUp, false), ("failed", broken(code::HOOK), true)];
            if *attempt < scope.attempts {
                out.push(("try again", Answer::Retry { by: "retry".into(), delay_ms: 1 }, false));
            }
            out
        }
        Effect::Admit { .. } => {
            let yes = |class: &EffectClass| ("yes", admitted(*class), *class != EffectClass::Unsafe);
            let no = ("no", Answer::Refused(Settled::notice(Outcome::Denied, "no")), true);
            scope.classes.iter().map(yes).chain([no]).collect()
        }
        Effect::Run { call, .. } => {
            let mut out = vec![
                ("a result", ran(), false),
                (
                    "a result that concludes",
                    settled(Settled { concludes: true, ..Settled::ok("done") }),
                    true,
                ),
                (
                    "a result",
                    settled(Settled { concludes: true, ..Settled::notice(Outcome::Error, "no") }),
                    true,
                ),
            ];
            if call.step <= scope.rounds {
                let contexts = vec![Message::user(&*node.fresh_id(0), "context")];
                let settled = Settled { concludes: true, ..Settled::ok("ran") };
                out.push(("a result with context", Answer::Settled { settled, contexts }, true));
            }
            out
        }
        Effect::Stopping { .. } => {
            vec![("all have voted", Answer::Voted, false), ("a vote failed", broken(code::HOOK), true)]
        }
    }
}

/// Consent for a call that is judged: asked for, then given.
fn consent(node: &Node, call: CallId) -> Option<(&'static str, Input, Left)> {
    let words = String::new;
    let record = |record| Input::Record(record);
    match node.monitor.consent(call) {
        (false, _) => {
            let asked = ApprovalAsked { call, what: words(), choices: vec![] };
            let detours = node.left.detours.checked_sub(1)?;
            Some(("consent is asked", record(Record::Asked(asked)), Left { detours, ..node.left }))
        }
        (true, false) => {
            let decided = ApprovalDecided { call, decision: words(), by: words() };
            Some(("consent is given", record(Record::Decided(decided)), node.left))
        }
        (true, true) => None,
    }
}
