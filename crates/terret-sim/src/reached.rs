//! What happened in the fake world, counted: a toy simulation would show.

use terret::core::chunk::FinishKind;
use terret::core::fact::{Cause, EndReason, Fact, Outcome};

macro_rules! situations {
    ($( $situation:ident $words:literal; )*) => {
        /// Something a run may come to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Situation { $( #[doc = $words] $situation, )* }

        /// All of them, in words.
        const WORDS: &[&str] = &[$( $words, )*];
    };
}

situations! {
    Killed "the process was killed";
    PowerCut "the power was cut";
    LostLines "a crash lost lines that no sync covered";
    TornLine "a crash tore a line";
    OpenedByIndex "a log was opened by its index";
    ZeroedSectors "a crash left zeros above what was synced";
    StaleSectors "a crash left what had been written over";
    LostNames "a crash lost names";
    LostAfterFailedSync "a crash took what a failed sync had given up";
    PowerCutTwice "the power was cut a second time";
    CrashedInCreation "crashed before the first line was there";
    MadeAgain "a session that a crash took was made again";
    NoRoomToBegin "the disk was too full for a session to begin";
    Rewritten "a log was put on its way to the disk again";
    CrashedInAppend "crashed within a write";
    CrashedInSync "crashed within a sync";
    CrashedInRecovery "crashed before a suspended turn was recovered";
    LeftOpen "a dead writer's turn was found open";
    Closed "a dead writer's turn was closed";
    Resumed "a dead writer's turn was resumed";
    RunAgain "a call ran a second time after a crash";
    ShutDown "shut down with a turn open";
    LetGo "everybody let go of the agent";
    Full "a write found the disk full";
    FullTwice "the closers found it full too";
    AppendFailed "a write failed";
    SyncFailed "a sync failed";
    SlowSync "a sync was slow";
    MailInBarrier "mail arrived during a sync";
    Acknowledged "a message was acknowledged";
    SentAgain "a message was sent again and acknowledged again";
    IdReused "a used id was refused";
    Edited "a pending message was edited";
    Removed "a pending message was removed";
    Released "pending messages were released";
    Refused "something was refused";
    Settled "a receipt resolved with the end of a turn";
    Parked "a receipt resolved as parked";
    Held "a receipt resolved as held";
    Cancelled "a turn was cancelled";
    LateAnswer "a future was dropped before it answered";
    ToolOverdue "a tool was dropped after its grace";
    ToolStopped "a tool stopped when it was asked to";
    SideBySide "tools ran side by side";
    ToolPanicked "a tool panicked";
    Concluded "a tool concluded";
    ModelPanicked "the model's stream panicked";
    ModelHung "the model fell silent for good";
    NoFinish "a stream ended without a finish";
    Midway "a stream failed midway";
    Retried "a request was retried";
    HookFailed "a hook failed";
    HookPanicked "a hook panicked";
    HookRewrote "a hook changed a batch";
    HookEmptied "a hook let nothing enter";
    HookRejected "a hook rejected";
    HookKept "a hook rejected and kept";
    Denied "a call was denied";
    ConsentAsked "consent was asked for";
    Consented "somebody consented";
    ConsentRefused "somebody refused consent";
    ConsentMumbled "somebody answered with a word that was not offered";
    ConsentFailed "whoever was asked for consent failed";
    ConsentSilent "whoever was asked for consent never answered";
    NobodyToAsk "nobody was there to consent";
    CrashedInConsent "crashed while somebody was asked for consent";
    AskedAgain "consent was asked for again after a crash";
    Steered "a vote steered";
    Rerouted "a hook changed the route";
    Served "a plugin served a request";
    ContextAdded "a hook added context to a result";
    ObserverPanicked "an observer panicked";
    ObserverPosted "an observer posted mail";
    Subscribed "a subscription was read";
    Recorded "a plugin recorded something";
    Replaced "a range of the past was replaced";
    ReplaceRefused "a range that may not be replaced was refused";
    Completed "a turn completed";
    MaxTokens "a turn ended at the output limit";
    Blocked "a turn was blocked";
    AbortedByUser "a turn was aborted by the user";
    AbortedByParent "a turn was aborted by its parent";
    AbortedByHook "a turn was aborted by a hook";
    AbortedByBudget "a turn was aborted by a budget";
    AbortedByDisposal "a turn was aborted by a shutdown";
    Failed "a turn ended in an error";
    Interrupted "a turn was interrupted";
    PartialText "a partial answer was kept";
    Paused "the model paused";
    NotStarted "a call was never started";
    Unknown "the outcome of a call is unknown";
}

