//! Every size, count and wait of the core, with its reason.

/// Longest log line in bytes: keeps a reader's memory bounded; larger payloads go to blobs.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// Bytes of a log that a reader gathers before it hashes them: enough for the widest hashing a processor has, little
/// beside the line it reads.
pub const GATHER_BYTES: usize = 64 << 10;

/// Tools that may run at once in a step: what two cores serve without starving each other's timeouts.
pub const MAX_PARALLEL_CALLS: usize = 10;

/// Most blocks a stream may open: a runaway or hostile stream stops here, not at the memory's end.
pub const MAX_BLOCKS: usize = 4096;
