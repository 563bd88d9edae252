//! Consent: what a listener says about a call before it starts, and who is asked when it will not decide alone.

use futures_util::future::BoxFuture;
use terret_core::chunk::Failure;
use terret_core::fact::Outcome;

use crate::call::{Call, Done};

/// The answer of `tools/pre-execute`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may start, if no guard denies it.
    Allow,
    /// It may not; this is its result.
    Deny(Done),
    /// It may start with somebody's consent. Without an [`Approver`] it is denied: silence is never consent.
    Ask(Ask),
}

impl Admission {
    /// A denial: by whom, and a reason the model can act on.
    pub fn deny(by: &str, reason: impl Into<String>) -> Self {
        Admission::Deny(Done::error(by, "denied", reason).with_outcome(Outcome::Denied))
    }
}

/// A question about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What would be done, for the one who decides.
    pub what: String,
    /// The answers offered. Any other answer denies.
    pub choices: Vec<Choice>,
}

impl Ask {
    /// Yes or no: `allow`, `deny`.
    pub fn new(what: impl Into<String>) -> Self {
        let choice = |name: &str, allows| Choice { name: name.to_owned(), allows };
        Ask { what: what.into(), choices: vec![choice("allow", true), choice("deny", false)] }
    }
}

/// An answer that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its word, as the log will have it.
    pub name: String,
    /// Whether the call may start on it. Just this call: what more it means is up to the plugin that asked.
    pub allows: bool,
}

/// Gives or refuses consent to calls, for example by asking a person.
///
/// It is asked once the question is in the log, one call at a time. A cancel drops the question: the future it
/// returned is dropped, and the call never starts.
pub trait Approver: Send + Sync {
    /// Decides. A failure denies the call, and its text is what the model reads.
    fn decide<'a>(&'a self, call: &'a Call, ask: &'a Ask) -> BoxFuture<'a, Result<Decision, Failure>>;
}

/// What an [`Approver`] decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The word of the choice taken.
    pub choice: String,
    /// Who or what decided.
    pub by: String,
}