/// How often each situation was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached([u64; WORDS.len()]);

impl Default for Reached {
    fn default() -> Self {
        Reached([0; WORDS.len()])
    }
}

impl Reached {
    pub(crate) fn count(&mut self, situation: Situation) {
        self.0[situation as usize] += 1;
    }

    /// Adds what another run reached.
    pub fn add(&mut self, other: &Reached) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    /// Each situation in words, and how often it was reached.
    pub fn table(&self) -> impl Iterator<Item = (&'static str, u64)> {
        WORDS.iter().copied().zip(self.0)
    }

    /// What was never reached.
    pub fn missing(&self) -> Vec<&'static str> {
        self.table().filter(|(_, n)| *n == 0).map(|(words, _)| words).collect()
    }
}

impl Reached {
    /// Counts what a fact says.
    pub(crate) fn event(&mut self, fact: &Fact) {
        if let Some(situation) = of_fact(fact) {
            self.count(situation);
        }
    }
}

fn of_fact(fact: &Fact) -> Option<Situation> {
    match fact {
        Fact::TurnCancel(_) => Some(Situation::Cancelled),
        Fact::TurnEnd(end) => Some(of_ending(&end.reason)),
        Fact::RequestRetry(_) => Some(Situation::Retried),
        Fact::AssistantMessage(answer) if answer.interrupted => Some(Situation::PartialText),
        Fact::AssistantMessage(answer) if answer.finish.kind == FinishKind::Pause => Some(Situation::Paused),
        Fact::ToolCall(call) if call.run > 1 => Some(Situation::RunAgain),
        Fact::ApprovalAsked(_) => Some(Situation::ConsentAsked),
        Fact::SurfaceReplaced(_) => Some(Situation::Replaced),
        Fact::ToolResult(result)
            if result.error.as_ref().is_some_and(|error| error.code == "no-approver") =>
        {
            Some(Situation::NobodyToAsk)
        }
        Fact::ToolResult(result) => match result.outcome {
            Outcome::Denied => Some(Situation::Denied),
            Outcome::NotStarted => Some(Situation::NotStarted),
            Outcome::Unknown => Some(Situation::Unknown),
            Outcome::Ok if result.concludes => Some(Situation::Concluded),
            Outcome::Ok | Outcome::Error | Outcome::Aborted | Outcome::Timeout => None,
        },
        Fact::InboxAdded(added) if added.replaces.is_some() => Some(Situation::Edited),
        Fact::InboxRemoved(_) => Some(Situation::Removed),
        Fact::InboxReleased(_) => Some(Situation::Released),
        Fact::WriterOpened(_)
        | Fact::WriterIdle(_)
        | Fact::InboxAdded(_)
        | Fact::InboxClaimed(_)
        | Fact::InboxReturned(_)
        | Fact::TurnStart(_)
        | Fact::StepStart(_)
        | Fact::StepEnd(_)
        | Fact::UserMessage(_)
        | Fact::RequestHeader(_)
        | Fact::RequestContext(_)
        | Fact::RequestAttempt(_)
        | Fact::RequestFailed(_)
        | Fact::AssistantChunk(_)
        | Fact::AssistantMessage(_)
        | Fact::ToolCall(_)
        | Fact::ApprovalDecided(_)
        | Fact::SeamChanged(_)
        | Fact::Plugin(_) => None,
    }
}

fn of_ending(reason: &EndReason) -> Situation {
    match reason {
        EndReason::Completed => Situation::Completed,
        EndReason::MaxTokens => Situation::MaxTokens,
        EndReason::Blocked { .. } => Situation::Blocked,
        EndReason::Error { .. } => Situation::Failed,
        EndReason::Interrupted => Situation::Interrupted,
        EndReason::Aborted { cause } => match cause {
            Cause::User { .. } => Situation::AbortedByUser,
            Cause::Parent => Situation::AbortedByParent,
            Cause::Hook { .. } => Situation::AbortedByHook,
            Cause::Budget { .. } => Situation::AbortedByBudget,
            Cause::Disposed => Situation::AbortedByDisposal,
        },
    }
}
