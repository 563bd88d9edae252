//! Plays a scenario: a real agent over the scripted model, on a clock that only moves when everybody waits.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use terret::Agent;
use terret::agent::{Receipt, Settlement};
use terret::clock::Clock;
use terret::core::fact::{Cause, PluginEvent, Rel, SurfaceReplaced};
use terret::core::id::{Digest, MsgId};
use terret::core::input::{Record, Recovery};
use terret::core::line::Event;
use terret::core::message::{Attachment, Block, Message};
use terret::core::project::Brackets;
use terret::core::raw::Raw;
use terret::error::Error;
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::store::{MemoryStore, Scan};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::hooks::{self, Living};
use crate::{list, tools};

const SESSION: &str = "spec";
/// Longest wait for an event, in the scenario's own time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What a scenario left behind.
pub(crate) struct Played {
    /// The log as it is stored.
    pub(crate) bytes: Vec<u8>,
    pub(crate) log: String,
    pub(crate) request: String,
}

struct Scene<'a> {
    script: &'a str,
    /// What the next process has in place.
    hooks: Vec<&'a str>,
    store: MemoryStore,
    /// The session that is played on: the last fork, if there was one.
    session: String,
    life: Option<Life>,
    sent: u32,
    /// What senders were told, and what was refused.
    told: Vec<String>,
}

/// One process: it ends when its runtime is dropped.
struct Life {
    agent: Agent,
    written: mpsc::UnboundedReceiver<(u64, String)>,
    receipts: Vec<Receipt>,
    // Last, so that what the agent holds outside of its tasks goes first.
    runtime: Runtime,
}

/// How a process comes to its session.
enum Beginning {
    Create,
    Resume,
    Fork(Option<u64>),
}

struct Fixed;

