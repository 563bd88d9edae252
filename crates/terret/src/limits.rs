//! Every size, count and wait, with its reason.

// Models.

/// Largest event of a stream in bytes: images and encrypted reasoning fit, a runaway server does not.
pub const MAX_EVENT_BYTES: usize = 32 << 20;

/// Largest plain (not streamed) body that is read to look for an error: error bodies are a few kilobytes.
pub const MAX_PLAIN_BODY_BYTES: usize = 1 << 20;

/// How much of the provider's own words a failure keeps: enough to understand it, little enough to log.
pub const MAX_FAILURE_RAW_BYTES: usize = 2 << 10;

/// How much is gathered from frames that are already there before chunks are handed on: one read of a fast
/// network.
pub const MAX_GATHER_BYTES: usize = 64 << 10;

/// Longest wait for a connection in milliseconds: what the official SDKs use.
pub const CONNECT_TIMEOUT_MS: u64 = 5_000;

/// Longest wait for the end of a body after its last event, in milliseconds: past it the connection is worth
/// less than the task that waits for it.
pub const DRAIN_TIMEOUT_MS: u64 = 2_000;

/// Longest delay a provider may ask for and get, in milliseconds; longer ones are a person's decision.
pub const MAX_RETRY_HINT_MS: u64 = 60_000;

/// Output tokens asked for where nobody says otherwise: room for thought and an answer, no runaway bill.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 32_000;

/// Longest tool-call id that OpenAI's chat endpoint takes, in bytes.
pub const MAX_CHAT_CALL_ID_BYTES: usize = 40;

/// Largest script file in bytes: scripts are written by hand.
pub const MAX_SCRIPT_BYTES: u64 = 4 << 20;
