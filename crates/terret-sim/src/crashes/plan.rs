//! What happens in a run: which fault, in which procedure of the store, at which of its operations.

use crate::fs::{Kind, Loss, Op};

macro_rules! named {
    ($( #[$about:meta] )* $name:ident { $( $variant:ident $words:literal; )* }) => {
        $( #[$about] )*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( #[doc = $words] $variant, )* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$( $name::$variant, )*];

            /// In words.
            pub fn words(self) -> &'static str {
                match self { $( $name::$variant => $words, )* }
            }
        }
    };
}

named! {
    /// What goes wrong.
    Fault {
        Killed "process killed";
        Dropped "power cut, ends dropped";
        Zeroed "power cut, sectors zeroed";
        Stale "power cut, sectors stale";
        Mixed "power cut, anything";
        Failing "an operation fails";
        Short "a short write";
        Full "disk full";
        FailingSync "a sync fails";
        Combined "several, over lives";
    }
}

named! {
    /// What the store is doing.
    Procedure {
        Create "create";
        Append "append";
        Sync "sync";
        Reopen "open again";
        Repair "repair";
        Fork "fork";
        Trash "trash";
    }
}

impl Fault {
    /// What the power takes, if it goes.
    pub(super) fn loss(self) -> Option<Loss> {
        match self {
            Fault::Dropped => Some(Loss::Dropped),
            Fault::Zeroed => Some(Loss::Zeroed),
            Fault::Stale => Some(Loss::Stale),
            Fault::Mixed => Some(Loss::Mixed),
            Fault::Killed
            | Fault::Failing
            | Fault::Short
            | Fault::Full
            | Fault::FailingSync
            | Fault::Combined => None,
        }
    }

    /// Whether the process dies of it.
    pub(super) fn kills(self) -> bool {
        self == Fault::Killed || self.loss().is_some()
    }

    /// Whether it can strike this operation.
    pub(super) fn strikes(self, op: &Op<'_>) -> bool {
        match self {
            Fault::Killed | Fault::Dropped | Fault::Zeroed | Fault::Stale | Fault::Mixed => true,
            Fault::Combined => true,
            Fault::Failing => op.kind != Kind::Sync,
            Fault::Short => op.kind == Kind::Append,
            Fault::Full => op.kind.writes(),
            Fault::FailingSync => op.kind == Kind::Sync,
        }
    }

    /// Whether a procedure has an operation that this can strike.
    pub fn applies(self, to: Procedure) -> bool {
        match (self, to) {
            // It writes nothing.
            (Fault::Short | Fault::Full, Procedure::Sync) => false,
            // They sync no file.
            (
                Fault::FailingSync,
                Procedure::Create | Procedure::Append | Procedure::Reopen | Procedure::Trash,
            ) => false,
            _ => true,
        }
    }
}

/// Every fault with every procedure it applies to.
pub fn pairs() -> Vec<(Fault, Procedure)> {
    let all = Fault::ALL.iter().flat_map(|fault| Procedure::ALL.iter().map(|to| (*fault, *to)));
    all.filter(|(fault, to)| fault.applies(*to)).collect()
}
