//! Every flag, once: `--help` and the reference page come from here.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use terret::core::price::Usd;

/// An agent harness whose every request can be proven, replayed and resumed from one append-only file.
#[derive(Parser, Debug)]
#[command(name = "terret", version, args_conflicts_with_subcommands = true, args_override_self = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Do what a prompt asks, print the answer, and exit.
    ///
    /// The `shell` tool is not confined by the kernel yet: `workspace-write` lets `write` and `edit` change files
    /// of the working directory only, but a shell command can do whatever you can. Reading is not confined
    /// either: `read`, `glob` and `grep` look at any file you can read. Use `--permissions read-only` where
    /// changes are too much.
    #[command(visible_alias = "exec")]
    Run(Box<RunVerb>),
    /// List sessions; look at one; move one to the trash.
    Sessions(Sessions),
    /// Print a session's events.
    Log(Log),
    /// Print a readable transcript, or the exact request of an attempt.
    Show(Show),
    /// Prove a session: every line intact, every request rebuilt from what stood before it.
    Verify(Verify),
    /// Make a new session from the beginning of another, and print its id.
    ///
    /// It begins with the events of the other one, up to and with the point, or all there are. The other session is
    /// only read: it may be running, and it may be damaged behind the point. What was open there is closed in the
    /// new session; nothing runs.
    Fork(Fork),
    /// List the messages that wait in a session; let one go, or take one off.
    Queue(Queue),
    /// List what is known of models: windows, output limits, prices.
    ///
    /// It asks nobody: the list is part of this program. What the configuration says of a model stands over it, and is
    /// marked with `*`. Prices are US dollars per million tokens; `-` is not known, which is not zero.
    #[command(after_help = "Example:\n  terret models anthropic\n  terret models gpt-5 --json")]
    Models(Models),
    /// Look at the installation: places, configuration, keys, damaged logs.
    ///
    /// With paths or `--sessions` at logs only: where each damaged one is damaged, what belongs there, what stands
    /// there, and what to do. A torn tail is no damage: a crash leaves it, and the next run sets it aside. No log is
    /// changed. The exit code is 5 if one is damaged.
    Doctor(Doctor),
    /// Print JSON Schema of the events, of stream-json and of the configuration.
    Schema,
}

/// `run`: the prompt as words or as a flag.
#[derive(clap::Args, Debug)]
pub(crate) struct RunVerb {
    /// What to do; `-` reads it from stdin. Piped text follows it as a block.
    #[arg(value_name = "PROMPT", conflicts_with = "prompt")]
    words: Option<String>,
    #[command(flatten)]
    run: Run,
}

impl RunVerb {
    /// The flags, with the prompt wherever it was given.
    pub(crate) fn into_run(self) -> Run {
        Run { prompt: self.words.or(self.run.prompt), ..self.run }
    }
}

