//! The rules of the log, by name. A check that fails names the rule it guards.

macro_rules! rules {
    ($( $rule:ident $name:literal $statement:literal; )*) => {
        /// A rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rule { $( $rule, )* }

        impl Rule {
            /// All of them: name and statement.
            pub(crate) const ALL: &'static [(&'static str, &'static str)] = &[$( ($name, $statement), )*];

            fn words(self) -> (&'static str, &'static str) {
                match self { $( Rule::$rule => ($name, $statement), )* }
            }
        }
    };
}

rules! {
    Turns "turns" "Turns do not nest, are numbered from 1 without a gap, and end once.";
    Licence "licence" "A turn starts only on a wake that nothing has used up since, and for a waking message that is not held.";
    Drain "drain" "While a wake is in force and a waking message is pending, a turn is open.";
    Claim "claim" "A claim takes, between steps, all of next-step and for a first step one of next-turn, in order, and nothing held.";
    Back "back" "What is given back was claimed; a turn that ends early leaves nothing claimed.";
    Held "held" "Closers hold what was given back before, and everything when the user cancelled.";
    Steps "steps" "Steps do not nest, are numbered in their turn, and end once, before it.";
    Admits "admits" "A request needs a step that got all the messages it announced.";
    Attempts "attempts" "Attempts are numbered in their step, and each is closed by one message or failure.";
    Header "header" "The first request of a log and of each writer has its own header, with the right reason.";
    Order "order" "Calls start in the model's order.";
    Exclusive "exclusive" "An exclusive call runs alone.";
    Results "results" "Each call has one result, before its step ends.";
    Truth "truth" "A result tells whether its call had started.";
    Again "again" "A call runs again only after its writer died, and only if its class allows it.";
    Unread "unread" "A turn that is done has read its tool results, unless a success concludes.";
    Verdict "verdict" "A turn is done only after an answer, a conclusion or an empty first claim.";
    Steer "steer" "A turn that votes to end first reads what was put in for its next step.";
    MaxTokens "max-tokens" "An answer cut by the output limit marks its turn for good.";
    Blocked "blocked" "Only a turn that asked no model is blocked.";
    Cancelled "cancelled" "One cancel a turn; from there it ends aborted.";
    Failed "failed" "A failure that ends the turn gives it the reason error.";
    Closers "closers" "Once the end is certain, only closers follow.";
    Consent "consent" "Consent is asked for a call that may still start, and given once; a call that ran before needs no second one.";
    Durable "durable" "What the outside saw, a message acknowledged, a request sent, a tool started, is in the log after any crash.";
    Late "late" "An answer to a question that is no longer asked changes nothing.";
    Owed "owed" "An open turn owes something, a closed one nothing.";
    Close "close" "Closing a dead writer's turn ends it at once.";
    Fold "fold" "The live state is the fold of the log.";
}

impl Rule {
    /// Panics with the rule's name unless `holds`.
    #[track_caller]
    pub(crate) fn demand(self, holds: bool, at: &dyn std::fmt::Debug) {
        if !holds {
            let (name, statement) = self.words();
            panic!("rule `{name}` is broken: {statement}\nat {at:?}");
        }
    }
}
