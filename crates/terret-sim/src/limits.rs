//! Every size, count and wait of the simulation, with its reason. Times are virtual.

use std::ops::Range;

/// Crashes of one session: enough that a recovery is crashed again, few enough that most time is lived.
pub(crate) const MAX_CRASHES: u32 = 4;
/// Things people do in one life of the process.
pub(crate) const MAX_ACTS: u32 = 12;
/// When they do them: most turns of the fake model take less.
pub(crate) const WINDOW_MS: u64 = 20_000;
/// How long a session may go on by itself before somebody cancels it: retries wait minutes in all.
pub(crate) const PATIENCE_MS: u64 = 300_000;
/// How long anything may take that nothing holds up but the disk and the grace of tools: far beyond both.
pub(crate) const HANG_MS: u64 = 120_000;
/// Steps in the outside world before a planned crash, each operation on the disk among them.
pub(crate) const CRASH_WITHIN: u32 = 250;
/// Bytes the disk still takes when it fills up: some lines, or not even one.
pub(crate) const LAST_ROOM_BYTES: Range<u64> = 0..3_000;
/// How long the disk stays full.
pub(crate) const FULL_MS: Range<u64> = 1..30_000;
/// How long a slow disk takes for a sync.
pub(crate) const SYNC_MS: Range<u64> = 1..3_000;
/// A tool that was asked to stop may still be polled this long after its grace: the disk may be slow.
pub(crate) const GRACE_SLACK_MS: u64 = 10_000;
/// The first moment, in epoch milliseconds.
pub(crate) const EPOCH_MS: u64 = 1_900_000_000_000;
/// How far the clock may go back.
pub(crate) const CLOCK_BACK_MS: u64 = 5_000;
/// Writes one session may try: far beyond what its acts can cause. A driver that spins meets it.
pub(crate) const MAX_WRITES: u32 = 20_000;
/// Syncs a dead process may ask for before it is gone. A driver that spins there never gives its thread back.
pub(crate) const MAX_DEAD_SYNCS: u32 = 100;
/// Bytes of a sector: what a disk writes as one piece, or not.
pub(crate) const SECTOR_BYTES: usize = 512;
/// The first moment of a crash run, in epoch milliseconds. All moments have as many digits.
pub(crate) const CRASH_EPOCH_MS: u64 = 1_900_000_000_000;
/// Operations of a later life among which the next fault strikes: an opening and some writes and syncs.
pub(crate) const CRASH_LATER_OPS: u32 = 40;
/// Crashes tried until one tears a tail: one in three does.
pub(crate) const CRASH_TORN_TRIES: u32 = 8;
/// Runs in which operations are counted before they are struck: most have as many.
pub(crate) const CRASH_LOOKS: u64 = 6;
/// Events of the session that is forked at each of them: several turns of every kind.
pub(crate) const FORK_EVENTS: u64 = 2_000;
