//! The table: who may import whom. Data only; to allow an import is to add a word here, in a reviewed diff.

/// What one crate may name.
pub(super) struct Crate {
    /// Its directory, from the root.
    pub(super) dir: &'static str,
    /// Paths it never names, and crates it never depends on.
    pub(super) never: &'static [&'static str],
    /// Names that are wrong however they were imported.
    pub(super) never_named: &'static [&'static str],
    /// Its top-level modules. Empty: any, in any direction.
    pub(super) modules: &'static [Module],
}

/// One top-level module, and what it may use of its crate.
pub(super) struct Module {
    pub(super) name: &'static str,
    /// Their names, separated by spaces.
    pub(super) uses: &'static str,
}

/// Every crate of the workspace.
pub(super) const CRATES: &[Crate] = &[
    Crate {
        dir: "crates/terret-core",
        never: &[
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::thread",
            "std::os",
            "std::time::Instant",
            "std::time::SystemTime",
            "tokio",
            "rand",
            "getrandom",
            "uuid",
            "terret",
            "terret_cli",
            "xtask",
        ],
        // A clock reached through `use std::time` is still a clock.
        never_named: &["Instant", "SystemTime"],
        modules: CORE,
    },
    Crate {
        dir: "crates/terret",
        never: &["clap", "terret_cli", "terret_sim", "xtask"],
        never_named: &[],
        modules: TERRET,
    },
    Crate { dir: "crates/terret-cli", never: &["terret_sim", "xtask"], never_named: &[], modules: &[] },
    // Its world is fake throughout: a run that touched the real one could not be repeated.
    Crate {
        dir: "crates/terret-sim",
        never: &[
            "std::fs",
            "std::net",
            "std::os",
            "std::process::Command",
            "tokio::fs",
            "tokio::net",
            "tokio::process",
            "rand",
            "uuid",
            "terret_cli",
            "xtask",
        ],
        never_named: &["SystemTime", "LocalFs", "SystemClock", "SystemIds", "HashMap", "HashSet"],
        modules: &[],
    },
    // It launches what the tests of `terret` check.
    Crate {
        dir: "fuzz",
        never: &["terret_core", "terret_cli", "terret_sim", "xtask"],
        never_named: &[],
        modules: &[],
    },
    // Checks and measures must not share a bug with what they judge.
    Crate {
        dir: "xtask",
        never: &["terret", "terret_core", "terret_cli", "terret_sim"],
        never_named: &[],
        modules: &[],
    },
];

/// `id → raw → message → chunk → fact → line → state → machine`. `input`, `effect` and `decided` are the words
/// between the machine and its driver and hold no logic. What reads the log for others (`project`) never uses
/// `state` or `machine`: two readers of one log must not share a bug.
const CORE: &[Module] = &[
    Module { name: "limits", uses: "" },
    Module { name: "id", uses: "limits" },
    Module { name: "raw", uses: "limits id" },
    Module { name: "message", uses: "limits id raw" },
    Module { name: "chunk", uses: "limits id raw message" },
    Module { name: "price", uses: "chunk" },
    Module { name: "assemble", uses: "limits id raw message chunk" },
    Module { name: "fact", uses: "limits id raw message chunk price" },
    Module { name: "digest", uses: "limits id raw message chunk fact" },
    Module { name: "line", uses: "limits id raw message chunk fact" },
    Module { name: "effect", uses: "limits id raw message chunk fact" },
    Module { name: "decided", uses: "limits id raw message chunk fact" },
    Module { name: "input", uses: "limits id raw message chunk fact effect" },
    Module {
        name: "project",
        uses: "limits id raw message chunk price assemble fact digest line decided input",
    },
    Module { name: "state", uses: "limits id raw message chunk fact digest line" },
    Module {
        name: "machine",
        uses: "limits id raw message chunk fact digest line effect decided input state",
    },
];

/// `core` is the re-exported crate below. `call`, `request` and `mail` are the words that cross between loop and
/// outside; the first two hold the proofs that `store` makes. The four adapters (`store`, `model`, `tool`, `hook`) know those and not each other; above them
/// `world`, `driver`, `agent`, each on the one before; `policy`, `config` and `inspect` are ordinary parts.
const TERRET: &[Module] = &[
    Module { name: "core", uses: "" },
    Module { name: "limits", uses: "core" },
    Module { name: "error", uses: "core limits" },
    Module { name: "clock", uses: "core limits error" },
    Module { name: "mail", uses: "core error" },
    Module { name: "store", uses: "core limits error clock" },
    Module { name: "call", uses: "core store" },
    Module { name: "request", uses: "core limits store" },
    Module { name: "model", uses: "core limits error clock request" },
    Module { name: "tool", uses: "core limits error clock call" },
    Module { name: "hook", uses: "core limits error clock call request mail" },
    Module { name: "config", uses: "core limits error clock store model tool hook" },
    Module { name: "policy", uses: "core limits error clock call request mail hook" },
    Module { name: "world", uses: "core limits error clock call request mail store model tool hook" },
    Module { name: "driver", uses: "core limits error clock call request mail store model tool hook world" },
    Module {
        name: "agent",
        uses: "core limits error clock call request mail store model tool hook config policy world driver",
    },
    Module { name: "testing", uses: "core error call request store model agent inspect" },
    Module { name: "inspect", uses: "core limits error clock store model" },
];
