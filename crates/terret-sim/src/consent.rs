//! Consent: who is asked, what is answered, and that no call starts on less.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::core::chunk::{Failure, code};
use terret::core::fact::{ApprovalDecided, Fact};
use terret::core::id::CallId;
use terret::hook::{Approver, Ask, Choice, Decision};
use terret::tool::Call;

use crate::ask::Asked;
use crate::quiet::panic_as_planned;
use crate::reached::Situation;
use crate::world::{State, World};

/// What was asked and said in one process.
#[derive(Default)]
pub(crate) struct Consents {
    /// Calls that a plugin lets start with consent only, and the words that give it.
    demanded: BTreeMap<CallId, Vec<String>>,
    /// What was answered last.
    said: Option<(CallId, String)>,
}

/// Whoever is asked: allows, refuses, mumbles, fails, or never answers.
pub(crate) struct Boss(pub(crate) World);

enum Mood {
    Says(String),
    Fails,
    Panics,
    Silent,
}

/// A question nobody answered yet.
struct Open<'a>(&'a World);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.dead {
            state.reached.count(Situation::CrashedInConsent);
        }
    }
}

impl Boss {
    fn mood(&self, ask: &Ask) -> (Duration, Mood) {
        let mut state = self.0.lock();
        // People take their time.
        let wait = state.dice.wait_ms() + state.dice.wait_ms();
        let mood = match state.dice.below(12) {
            0 => Mood::Fails,
            1 => Mood::Panics,
            2 => Mood::Silent,
            3 => Mood::Says("perhaps".to_owned()),
            _ => Mood::Says(state.dice.pick(&ask.choices).name.clone()),
        };
        (Duration::from_millis(wait), mood)
    }
}

impl Approver for Boss {
    fn decide<'a>(&'a self, call: &'a Call, ask: &'a Ask) -> BoxFuture<'a, Result<Decision, Failure>> {
        let world = &self.0;
        let work = async move {
            let _open = Open(world);
            world.lock().is_asked(call.id);
            let (wait, mood) = self.mood(ask);
            world.step("as somebody is asked for consent");
            tokio::time::sleep(wait).await;
            world.step("as somebody consents");
            match mood {
                Mood::Says(choice) => {
                    world.lock().says(call.id, ask, &choice);
                    Ok(Decision { choice, by: "boss".to_owned() })
                }
                Mood::Fails => {
                    world.count(Situation::ConsentFailed);
                    Err(Failure::new(code::HOOK, "the boss is out"))
                }
                Mood::Panics => {
                    world.count(Situation::ConsentFailed);
                    panic_as_planned()
                }
                Mood::Silent => {
                    world.count(Situation::ConsentSilent);
                    std::future::pending().await
                }
            }
        };
        Asked::new(world, "consent", call.id.turn, work.boxed()).boxed()
    }
}

impl State {
    /// A plugin's question about this call; from here on it starts with consent only.
    pub(crate) fn demand_consent(&mut self, call: &Call) -> Ask {
        let mut ask = Ask::new(format!("May {} run?", call.name));
        if self.dice.half() {
            ask.choices.push(Choice { name: "always".to_owned(), allows: true });
        }
        let words = ask.choices.iter().filter(|choice| choice.allows).map(|choice| choice.name.clone());
        self.consents.demanded.insert(call.id, words.collect());
        ask
    }

    /// Somebody is shown the question: it is in the log, and not answered there.
    fn is_asked(&mut self, call: CallId) {
        let asked = |fact: &Fact| matches!(fact, Fact::ApprovalAsked(asked) if asked.call == call);
        let last = self.witness.last(|fact| about(fact) == Some(call));
        if !last.is_some_and(|at| asked(&self.witness.events[at].fact)) {
            self.fault(format!("somebody is asked about call {call}, and the log does not say so"));
        }
        if self.witness.events.iter().filter(|event| asked(&event.fact)).count() > 1 {
            self.reached.count(Situation::AskedAgain);
        }
    }

    fn says(&mut self, call: CallId, ask: &Ask, word: &str) {
        let choice = ask.choices.iter().find(|choice| choice.name == word);
        self.reached.count(match choice {
            Some(Choice { allows: true, .. }) => Situation::Consented,
            Some(Choice { allows: false, .. }) => Situation::ConsentRefused,
            None => Situation::ConsentMumbled,
        });
        self.consents.said = Some((call, word.to_owned()));
    }

    /// An answer reaches the log.
    pub(crate) fn check_decided(&mut self, decided: &ApprovalDecided) {
        let ApprovalDecided { call, decision, .. } = decided;
        if self.consents.said.as_ref() != Some(&(*call, decision.clone())) {
            self.fault(format!("`{decision}` is recorded for call {call}, and nobody said that"));
        }
    }

    /// A call starts for the first time: where consent was demanded it was given, before its `tool/call`.
    pub(crate) fn check_consent(&mut self, call: CallId, started: usize) {
        let Some(words) = self.consents.demanded.get(&call) else { return };
        let last = self.witness.events[..started].iter().rfind(|event| about(&event.fact) == Some(call));
        let given = matches!(last.map(|event| &event.fact), Some(Fact::ApprovalDecided(d)) if words.contains(&d.decision));
        if !given {
            self.fault(format!("call {call} starts, and nobody consented"));
        }
    }
}

/// The call an event of consent is about.
fn about(fact: &Fact) -> Option<CallId> {
    match fact {
        Fact::ApprovalAsked(asked) => Some(asked.call),
        Fact::ApprovalDecided(decided) => Some(decided.call),
        _ => None,
    }
}
