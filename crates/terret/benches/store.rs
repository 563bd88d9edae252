//! What the log costs. Prints `NAME<tab>FIGURE` a line, for `cargo xtask bench`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::time::ClockId;
use terret::Agent;
use terret::core::chunk::{Chunk, Finish, FinishKind};
use terret::core::fact::{
    AssistantChunk, AssistantMessage, EndReason, Fact, InboxAdded, InboxClaimed, Lane, RequestAttempt,
    StepEnd, StepStart, SurfaceReplaced, TurnEnd, TurnStart, UserMessage, WriterIdle,
};
use terret::core::id::{Digest, MsgId};
use terret::core::line::{FORMAT, SessionHeader, SessionTag};
use terret::core::message::{Block, Message, Role, Source};
use terret::core::project::Request;
use terret::model::Providers;
use terret::model::script::ScriptAdapter;
use terret::store::{FileStore, Journal, Scan, Store};

/// Pieces one network read brings.
const BATCH: usize = 32;

/// Reads that are timed.
const READS: usize = 5_000;

/// Times it is read again.
const OVER: usize = 5;

/// Events of the session that is opened.
const LONG: u64 = 1_000_000;

/// Pieces of each of its answers: some four kilobytes.
const PIECES: u32 = 256;

/// Turns after which all but the last few are replaced by a summary, as a window of a million tokens demands.
const COMPACTED: u32 = 500;
const KEPT: usize = 50;

/// What a piece says: four words, and a line of about 180 bytes.
const WORDS: &str = "four words of it ";

fn main() {
    if let Some(sessions) = std::env::var_os("OPEN") {
        return open(Path::new(&sessions));
    }
    let home = tempfile::tempdir().unwrap();
    let store = FileStore::new(home.path());
    let log = append(&store);
    let speed = |spent: f64| log.len() as f64 * 1e3 / spent;
    println!("store: crc and chain of a log, MB/s\t{:.0}", speed(read(&log, false)));
    let spent = read(&log, true);
    println!("store: reading back with every check, MB/s\t{:.0}", speed(spent));
    println!("store: reading back a line\t{:.0}", spent / (READS * BATCH) as f64);
    long(&store);
    let index = store.sessions().join("long/index.jsonl");
    assert!(index.exists());
    opened(home.path(), "by its index");
    std::fs::remove_file(index).unwrap();
    opened(home.path(), "from its start");
}

/// In a process of its own: what was needed to write the log is no memory of opening it.
fn opened(sessions: &Path, how: &str) {
    let mut open = Command::new(std::env::current_exe().unwrap());
    let opened = open.env("OPEN", sessions).env("HOW", how).output().unwrap();
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    print!("{}", String::from_utf8(opened.stdout).unwrap());
}

/// A log of pieces only.
fn append(store: &FileStore) -> Vec<u8> {
    let mut journal = Journal::new(store.create(header("pieces")).unwrap());
    let fact = piece(1);
    let mut spent = 0;
    for read in 0..READS {
        let started = cpu_ns(ClockId::ThreadCPUTime);
        for _ in 0..BATCH {
            journal.push(1_790_000_000_000 + read as u64, &fact).unwrap();
        }
        journal.write().unwrap();
        spent += cpu_ns(ClockId::ThreadCPUTime) - started;
    }
    let events = (READS * BATCH) as f64;
    println!("store: a piece of a stream, appended\t{:.0}", spent as f64 / events);
    let log = std::fs::read(store.log_path("pieces")).unwrap();
    println!("store: bytes of such a line\t{:.0}", log.len() as f64 / events);
    log
}

/// Nanoseconds of reading a log, with its payloads or without: the quietest of a few times over.
fn read(log: &[u8], payloads: bool) -> f64 {
    (0..OVER).map(|_| read_once(log, payloads)).fold(f64::MAX, f64::min)
}

fn read_once(log: &[u8], payloads: bool) -> f64 {
    let started = cpu_ns(ClockId::ThreadCPUTime);
    let mut scan = Scan::new(log, Path::new("bench")).unwrap();
    let mut lines = 0;
    loop {
        let next = match payloads {
            true => scan.next_event().unwrap().map(|event| drop(black_box(event.unwrap()))),
            false => scan.next_line(|line| Ok(black_box(line.seq))).unwrap().map(|seq| assert!(seq.is_ok())),
        };
        if next.is_none() {
            break;
        }
        lines += 1;
    }
    assert_eq!(lines, READS * BATCH);
    (cpu_ns(ClockId::ThreadCPUTime) - started) as f64
}

