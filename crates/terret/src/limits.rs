//! Every size, count and wait of the runtime, with its reason.

/// Bytes kept aside in a session, so that the lines that close a turn still fit on a full disk.
pub const RESERVE_BYTES: u64 = 64 << 10;
/// Mail that may wait for a driver: far above what people and plugins post, far below what hurts.
pub const MAX_MAIL: usize = 1024;
/// Longest message taken in: a log line holds it with room to spare; what is longer belongs in a file.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Largest attachment kept beside a log: above what providers take in one request, and still read at once.
pub const MAX_ATTACHMENT_BYTES: usize = 64 << 20;
/// Longest answer of a model taken in: its committed message is one log line, and JSON may need six bytes for
/// one.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Most text of a tool's result that is kept: far beyond what a model reads with profit.
pub const MAX_RESULT_BYTES: usize = 1 << 20;
/// How long a tool that was asked to stop may take before it is dropped: a shell ends its group in less.
pub const TOOL_GRACE_MS: u64 = 3_000;
/// Longest time written lines stay unsynced: what a power cut may cost beyond the last barrier.
pub const SYNC_AFTER_MS: u64 = 1_000;
/// Most lines of an open attempt that opening keeps unread, in bytes: most answers fit, and what does not costs parsing
/// instead of memory.
pub const MAX_HELD_BYTES: usize = 4 << 20;
/// Bytes a subscriber reads at once: enough that a lively stream costs few reads, little enough for any reader.
pub const READ_ALONG_BYTES: u64 = 256 << 10;
/// Bytes of a growing file looked through at once for the end of a line: many lines of a usual size.
pub const FOLLOW_BYTES: usize = 16 << 10;
/// How often a followed file is looked at by itself, where its file system tells nothing: nobody who reads along
/// notices the delay, and a look costs three calls of the system.
pub const FOLLOW_POLL_MS: u64 = 200;
/// Text told to the model of what a salvage kept: some thirty thousand tokens, the newest of it.
pub const RECALL_BYTES: usize = 128 << 10;
/// Of each call's arguments and of each result in it: what it was about, not all it said.
pub const RECALL_PIECE_BYTES: usize = 2 << 10;
/// Rounds of answers that need no wait, before a barrier is made and other tasks get their turn: a model that
/// is always ready must not keep an acknowledgement waiting.
pub const MAX_ROUNDS_A_BARRIER: u32 = 64;
/// Answers handled before the next write: bounds the delay between hearing and writing.
pub const MAX_ANSWERS_A_WRITE: usize = 256;
/// Most bytes of `AGENTS.md` taken along: a page of rules, not a book in every request.
pub const MAX_INSTRUCTIONS_BYTES: usize = 64 << 10;
/// Longest silence on a model's stream: slow models think for minutes, dead ones for ever.
pub const IDLE_TIMEOUT_MS: u64 = 300_000;

/// Time a command gets when the model names none: a test run fits, a hang does not hold the turn for long.
pub const SHELL_TIMEOUT_MS: u64 = 120_000;

/// Most time a command may ask for: a long build fits; beyond it nobody tells waiting from hanging.
pub const SHELL_TIMEOUT_MAX_MS: u64 = 600_000;

/// Output kept from the start of a command: where a compiler puts its first, most telling error.
pub const SHELL_HEAD_BYTES: usize = 16 << 10;

/// Output kept from the end of a command: where a test run puts its summary.
pub const SHELL_TAIL_BYTES: usize = 16 << 10;

/// One read of a command's output: the usual capacity of a pipe, so one read can empty it.
pub const SHELL_READ_BYTES: usize = 64 << 10;

/// Wait for output after the shell is gone: what is in the pipe arrives, a background child cannot hold us.
pub const SHELL_DRAIN_MS: u64 = 100;

/// Time between SIGTERM and SIGKILL: enough to remove a lock file, short against the person who waits.
pub const SHELL_GRACE_MS: u64 = 500;

/// How often a group that was asked to end is looked at.
pub const SHELL_POLL_MS: u64 = 10;

/// Looks through the process table for what left its group: each look catches what the one before raced
/// with; a process that forks faster than this is not caught by more looks either.
pub const SHELL_SWEEPS: usize = 5;

/// Lines `read` gives in one call: a whole source file of usual size.
pub const READ_LINES: usize = 2000;

/// Bytes `read` gives in one call: about 16 000 tokens.
pub const READ_BYTES: usize = 64 << 10;

/// Bytes `read` shows of one line: minified files would fill the window with one line.
pub const READ_LINE_BYTES: usize = 2000;

/// Bytes looked at to tell text from binary: NUL shows up early in every binary format in use.
pub const BINARY_PROBE_BYTES: usize = 8 << 10;

/// Names suggested for a file that is not there.
pub const NEAR_NAMES: usize = 3;

/// Directory entries compared with a missing name: keeps a mistyped path in a huge directory cheap.
pub const NEAR_NAMES_SCANNED: usize = 10_000;

/// Largest file `edit` loads: source files are far smaller, and the text is held a few times over.
pub const EDIT_FILE_BYTES: u64 = 16 << 20;

/// Lines of each side in the snippet `edit` answers with: the model knows what it wrote.
pub const EDIT_SNIPPET_LINES: usize = 10;

/// Line numbers listed when a text to replace is there more than once.
pub const EDIT_PLACES: usize = 5;

/// Paths `glob` gives in one call: more are read by nobody; a narrower pattern helps.
pub const GLOB_PATHS: usize = 500;