impl Clock for Fixed {
    fn epoch_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

/// Plays the actions. An error names the line it comes from.
pub(crate) fn play(script: &str, actions: &str) -> Result<Played, (usize, String)> {
    let mut scene = Scene {
        script,
        hooks: Vec::new(),
        store: MemoryStore::default(),
        session: SESSION.to_owned(),
        life: None,
        sent: 0,
        told: Vec::new(),
    };
    for (at, line) in actions.lines().enumerate() {
        if !line.trim().is_empty() && !line.starts_with('#') {
            scene.act(line.trim()).map_err(|why| (at, format!("`{line}`: {why}")))?;
        }
    }
    let end = actions.lines().count();
    if scene.life.is_some() {
        scene.act("idle").and_then(|()| scene.act("shutdown")).map_err(|why| (end, why))?;
    }
    scene.played().map_err(|why| (end, why))
}

/// The first word of a line, and the rest.
pub(crate) fn words(line: &str) -> (&str, &str) {
    let (first, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    (first, rest.trim())
}

/// `100ms` or `3s`.
pub(crate) fn duration(word: &str) -> Result<Duration, String> {
    let bad = |_| format!("`{word}` is not a time: 100ms, 3s");
    let millis = word.strip_suffix("ms").map(|n| n.parse().map(Duration::from_millis));
    let seconds = || word.strip_suffix('s').map(|n| n.parse().map(Duration::from_secs));
    millis.or_else(seconds).ok_or("a time needs a unit: 100ms, 3s".to_owned())?.map_err(bad)
}

impl<'a> Scene<'a> {
    fn act(&mut self, line: &'a str) -> Result<(), String> {
        let (verb, rest) = words(line);
        if verb == "with" {
            self.hooks.push(rest);
            return match self.life {
                Some(_) => Err("plugins are put in place before their process begins".to_owned()),
                None => Ok(()),
            };
        }
        if verb == "resume" {
            return self.begin(Beginning::Resume);
        }
        if self.life.is_none() {
            self.begin(Beginning::Create)?;
        }
        match verb {
            "send" | "steer" | "inject" | "attach" | "edit" => {
                let (old, rest) = if verb == "edit" { words(rest) } else { ("", rest) };
                let (id, text) = self.message(rest);
                let life = self.life.as_mut().ok_or("nobody is there")?;
                let mut message = Message::user(id.as_str(), text);
                if verb == "attach" {
                    message.content.push(picture());
                }
                let receipt = life.runtime.block_on(async {
                    match verb {
                        "send" | "attach" => life.agent.followup(message).await,
                        "steer" => life.agent.steer(message).await,
                        "edit" => life.agent.edit(old.into(), message).await,
                        _ => life.agent.inject(message).await,
                    }
                });
                match receipt {
                    Ok(receipt) => life.receipts.push(receipt),
                    Err(e) => self.told.push(format!("refused: {line}: {e}")),
                }
                Ok(())
            }
            "wait" => {
                let time = duration(rest)?;
                self.run(async |_| tokio::time::sleep(time).await)
            }
            "until" => self.until(|_, kind| kind == rest).map(drop),
            "idle" => {
                self.run(async |agent| agent.when_idle().await.map(drop))?.or_else(|e| self.refused(line, e))
            }
            "cancel" => {
                let cause = match words(rest) {
                    ("user", text) => Cause::User { text: (!text.is_empty()).then(|| text.to_owned()) },
                    ("parent", "") => Cause::Parent,
                    ("disposed", "") => Cause::Disposed,
                    _ => return Err("cancelled by whom? user, parent, disposed".to_owned()),
                };
                self.run(async |agent| agent.cancel(cause).await)?.or_else(|e| self.refused(line, e))
            }
            "record" | "replace" => {
                let record = match verb {
                    "record" => recorded(rest)?,
                    _ => replaced(rest)?,
                };
                self.run(async |agent| agent.record(record).await)?.or_else(|e| self.refused(line, e))
            }
            "release" | "remove" => {
                let ids: Vec<MsgId> = rest.split_whitespace().map(MsgId::from).collect();
                let done = self.run(async |agent| match verb {
                    "release" => agent.release(ids).await,
                    _ => agent.remove(ids).await,
                })?;
                done.or_else(|e| self.refused(line, e))
            }
            "recover" => {
                let recovery = match words(rest) {
                    ("close", "") => Recovery::Close,
                    ("resume-turn", keyed) => {
                        let calls = keyed.split_whitespace().skip_while(|word| *word == "keyed");
                        let keyed = calls.map(|c| c.parse().map_err(|e| format!("`{c}`: {e}")));
                        Recovery::ResumeTurn { keyed: keyed.collect::<Result<_, _>>()? }
                    }
                    _ => return Err("how? close, resume-turn".to_owned()),
                };
                self.run(async |agent| agent.recover(recovery).await)?.or_else(|e| self.refused(line, e))
            }
            "shutdown" => {
                let done = self.run(async |agent| agent.shutdown().await)?;
                self.end();
                done.or_else(|e| self.refused(line, e))
            }
            "crash" => self.crash(rest),
            "fork" => {
                let at = (!rest.is_empty()).then(|| rest.parse().map_err(|_| format!("`{rest}` is no seq")));
                let at = at.transpose()?;
                self.end();
                self.begin(Beginning::Fork(at))
            }
            _ => Err("no such action".to_owned()),
        }
    }

    fn run<T>(&mut self, act: impl AsyncFnOnce(&Agent) -> T) -> Result<T, String> {
        let life = self.life.as_mut().ok_or("nobody is there")?;
        Ok(life.runtime.block_on(act(&life.agent)))
    }

    fn refused(&mut self, line: &str, error: Error) -> Result<(), String> {
        self.told.push(format!("refused: {line}: {error}"));
        Ok(())
    }

    /// `[id=ID] [TEXT]`; ids are `m1`, `m2`, … where none is given.
    fn message(&mut self, rest: &str) -> (String, String) {
        let (id, text) = match rest.strip_prefix("id=") {
            Some(named) => words(named),
            None => {
                self.sent += 1;
                ("", rest)
            }
        };
        let id = if id.is_empty() { format!("m{}", self.sent) } else { id.to_owned() };
        (id, if text.is_empty() { "go" } else { text }.to_owned())
    }

    /// A process that creates the session, opens it again, or goes on in a fork of it.
    fn begin(&mut self, how: Beginning) -> Result<(), String> {
        if self.life.is_some() {
            return Err("the process before it still runs: crash or shutdown first".to_owned());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .map_err(|e| e.to_string())?;
        let player = ScriptAdapter::new().with("test", self.script).map_err(|e| e.to_string())?;
        let player = player.with("other", self.script).map_err(|e| e.to_string())?;
        let models = Providers::new(Box::new(|_| None)).with_adapter("script", player);
        let (write, written) = mpsc::unbounded_channel();
        let mut builder = Agent::builder(Arc::new(models))
            .model("script:test")
            .map_err(|e| e.to_string())?
            .store(self.store.clone())
            .clock(Fixed)
            .cwd("/spec")
            .observe(move |event| drop(write.send((event.seq, event.fact.type_name().to_owned()))));
        for tool in tools::all() {
            builder = builder.tool(tool);
        }
        let living = Living::default();
        for hook in &self.hooks {
            builder = hooks::install(builder, hook, &living)?;
        }
        let named = |name: &str| name.parse().map(Some).map_err(|e| format!("{e}"));
        let child = named(&format!("{}-fork", self.session))?;
        let (id, before) = (named(&self.session)?, self.session.as_str());
        let agent = runtime
            .block_on(async {
                match how {
                    Beginning::Create => builder.create(id).await,
                    Beginning::Resume => builder.resume(before).await,
                    Beginning::Fork(at) => builder.fork(before, at, child).await,
                }
            })
            .map_err(|e| e.to_string())?;
        self.session = agent.id().to_string();
        *living.lock().unwrap() = Some(agent.handle().clone());
        self.life = Some(Life { agent, written, receipts: Vec::new(), runtime });
        Ok(())
    }

    /// Waits for an event that no earlier wait has seen.
    fn until(&mut self, wanted: impl Fn(u64, &str) -> bool) -> Result<u64, String> {
        let life = self.life.as_mut().ok_or("nobody is there")?;
        let seen = life.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, async {
                while let Some((seq, kind)) = life.written.recv().await {
                    if wanted(seq, &kind) {
                        return Some(seq);
                    }
                }
                None
            })
            .await
        });
        seen.ok().flatten().ok_or("no such event was written".to_owned())
    }

