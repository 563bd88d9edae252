//! Chance: one seeded generator, and how rough a seed's world is.

use std::ops::Range;

/// The generator.
pub(crate) struct Dice(fastrand::Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(fastrand::Rng::with_seed(seed))
    }

    /// True in so many of a thousand cases.
    pub(crate) fn permille(&mut self, odds: u32) -> bool {
        odds > 0 && self.0.u32(0..1000) < odds
    }

    pub(crate) fn half(&mut self) -> bool {
        self.0.bool()
    }

    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.0.u32(0..end.max(1))
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        self.0.u64(range)
    }

    /// Any length up to this; nothing and all of it more often than others.
    pub(crate) fn part(&mut self, whole: usize) -> usize {
        match self.below(4) {
            0 => 0,
            1 => whole,
            _ => self.0.usize(0..=whole),
        }
    }

    /// A wait: mostly none or short.
    pub(crate) fn wait_ms(&mut self) -> u64 {
        match self.below(8) {
            0..=3 => 0,
            4..=5 => self.within(1..20),
            6 => self.within(20..400),
            _ => self.within(400..6_000),
        }
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.0.usize(0..among.len())]
    }
}

/// How rough the world of one seed is, in permille of the occasions. Each seed leaves some trouble out, so that
/// long calm sessions happen as well as wild ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Temper {
    pub(crate) model_fails: u32,
    pub(crate) model_hangs: u32,
    pub(crate) model_calls: u32,
    pub(crate) tool_fails: u32,
    pub(crate) tool_slow: u32,
    pub(crate) tool_hangs: u32,
    pub(crate) hook_acts: u32,
    pub(crate) hook_slow: u32,
    pub(crate) full: u32,
    pub(crate) append_fails: u32,
    pub(crate) sync_fails: u32,
    pub(crate) sync_slow: u32,
    pub(crate) crashes: u32,
    pub(crate) power: u32,
    pub(crate) gremlins: u32,
    pub(crate) policies: bool,
    pub(crate) asks: u32,
}

impl Temper {
    pub(crate) fn of(dice: &mut Dice) -> Self {
        let mut up_to = |most: u64| match dice.half() {
            true => dice.within(1..most) as u32,
            false => 0,
        };
        Temper {
            model_fails: up_to(300),
            model_hangs: up_to(80),
            model_calls: up_to(800) + 200,
            tool_fails: up_to(300),
            tool_slow: up_to(500),
            tool_hangs: up_to(100),
            hook_acts: up_to(120),
            hook_slow: up_to(300),
            full: up_to(40),
            append_fails: up_to(10),
            sync_fails: up_to(20),
            sync_slow: up_to(400),
            crashes: up_to(u64::from(crate::limits::MAX_CRASHES) + 1),
            power: up_to(1000),
            gremlins: up_to(4),
            asks: up_to(1000),
            policies: dice.half(),
        }
    }
}