/// Matches `grep` gives in one call.
pub const GREP_MATCHES: usize = 200;

/// Bytes `grep` gives in one call: bounds matches with much context.
pub const GREP_BYTES: usize = 64 << 10;

/// Bytes `grep` shows of one line.
pub const GREP_LINE_BYTES: usize = 400;

/// Most lines of context around a match; `read` shows more.
pub const GREP_CONTEXT_LINES: usize = 10;

/// Memory `grep` may use for one line: a file with a longer one is skipped and named.
pub const GREP_HEAP_BYTES: usize = 16 << 20;

/// Symbolic links followed in one path, as the kernel does.
pub const SYMLINKS: usize = 40;

// Models.

/// Largest event of a stream in bytes: images and encrypted reasoning fit, a runaway server does not.
pub const MAX_EVENT_BYTES: usize = 32 << 20;

/// Choices in one event: one is asked for, and no server takes a wish for more than these.
pub const MAX_CHOICES: usize = 128;

/// Fields of one entry of the reasoning details that go back to a provider: real ones have half a dozen.
pub const MAX_DETAIL_FIELDS: usize = 64;

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
/// Bytes of a body read after its last event: they say nothing, and more of them cost more than a new connection.
pub const MAX_DRAIN_BYTES: usize = 64 << 10;
/// Wait for the last body's end before the next request: what is on its way arrives, a server that forgets to
/// end costs a new connection.
pub const RECLAIM_MS: u64 = 50;
/// Turns of the runtime given to the HTTP client's own tasks to put a connection back before the next request:
/// without them one run in eight on a busy machine opened a second connection, with half as many none did.
pub const RECLAIM_TURNS: u32 = 8;

/// Longest delay a provider may ask for and get, in milliseconds; longer ones are a person's decision.
pub const MAX_RETRY_HINT_MS: u64 = 60_000;

/// Longest delay a retry may be set to, in milliseconds: some three weeks, and what timers everywhere can hold.
pub const MAX_RETRY_DELAY_MS: u64 = i32::MAX as u64;

/// Output tokens asked for where nobody says otherwise: room for thought and an answer, no runaway bill.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 32_000;

/// Longest tool-call id that OpenAI's chat endpoint takes, in bytes.
pub const MAX_CHAT_CALL_ID_BYTES: usize = 40;

/// Longest tool-call id that Anthropic's messages endpoint takes, in bytes.
pub const MAX_MESSAGES_CALL_ID_BYTES: usize = 64;

/// Longest name of a tool that every server of Anthropic's messages takes, in bytes.
pub const MAX_MESSAGES_NAME_BYTES: usize = 64;

/// How many blocks a server looks back from a mark of the prompt cache.
pub const CACHE_LOOKBACK_BLOCKS: usize = 20;

/// Longest id of a call or an item that OpenAI's Responses endpoint takes, in bytes.
pub const MAX_RESPONSES_ID_BYTES: usize = 64;

/// Syncs of one process at the same time: with a thousand sessions, more threads in the kernel than this made each
/// other slower, and fewer left the disk waiting.
pub const MAX_SYNCS: usize = 64;

/// How long a thread that waits for syncs stays without one.
pub const SYNC_THREAD_IDLE: std::time::Duration = std::time::Duration::from_secs(10);

/// Lines whose ends are remembered until one behind them says that they were synced: a second of a fast stream.
pub const MAX_UNSYNCED: usize = 10_000;

/// Bytes of a side index that are looked at for its last record: a turn of a thousand steps.
pub const INDEX_TAIL_BYTES: u64 = 256 << 10;

/// How much of a side index is read, in bytes: some million lines of a log. What is behind it is not used.
pub const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Largest script file in bytes: scripts are written by hand.
pub const MAX_SCRIPT_BYTES: u64 = 4 << 20;

// Schemas of answers.

/// Longest name of a schema, in bytes: what OpenAI's endpoints take.
pub const MAX_SCHEMA_NAME_BYTES: usize = 64;

/// Largest schema of an answer, in bytes: it is told to the model with every question, and some thirty thousand tokens of
/// it leave little room for anything else. OpenAI's limit is near.
pub const MAX_OUTPUT_SCHEMA_BYTES: usize = 128 << 10;

/// Parts a schema of an answer may come to with its references followed: far more than anybody writes down, and each is
/// looked at in less than a microsecond.
pub const MAX_SCHEMA_PARTS: u64 = 100_000;

/// Places told to the model of an answer that does not fit: with more it should begin anew anyway.
pub const MAX_VIOLATIONS: usize = 20;

/// What is told of each, in bytes: an enumeration of usual length fits.
pub const MAX_VIOLATION_BYTES: usize = 400;

/// Longest time one answer is checked, in milliseconds: the largest take a fraction of it, and a schema whose references
/// multiply would take for ever.
pub const OUTPUT_CHECK_MS: u64 = 10_000;

/// Members of one object of a provider's that is kept by name: real ones have a dozen, and each is looked for among all.
pub const MAX_MEMBERS: usize = 1024;

/// Bytes of one response, events and all: servers wrap some hundred bytes around a token of four.
pub const MAX_RESPONSE_BYTES: usize = 256 * MAX_ANSWER_BYTES;

/// Bytes of events that have to be kept until a block or an answer is whole. Real ones are signatures and items.
pub const MAX_KEPT_BYTES: usize = 32 * MAX_ANSWER_BYTES;