#[derive(clap::Args, Debug, Default)]
pub(crate) struct Run {
    /// What to do, as a flag.
    #[arg(short, long, value_name = "PROMPT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    /// Model to ask: `PROVIDER/MODEL`, `script:demo` or `script:FILE`.
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Go on with the newest session of this directory.
    #[arg(short, long = "continue", conflicts_with_all = ["resume", "session_id", "ephemeral"])]
    pub(crate) continue_: bool,
    /// Go on with a given session.
    #[arg(short, long, value_name = "ADDR", conflicts_with_all = ["session_id", "ephemeral"])]
    pub(crate) resume: Option<String>,
    /// With `-c` or `-r`: go on in a new session that begins with the events of that one, and leave it as it is.
    /// `-r` then takes a point (`-r ADDR@118`) and files too.
    #[arg(long, conflicts_with = "resume_turn")]
    pub(crate) fork: bool,
    /// With `-c` or `-r`: go on inside the turn the last run left open, instead of closing it. Finished calls
    /// do not run again, nor do those that might do something twice.
    #[arg(long)]
    pub(crate) resume_turn: bool,
    /// Id of the new session.
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// Keep no file.
    #[arg(long, conflicts_with = "session_id")]
    pub(crate) ephemeral: bool,
    /// What goes to stdout.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output_format: Format,
    /// The same as `--output-format stream-json`.
    #[arg(long, conflicts_with = "output_format")]
    pub(crate) json: bool,
    /// Write the last answer to a file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// JSON Schema that the final answer has to satisfy.
    ///
    /// The model is told it, and a server that can is made to keep to it. An answer that does not fit is sent back once;
    /// if the next one does not fit either, the turn ends with the error `OUTPUT_SCHEMA`, and nothing is printed. The
    /// schema may refer to its own parts only, and is of this run: the next one has to name it again.
    ///
    /// Example: `terret run --output-schema weather.json "weather in Oslo?" | jq .degrees`
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// Working directory of the tools.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// What tools may do without asking.
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) permissions: Option<Mode>,
    /// Replace the identity section of the prompt by this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) system: Option<PathBuf>,
    /// Offer only these tools, separated by commas; empty: none.
    #[arg(long, value_name = "LIST")]
    pub(crate) tools: Option<String>,
    /// Steps the turn may take.
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub(crate) max_steps: Option<u32>,
    /// Tokens this run may use, read and written, as the provider counts them.
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens_total: Option<u64>,
    /// US dollars this run may cost, at the prices `terret models` shows; a model without one is not asked.
    #[arg(long, allow_negative_numbers = true, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<Usd>,
    /// Wall time of this run, in seconds.
    #[arg(long, allow_negative_numbers = true, value_name = "S")]
    pub(crate) timeout: Option<u64>,
    /// One-off configuration, for example `--set max_retries=0`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Show progress on stderr even when it is not a terminal.
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// The final answer and nothing else.
    #[default]
    Text,
    /// One object about the run.
    Json,
    /// The log itself, line by line.
    StreamJson,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Look only: refuses `write`, `edit` and `shell`.
    ReadOnly,
    /// Change files in the working directory; run commands.
    WorkspaceWrite,
    /// Change files anywhere.
    Full,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) action: Option<SessionAction>,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SessionAction {
    /// Everything known about one session.
    Show {
        /// Session: `latest`, a prefix, an id or a path.
        address: String,
    },
    /// Move a session to the trash.
    Rm {
        /// Session: a prefix or an id.
        address: String,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct Log {
    /// `SESSION[@POINT]`: `latest`, a prefix, an id or a path; `@118` or `@turn.step[#attempt]`.
    pub(crate) address: String,
    /// The stored lines, byte for byte.
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on printing what is added.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Begin at this event.
    #[arg(long, allow_negative_numbers = true, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Only events of this type.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Only the events near this one.
    #[arg(long, allow_negative_numbers = true, value_name = "SEQ")]
    pub(crate) around: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Show {
    /// `SESSION[@POINT]`: `latest`, a prefix, an id or a path; `@118` or `@turn.step[#attempt]`.
    pub(crate) address: String,
    /// The exact body of the request at that point (the last one, without a point).
    #[arg(long)]
    pub(crate) request: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Verify {
    /// Session: `latest`, a prefix, an id or a path.
    pub(crate) address: Option<String>,
    /// Every session.
    #[arg(long, conflicts_with_all = ["address", "head"])]
    pub(crate) all: bool,
    /// A head noted earlier, `SEQ:HASH`: proves that nothing up to it was changed or removed.
    #[arg(long, value_name = "SEQ:HASH")]
    pub(crate) head: Option<String>,
    /// Print JSON, one object a session.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Fork {
    /// `SESSION[@POINT]`: `latest`, a prefix, an id or a path; `@118` takes event 118 along and none behind it,
    /// `@turn.step[#attempt]` that step or attempt.
    pub(crate) address: String,
    /// Id of the new session.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Queue {
    /// Session: `latest`, a prefix, an id, or (to look only) a path.
    pub(crate) address: String,
    /// Let a held message go: the next run reads it. An id or the beginning of one.
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) release: Option<String>,
    /// Take a message off. An id or the beginning of one.
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) rm: Option<String>,
    /// Print JSON, one object a line.
    #[arg(long, conflicts_with_all = ["release", "rm"])]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Models {
    /// Only this provider, or what has this in its name where no provider is called so.
    pub(crate) provider: Option<String>,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// One-off configuration, as for `run`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Doctor {
    /// Only these logs: a log file, a session's directory, or a home with all its sessions.
    #[arg(value_name = "PATH", conflicts_with_all = ["plugins", "config", "sets"])]
    pub(crate) paths: Vec<PathBuf>,
    /// Only the logs of all sessions.
    #[arg(long, conflicts_with_all = ["paths", "plugins", "config", "sets"])]
    pub(crate) sessions: bool,
    /// Make a new session of everything before the damage of this one log, and print its id. The damaged log stays
    /// as it is.
    #[arg(long, requires = "paths")]
    pub(crate) fork_at_last_good: bool,
    /// Make a new session of everything that is intact in this one damaged log: a fork before the damage, with the
    /// lines behind it kept as data and told to the model. The damaged log stays as it is.
    #[arg(long, requires = "paths", conflicts_with = "fork_at_last_good")]
    pub(crate) salvage: bool,
    /// Only the plugins of a run, outermost first, and where each listens.
    #[arg(long)]
    pub(crate) plugins: bool,
    /// Only one provider: where it is, what it speaks, and each column of its dialect row (also by model:
    /// `PROVIDER/MODEL`).
    #[arg(long, value_name = "PROVIDER", conflicts_with_all = ["plugins", "config", "paths", "sessions"])]
    pub(crate) provider: Option<String>,
    /// Only the configuration: each effective value and where it comes from.
    #[arg(long)]
    pub(crate) config: bool,
    /// One-off configuration, as for `run`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

/// An amount of money in the unit of budgets, a millionth of a dollar.
fn dollars(text: &str) -> Result<Usd, String> {
    let amount: Option<Usd> = text.strip_prefix('$').unwrap_or(text).parse().ok();
    let exact = amount.filter(|amount| Usd::from_micros(amount.micros_up()) == *amount);
    exact.ok_or_else(|| "US dollars are a decimal from 0 up with at most six places".to_owned())
}