    /// The process is gone at once; of the log is left what was written, or what was written up to an event.
    fn crash(&mut self, rest: &str) -> Result<(), String> {
        let last = match words(rest) {
            ("", "") => None,
            ("after", event) => Some(match event.parse::<u64>() {
                Ok(seq) => self.until(|at, _| at == seq)?,
                Err(_) => self.until(|_, kind| kind == event)?,
            }),
            _ => return Err("crash after what? SEQ or TYPE".to_owned()),
        };
        if last.is_some() {
            // Of what came later nobody was told.
            self.life.as_mut().ok_or("nobody is there")?.receipts.clear();
        }
        self.end();
        let log = self.store.bytes(&self.session).ok_or("there is no log")?;
        // The header is a line too.
        let lines = last.map_or(usize::MAX, |seq| seq as usize + 2);
        self.store.put(
            &self.session,
            log.split_inclusive(|b| *b == b'\n').take(lines).flatten().copied().collect(),
        );
        Ok(())
    }

    /// Notes what senders were told, and drops the process.
    fn end(&mut self) {
        let Some(life) = self.life.take() else { return };
        for receipt in life.receipts {
            let id = receipt.id.clone();
            self.told.extend(receipt.settled().now_or_never().and_then(Result::ok).map(|s| fate(&id, s)));
        }
        drop(life.agent);
        drop(life.runtime);
    }

    fn played(self) -> Result<Played, String> {
        let bytes = self.store.bytes(&self.session).ok_or("there is no log")?;
        let mut scan = Scan::new(Cursor::new(&bytes), Path::new(&self.session)).map_err(|e| e.to_string())?;
        let (mut events, mut brackets) = (Vec::<Event>::new(), Brackets::default());
        while let Some(next) = scan.next_event().map_err(|e| e.to_string())? {
            let event = next.map_err(|bad| format!("{bad:?}"))?;
            brackets.fold(&event);
            events.push(event);
        }
        if !brackets.faults().is_empty() {
            return Err(format!("the log contradicts itself: {:?}", brackets.faults()));
        }
        let told = self.told.iter().map(|line| format!("{line}\n"));
        let log = list::events(&events) + &told.collect::<String>();
        Ok(Played { bytes, log, request: list::last_request(&events) })
    }
}

/// `view|context KIND DATA`: an event of a plugin's own.
fn recorded(rest: &str) -> Result<Record, String> {
    let (rel, rest) = words(rest);
    let rel = match rel {
        "view" => Rel::View,
        "context" => Rel::Context,
        _ => return Err("how far does it reach? view, context".to_owned()),
    };
    let (kind, data) = words(rest);
    let data = Raw::parse(data).map_err(|e| format!("`{data}`: {e}"))?;
    Ok(Record::Plugin(PluginEvent { kind: kind.to_owned(), rel, v: 1, data }))
}

/// `FIRST LAST TEXT`: this message in place of those.
fn replaced(rest: &str) -> Result<Record, String> {
    let (first, rest) = words(rest);
    let (last, text) = words(rest);
    let seq = |word: &str| word.parse().map_err(|_| format!("`{word}` is no seq"));
    let (range, message) = ([seq(first)?, seq(last)?], Message::user("replacement", text));
    Ok(Record::Surface(SurfaceReplaced { range, message, by: "spec".to_owned() }))
}

fn picture() -> Block {
    let bytes = b"a picture of a cat";
    let (blob, media_type) = (Digest::of(bytes), "image/png".to_owned());
    let name = Some("cat.png".to_owned());
    Block::Image { attachment: Attachment { blob, media_type, bytes: bytes.len() as u64, name } }
}

fn fate(id: &MsgId, settlement: Settlement) -> String {
    match settlement {
        Settlement::Ended(outcome) => {
            format!("told: {id} was read, turn {} {}", outcome.turn, outcome.ending.word())
        }
        Settlement::Parked(_) => format!("told: {id} is parked"),
        Settlement::Held(_) => format!("told: {id} is held"),
        Settlement::Removed(_) => format!("told: {id} was removed"),
        Settlement::Earlier => format!("told: {id} was settled before"),
    }
}
