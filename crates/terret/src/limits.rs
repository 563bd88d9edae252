//! Every size, count and wait of the runtime, with its reason.

/// Bytes kept aside in a session, so that the lines that close a turn still fit on a full disk.
pub const RESERVE_BYTES: u64 = 64 << 10;
/// Mail that may wait for a driver: far above what people and plugins post, far below what hurts.
pub const MAX_MAIL: usize = 1024;
/// How long a tool that was asked to stop may take before it is dropped: a shell ends its group in less.
pub const TOOL_GRACE_MS: u64 = 3_000;
/// Longest time written lines stay unsynced: what a power cut may cost beyond the last barrier.
pub const SYNC_AFTER_MS: u64 = 1_000;
/// Answers handled before the next write: bounds the delay between hearing and writing.
pub const MAX_ANSWERS_A_WRITE: usize = 256;
/// Most bytes of `AGENTS.md` taken along: a page of rules, not a book in every request.
pub const MAX_INSTRUCTIONS_BYTES: usize = 64 << 10;
/// Longest silence on a model's stream: slow models think for minutes, dead ones for ever.
pub const IDLE_TIMEOUT_MS: u64 = 300_000;