/// A session of turns with one answer each, whose past is replaced now and then. It comes to rest at its end.
fn long(store: &FileStore) {
    let opened = store.create(header("long")).unwrap();
    let writer = Fact::WriterOpened(opened.writer());
    let mut journal = Journal::new(opened);
    journal.push(1_790_000_000_000, &writer).unwrap();
    let (mut first_message, mut answers) = (None, Vec::new());
    let mut push = |facts: &[Fact]| {
        for fact in facts {
            journal.push(1_790_000_000_000, fact).unwrap();
        }
        journal.write().unwrap();
        journal.written().unwrap()
    };
    for turn in 1.. {
        let id = MsgId(format!("m{turn}").into());
        let message = Message::user(id.clone(), "Go on.");
        push(&[Fact::InboxAdded(InboxAdded {
            message: message.clone(),
            lane: Lane::NextTurn,
            wake: true,
            replaces: None,
        })]);
        let (digest, wire, wire_digest, bytes) = (Digest::of(b""), None, None, None);
        let attempted = push(&[
            Fact::TurnStart(TurnStart { turn }),
            Fact::InboxClaimed(InboxClaimed { turn, msgs: vec![id] }),
            Fact::StepStart(StepStart { turn, step: 1, admits: 1 }),
            Fact::UserMessage(UserMessage { turn, step: 1, message }),
            Fact::RequestAttempt(RequestAttempt {
                turn,
                step: 1,
                attempt: 1,
                digest,
                wire,
                wire_digest,
                bytes,
            }),
        ]);
        first_message.get_or_insert(attempted - 1);
        let pieces = vec![piece(turn); BATCH];
        let first = (0..PIECES / BATCH as u32).map(|_| push(&pieces)).min().unwrap() + 1 - BATCH as u64;
        let last = push(&pieces);
        let end = Fact::TurnEnd(TurnEnd { turn, reason: EndReason::Completed });
        let written = push(&[answer(turn, [first, last]), Fact::StepEnd(StepEnd { turn, step: 1 }), end]);
        answers.push(written - 2);
        if let (Some(first), 0) = (first_message, turn % COMPACTED) {
            let message = Message::user(MsgId(format!("summary-{turn}").into()), "What was before.");
            let range = [first, answers[answers.len() - 1 - KEPT]];
            push(&[Fact::SurfaceReplaced(SurfaceReplaced { range, message, by: "bench".into() })]);
        }
        if written + 1 >= LONG {
            break;
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(journal.sync()).unwrap();
    journal.push(1_790_000_000_000, &Fact::WriterIdle(WriterIdle {})).unwrap();
    journal.write().unwrap();
    journal.rest(0);
}

/// Opens the long session as a program does, and says what that took.
fn open(sessions: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let player = ScriptAdapter::new().with("m", "say Yes.\n").unwrap();
    let models = Arc::new(Providers::new(Box::new(|_| None)).with_adapter("script", player));
    let (clock, started) = (std::time::Instant::now(), cpu_ns(ClockId::ProcessCPUTime));
    let agent = Agent::builder(models).model("script:m").unwrap().store(FileStore::new(sessions));
    let agent = runtime.block_on(agent.resume("long")).unwrap();
    let (spent, took) = (cpu_ns(ClockId::ProcessCPUTime) - started, clock.elapsed());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    let peak = peak.unwrap().trim().parse::<f64>().unwrap() * 1024.0;
    drop(agent);

    let mut scan = Scan::open(&FileStore::new(sessions).log_path("long")).unwrap();
    let mut request = Request::default();
    while let Some(event) = scan.next_event().unwrap() {
        request.fold(&event.unwrap());
    }
    let events = scan.tip().next_seq();
    assert!(events >= LONG);
    let messages = request.messages().list();
    let words: usize = messages.iter().map(|message| message.message.text().len()).sum();
    let how = std::env::var("HOW").unwrap();
    if how == "by its index" {
        println!("store: events of a long session\t{events}");
        println!("store: its conversation in messages\t{}", messages.len());
        println!("store: its conversation\t{:.1}", words as f64 / 1e6);
    }
    println!("store: opening it {how}\t{:.0}", took.as_secs_f64() * 1e3);
    println!("store: opening it {how}, CPU\t{:.0}", spent as f64 / 1e6);
    println!("store: opening it {how}, peak memory\t{:.1}", peak / 1e6);
    let rest = (peak - 2.0 * words as f64) / 1e6;
    println!("store: opening it {how}, peak memory less its messages twice\t{rest:.1}");
}

fn piece(turn: u32) -> Fact {
    let chunk = Chunk::TextDelta { index: 0, text: WORDS.into() };
    Fact::AssistantChunk(AssistantChunk { turn, step: 1, attempt: 1, chunk })
}

fn answer(turn: u32, sources: [u64; 2]) -> Fact {
    let text = WORDS.repeat(PIECES as usize);
    let source = Source::Model { provider: "p".into(), model: "m".into(), wire: None, response_id: None };
    let id = MsgId(format!("answer-{turn}.1.1").into());
    let content = vec![Block::Text { text, provider: None }];
    Fact::AssistantMessage(AssistantMessage {
        turn,
        step: 1,
        attempt: 1,
        message: Message { id, role: Role::Assistant, content, source },
        calls: Vec::new(),
        finish: Finish { kind: FinishKind::Stop, raw: "stop".into() },
        usage: None,
        sources: vec![sources],
        interrupted: false,
    })
}

fn header(id: &str) -> SessionHeader {
    SessionHeader {
        kind: SessionTag::Session,
        format: FORMAT,
        id: id.parse().unwrap(),
        created: 0,
        cwd: ".".into(),
        by: "bench".into(),
        parent: None,
        origin: None,
    }
}

/// Nanoseconds of CPU used so far.
fn cpu_ns(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
