//! Fake tools of every class: slow, failing, deaf, never ending.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::core::fact::{CallMode, EffectClass, Outcome, ToolSpec};
use terret::core::raw::Raw;
use terret::tool::{Call, Done, Started, Tool};

use crate::quiet::panic_as_planned;
use crate::reached::Situation;
use crate::world::World;

/// What a tool declares.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    effect: EffectClass,
    mode: CallMode,
}

/// The tools.
pub(crate) const ALL: [Kind; 6] = [
    Kind { name: "look", effect: EffectClass::Read, mode: CallMode::Parallel },
    Kind { name: "put", effect: EffectClass::Idempotent, mode: CallMode::Parallel },
    Kind { name: "pay", effect: EffectClass::Keyed, mode: CallMode::Exclusive },
    Kind { name: "post", effect: EffectClass::Keyed, mode: CallMode::Parallel },
    Kind { name: "smash", effect: EffectClass::Unsafe, mode: CallMode::Exclusive },
    Kind { name: "burn", effect: EffectClass::Unsafe, mode: CallMode::Parallel },
];

/// All of them, in this world.
pub(crate) fn all(world: &World) -> Vec<Arc<dyn Tool>> {
    ALL.iter().map(|kind| Arc::new(SimTool(world.clone(), *kind)) as Arc<dyn Tool>).collect()
}

struct SimTool(World, Kind);

/// How a call goes.
enum Course {
    Ends(Done),
    Panics,
    /// Stops when it is asked to, and says so.
    Obeys,
    /// Never ends by itself.
    Hangs,
}

impl Tool for SimTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.1.name.to_owned(),
            description: format!("Does {}.", self.1.name),
            parameters: Raw::string("any"),
        }
    }

    fn effect(&self) -> EffectClass {
        self.1.effect
    }

    fn mode(&self, arguments: &str) -> CallMode {
        let odds = self.0.lock().temper.tool_fails / 20;
        let breaks = self.0.lock().trouble(odds);
        match (breaks, arguments.ends_with('}')) {
            (true, _) => panic_as_planned(),
            (false, true) => self.1.mode,
            (false, false) => CallMode::Exclusive,
        }
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        match call.arguments.ends_with('}') {
            true => Ok(()),
            false => Err(Done::error(&call.name, "invalid-arguments", "the arguments are cut")),
        }
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        let call = started.into_call();
        self.0.step("as a tool starts");
        let (world, kind) = (self.0.clone(), self.1);
        let (wait, course) = self.course();
        let mut state = world.lock();
        state.tool_starts(call.id, kind.effect);
        state.tell(|| format!("{} {} starts", kind.name, call.id));
        state.running += 1;
        if state.running > 1 {
            state.reached.count(Situation::SideBySide);
        }
        drop(state);
        let turn = call.id.turn;
        let work = work(world.clone(), call, wait, course).boxed();
        Body { world, turn, work, done: false }.boxed()
    }
}

impl SimTool {
    fn course(&self) -> (u64, Course) {
        let mut state = self.0.lock();
        let temper = state.temper.clone();
        let wait = match state.trouble(temper.tool_slow) {
            true => state.dice.within(1..8_000),
            false => 0,
        };
        let course = if state.trouble(temper.tool_hangs) {
            if state.dice.half() { Course::Hangs } else { Course::Obeys }
        } else if state.trouble(temper.tool_fails) {
            match state.dice.below(3) {
                0 => Course::Panics,
                1 => Course::Ends(Done::error(self.1.name, "failed", "it did not work")),
                _ => Course::Ends(Done::notice(Outcome::Timeout, "it took too long")),
            }
        } else {
            let concludes = state.dice.below(12) == 0;
            Course::Ends(Done { concludes, ..Done::ok(format!("{} is done", self.1.name)) })
        };
        (wait, course)
    }
}

async fn work(world: World, mut call: Call, wait: u64, course: Course) -> Done {
    tokio::time::sleep(Duration::from_millis(wait)).await;
    world.step("as a tool ends");
    match course {
        Course::Ends(done) => done,
        Course::Panics => {
            world.count(Situation::ToolPanicked);
            panic_as_planned()
        }
        Course::Obeys => {
            call.stopped().await;
            world.count(Situation::ToolStopped);
            Done::notice(Outcome::Aborted, "stopped")
        }
        Course::Hangs => std::future::pending().await,
    }
}

/// The body of a tool: it may run as long as its turn is open, and after a cancel within its grace.
struct Body {
    world: World,
    turn: u32,
    work: BoxFuture<'static, Done>,
    done: bool,
}

impl Future for Body {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        let state = self.world.lock();
        let may = state.witness.may_run(self.turn, state.now_ms());
        drop(state);
        if !may {
            let turn = self.turn;
            self.world.broken(format!("a tool of turn {turn} runs on though its turn is over"));
        }
        let polled = self.work.as_mut().poll(cx);
        self.done = polled.is_ready();
        polled
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        state.running -= 1;
        if !self.done && !state.dead && !std::thread::panicking() {
            state.reached.count(Situation::ToolOverdue);
        }
    }
}
